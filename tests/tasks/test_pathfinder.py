"""Pathfinder images show what their labels say."""

import time

import numpy as np
import pytest
from scipy import ndimage

from hf_mixers.tasks import pathfinder
from hf_mixers.tasks.pathfinder_settings import DIFFICULTIES, pathfinder_settings


def fill_contour(scene, number):
    """Pixels that a flood fill reaches from the beginning of a contour, whose gaps are closed."""
    radius = 2 * scene.margin + 1
    y, x = np.mgrid[-radius : radius + 1, -radius : radius + 1]
    closed = ndimage.binary_dilation(scene.contours[number] > 0.1, y**2 + x**2 <= radius**2)
    pieces, _ = ndimage.label(closed)
    start = scene.ends[number][0]
    assert closed[start]
    return pieces == pieces[start]


@pytest.mark.parametrize(
    ("resolution", "difficulty", "count"),
    [
        (32, "easy", 40),
        (32, "intermediate", 40),
        (32, "hard", 60),
        (64, "intermediate", 6),
        (128, "easy", 4),
    ],
)
def test_labels_agree_with_a_flood_fill(resolution, difficulty, count):
    data = pathfinder(count, resolution, difficulty, seed=7)
    for index in range(count):
        scene = data.draw(index)
        assert scene.markers[0] in (scene.ends[0][0], scene.ends[1][0])
        assert scene.markers[1] in (scene.ends[0][1], scene.ends[1][1])
        for number, (start, end) in enumerate(scene.ends):
            assert scene.contours[number][start] > 0.1
            assert fill_contour(scene, number)[end]
        one = [start for start, _ in scene.ends].index(scene.markers[0])
        assert scene.label == (scene.markers[1] == scene.ends[one][1])
        assert scene.label == data[index]["labels"]


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_contours_have_their_number_of_dashes_apart_from_each_other(difficulty):
    data = pathfinder(4, 128, difficulty, seed=3)
    for index in range(len(data)):
        scene = data.draw(index)
        for contour in scene.contours:
            _, count = ndimage.label(contour > 0.4, np.ones((3, 3)))
            # places are whole pixels, so that a gap can vanish
            assert DIFFICULTIES[difficulty] - 1 <= count <= DIFFICULTIES[difficulty]
        # zones keep contours from crossing
        assert not (np.minimum(*scene.contours) > 0.4).any()
        assert not (np.minimum(scene.contours.max(0), scene.distractors) > 0.4).any()
        assert (scene.distractors > 0.4).any()


def test_markers_are_the_brightest_and_lie_on_ends():
    data = pathfinder(50, 32, "hard", seed=5)
    for index in range(len(data)):
        scene = data.draw(index)
        for y, x in scene.markers:
            assert scene.image[y, x] >= 250
            near = scene.contours[:, max(0, y - 1) : y + 2, max(0, x - 1) : x + 2]
            assert near.max() > 0.15


def test_labels_are_balanced_and_images_have_their_size():
    data = pathfinder(300, 32, "easy", seed=2)
    assert 0.4 < data.labels.mean() < 0.6
    ids = data[0]["input_ids"]
    assert (ids.dtype, ids.shape, ids.min(), ids.max()) == (np.uint8, (1024,), 0, 255)
    assert data.lengths.tolist() == [1024] * 300
    values = pathfinder(300, 32, "easy", seed=2, pixels="values")[0]["input_values"]
    assert values.dtype == np.float32
    assert np.allclose(values[:, 0], (ids / 255 - 0.5) / 0.5, atol=1e-6)


@pytest.mark.parametrize("resolution", [32, 40, 64, 100, 128, 200, 256])
def test_any_resolution_can_be_drawn(resolution):
    assert len(pathfinder(1, resolution, "easy")[0]["input_ids"]) == resolution**2


def test_rows_depend_on_seed_and_number_alone():
    one, longer, other = (pathfinder(*args) for args in ((3,), (9,), (3,)))
    other.seed = 1
    assert np.array_equal(one[2]["input_ids"], longer[2]["input_ids"])
    assert np.array_equal(longer.select([5, 2])[1]["input_ids"], one[2]["input_ids"])
    assert not np.array_equal(one[2]["input_ids"], other[2]["input_ids"])
    assert not np.array_equal(one[2]["input_ids"], one[1]["input_ids"])


def brightness(scene):
    """Of target and distractor dashes, away from the markers."""
    far = np.ones_like(scene.image, dtype=bool)
    for y, x in scene.markers:
        far[max(0, y - 4) : y + 5, max(0, x - 4) : x + 5] = False
    targets = (scene.contours.max(0) > 0.4) & far
    return scene.image[targets].mean(), scene.image[(scene.distractors > 0.4) & far].mean()


def test_contrast_is_equal_unless_the_published_one_is_asked_for():
    for reference in (False, True):
        data = pathfinder(20, 32, "easy", seed=1, reference_contrast=reference)
        targets, others = np.mean([brightness(data.draw(index)) for index in range(20)], axis=0)
        assert others / targets == pytest.approx(2 / 1.5 if reference else 1, rel=0.03)


def test_settings_are_those_of_the_arena():
    settings = pathfinder_settings(32, "hard")
    assert (settings.contour_length, settings.distractor_length) == (14, 4)
    assert (settings.num_distractors, settings.seed_distance, settings.margins) == (5, 7, (1,))
    assert pathfinder_settings(32, "hard", reference_distractors=True).num_distractors == 10
    assert pathfinder_settings(128, "easy").num_distractors == 17
    assert pathfinder_settings(128, "intermediate").margins == (2, 3)
    assert pathfinder_settings(64, num_distractors=0).num_distractors == 0
    assert not pathfinder(1, 64, "easy", num_distractors=0).draw(0).distractors.any()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"difficulty": "none"}, "easy, intermediate, hard"),
        ({"resolution": 16}, "at least 32"),
        ({"pixels": "floats"}, "ids and values"),
        ({"num_examples": 0}, "num_examples=0"),
        ({"colour": 1}, "colour was given"),
        ({"dash_width": 0.7}, "whole number"),
        ({"margins": ()}, "margins"),
        ({"contour_length": 0}, "at least one dash"),
        ({"seed_distance": 9}, "4 times that distance"),
    ],
)
def test_impossible_settings_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        pathfinder(**{"num_examples": 2, **options})


def test_an_image_without_room_is_refused(monkeypatch):
    monkeypatch.setattr("hf_mixers.tasks.pathfinder_images._TARGET_TRIES", 5)
    with pytest.raises(ValueError, match="No image with two contours"):
        pathfinder(1, 32, contour_length=60)[0]


@pytest.mark.timing
def test_a_core_draws_a_hundred_images_a_second():
    data = pathfinder(100, 32, "hard", seed=9)
    data[0]
    start = time.process_time()
    for index in range(len(data)):
        data[index]
    # 180 and more on an idle core
    assert 100 / (time.process_time() - start) > 60
