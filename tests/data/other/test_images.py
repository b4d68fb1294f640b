"""Images of every kind of file are read alike, as pictures or as sequences of pixels."""

import io
import struct

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from hf_mixers.data import FlatCollator, PaddedCollator
from hf_mixers.data.other import PixelScaler, load_images
from hf_mixers.data.other.images import make_image_parts, read_pixels
from tests.data.files import gzipped

X = np.random.default_rng(0).integers(0, 256, (4, 3, 5), dtype=np.uint8)
Y = np.array([1, 0, 1, 0], dtype=np.uint8)


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    return head + array.tobytes()


def png(pixels, mode=None):
    file = io.BytesIO()
    picture = Image.fromarray(pixels)
    (picture.convert(mode) if mode else picture).save(file, "PNG")
    return file.getvalue()


def write_idx(folder):
    (folder / "train-images-idx3-ubyte").write_bytes(idx(X))
    (folder / "train-labels-idx1-ubyte").write_bytes(idx(Y))
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(gzipped(idx(X[:2])))
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(gzipped(idx(Y[:2])))


def write_npz(folder):
    arrays = {"x_train": X, "y_train": Y, "x_test": X[:2, ..., None], "y_test": Y[:2]}
    np.savez(folder / "data.npz", **arrays)
    return folder / "data.npz"


def write_folders(folder):
    for part, count in (("train", 4), ("test", 2)):
        for number in range(count):
            path = folder / part / str(Y[number]) / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(X[number]))


def write_parquet(folder):
    for part, count in (("train", 4), ("test", 2)):
        images = [{"bytes": png(x), "path": None} for x in X[:count]]
        rows = pd.DataFrame({"image": images, "label": Y[:count].astype(int)})
        rows.to_parquet(folder / f"{part}-00000-of-00001.parquet")


@pytest.mark.parametrize("write", [write_idx, write_npz, write_folders, write_parquet])
def test_every_kind_of_file_gives_the_same_images(tmp_path, write):
    parts = load_images(write(tmp_path) or tmp_path)
    assert {name: len(part) for name, part in parts.items()} == {"train": 4, "test": 2}
    assert parts["train"].features["label"].names == ["0", "1"]
    # folders are read class by class
    order = np.argsort(Y, kind="stable") if write is write_folders else np.arange(4)
    assert parts["train"]["label"][:] == Y[order].tolist()
    np.testing.assert_array_equal(read_pixels(parts["train"]), X[order][:, None])


def test_pictures_are_read_as_pictures_sequences_or_shades(tmp_path):
    train = load_images(write_npz(tmp_path))["train"]
    picture, values, ids = (
        PixelScaler.fit(train, how).apply(train) for how in ("picture", "values", "ids")
    )
    expected = (X.astype(float) - X.mean()) / X.std()
    assert picture[1]["pixel_values"].shape == (1, 3, 5)
    np.testing.assert_allclose(picture[1]["pixel_values"][0], expected[1], atol=1e-5)
    np.testing.assert_allclose(values[1]["input_values"][:, 0], expected[1].ravel(), atol=1e-5)
    assert ids[1]["input_ids"].tolist() == X[1].ravel().tolist()
    assert ids.lengths.tolist() == [15] * 4
    scaler = picture.scaler
    assert PixelScaler(**scaler.to_dict()) == scaler
    batch = PaddedCollator()([picture[0], picture[1]])
    assert list(batch) == ["labels", "pixel_values"]
    assert batch["pixel_values"].shape == (2, 1, 3, 5)
    assert str(batch["pixel_values"].dtype) == "torch.float32"
    assert FlatCollator()([values[0], values[1]])["input_values"].shape == (1, 30, 1)
    assert str(FlatCollator()([ids[0]])["input_ids"].dtype) == "torch.int64"


def test_colours_are_scaled_one_by_one_and_pixels_keep_them():
    image = np.stack([np.full((2, 2), 10), np.array([[0, 4], [0, 4]]), np.zeros((2, 2))])
    parts = make_image_parts({"train": ([image.astype(np.uint8)], ["a"], ["x"])})
    rows = PixelScaler.fit(parts["train"], "values").apply(parts["train"])
    assert rows[0]["input_values"].tolist() == [[0, -1, 0], [0, 1, 0], [0, -1, 0], [0, 1, 0]]
    with pytest.raises(ValueError, match="read_as='ids' is for grey images, got 3 channels"):
        PixelScaler.fit(parts["train"], "ids")
    with pytest.raises(ValueError, match="read_as='waves' was given"):
        PixelScaler.fit(parts["train"], "waves")


def test_pictures_of_other_sizes_and_colours_are_refused_or_changed(tmp_path):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "a.png").write_bytes(png(X[0]))
    (tmp_path / "cat" / "b.png").write_bytes(png(np.zeros((6, 4), np.uint8), "RGB"))
    with pytest.raises(ValueError, match=r"cat.b\.png has the shape \(3, 6, 4\)"):
        load_images(tmp_path)
    parts = load_images(tmp_path, image_size=8, channels=1)
    assert read_pixels(parts["train"]).shape == (2, 1, 8, 8)
    assert parts["train"].features["label"].names == ["cat"]
    with pytest.raises(ValueError, match="channels=2 was given"):
        load_images(tmp_path, channels=2)


DEEP = np.arange(0, 64000, 4000, dtype=np.uint16).reshape(4, 4)


@pytest.mark.parametrize(
    ("name", "pixels"),
    [
        ("a.png", DEEP),
        ("a.tif", DEEP),
        ("a.tif", DEEP.astype(">u2")),
        ("a.tif", DEEP.astype(np.int32)),
        ("a.pgm", DEEP),
        ("a.pgm", DEEP // 1000),
    ],
)
@pytest.mark.parametrize("channels", [None, 3])
def test_grey_of_16_bits_keeps_its_shades(tmp_path, name, pixels, channels):
    (tmp_path / "cat").mkdir()
    Image.fromarray(pixels).save(tmp_path / "cat" / name)
    found = read_pixels(load_images(tmp_path, channels=channels)["train"])
    np.testing.assert_array_equal(found[0], np.stack([pixels >> 8] * (channels or 1)))


def tiff_of_12_bits(pixels):
    """A file with one strip: head, packed rows of an even number of pixels, list of tags."""
    rows = b"".join(
        (a << 12 | b).to_bytes(3, "big") for a, b in pixels.reshape(-1, 2).astype(int).tolist()
    )
    height, width = pixels.shape
    tags = {256: width, 257: height, 258: 12, 259: 1, 262: 1, 273: 8, 277: 1, 278: height}
    entries = [struct.pack("<HHII", tag, 4, 1, v) for tag, v in {**tags, 279: len(rows)}.items()]
    head = b"II*\0" + struct.pack("<I", 8 + len(rows))
    return head + rows + struct.pack("<H", len(entries)) + b"".join(entries) + bytes(4)


def test_grey_of_12_bits_keeps_its_shades(tmp_path):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "a.tif").write_bytes(tiff_of_12_bits(DEEP >> 4))
    found = read_pixels(load_images(tmp_path)["train"])
    np.testing.assert_array_equal(found[0, 0], DEEP >> 8)


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        (DEEP.astype(np.float32), r"from 0\.0 to 60000\.0 in mode F"),
        (DEEP.astype(np.int32) * 2, "from 0 to 120000 in mode I"),
        (DEEP.astype(np.int32) - 1, "from -1 to 59999 in mode I"),
        (DEEP.astype(np.int32) // 1000, "from 0 to 60 in mode I"),
    ],
)
def test_grey_of_unknown_depth_is_refused(tmp_path, pixels, message):
    (tmp_path / "cat").mkdir()
    Image.fromarray(pixels).save(tmp_path / "cat" / "a.tif")
    with pytest.raises(ValueError, match=rf"a\.tif has grey {message}: grey of 8, 12 or 16 bits"):
        load_images(tmp_path)


def test_images_with_other_colours_than_the_scaler_are_refused():
    grey, colour = (
        make_image_parts({"train": ([np.zeros((c, 4, 4), np.uint8)], ["a"], ["x"])})["train"]
        for c in (1, 3)
    )
    for train, how, other in ((colour, "picture", grey), (grey, "ids", colour)):
        scaler = PixelScaler.fit(train, how)
        message = rf"has the shape .* the scaler is for \({len(scaler.mean)}, H, W\)\."
        with pytest.raises(ValueError, match=message):
            scaler.apply(other)
        with pytest.raises(ValueError, match=message):
            scaler.scale(read_pixels(other)[0])
        with pytest.raises(ValueError, match=message):
            scaler.scale(np.zeros((4, 4), np.uint8))


def test_bad_folders_are_named(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        load_images(tmp_path / "none")
    with pytest.raises(ValueError, match="holds no pictures in folders"):
        load_images(tmp_path)
    (tmp_path / "a.png").write_bytes(png(X[0]))
    with pytest.raises(ValueError, match=r"a\.png is in no folder that names its class"):
        load_images(tmp_path)
    with pytest.raises(ValueError, match="is neither a folder nor"):
        load_images(tmp_path / "a.png")
    (tmp_path / "cat").mkdir()
    (tmp_path / "a.png").rename(tmp_path / "cat" / "a.png")
    (tmp_path / "cat" / "b.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"b\.png is no picture that can be read"):
        load_images(tmp_path)
    (tmp_path / "train").mkdir()
    with pytest.raises(ValueError, match="has parts beside cat: parts or classes are accepted"):
        load_images(tmp_path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x_test": X, "y_test": Y}, "has no x_train and y_train"),
        ({"x_train": X}, "has x_train without y_train"),
        ({"x_train": X, "y_train": Y[:2]}, "has 4 images and 2 labels in train"),
        ({"x_train": X[:0], "y_train": Y[:0]}, "train holds no images"),
        ({"x_train": X / 255, "y_train": Y}, "has float64 of shape"),
        ({"x_train": X[0], "y_train": Y}, r"has uint8 of shape \(3, 5\)"),
    ],
)
def test_bad_arrays_are_named(tmp_path, arrays, message):
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        load_images(tmp_path / "x.npz")


def test_stored_arrays_are_not_changed(tmp_path):
    write_idx(tmp_path)
    with pytest.raises(ValueError, match="are for pictures in folders and parquet files"):
        load_images(tmp_path, channels=3)
    with pytest.raises(ValueError, match="are for pictures in folders and parquet files"):
        load_images(write_npz(tmp_path), image_size=4)


def test_bad_idx_and_parquet_files_are_named(tmp_path):
    write_idx(tmp_path)
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(idx(X)[:-1])
    with pytest.raises(ValueError, match=r"images-idx3-ubyte has 75 bytes where its head says 76"):
        load_images(tmp_path)
    path.write_bytes(b"what")
    with pytest.raises(ValueError, match="does not begin as an IDX file"):
        load_images(tmp_path)
    path.unlink()
    with pytest.raises(ValueError, match=r"train-labels.* has no file of images or labels"):
        load_images(tmp_path)
    other = tmp_path / "train.parquet"
    other.write_bytes(b"PAR1 not at all")
    with pytest.raises(ValueError, match=r"train\.parquet is no parquet file that can be read"):
        load_images(other)
    pd.DataFrame({"image": [1], "label": [0]}).to_parquet(other)
    with pytest.raises(ValueError, match="row 0 of train holds no bytes of a picture"):
        load_images(other)
    pd.DataFrame({"picture": [1], "label": [0]}).to_parquet(other)
    with pytest.raises(ValueError, match="has no column 'image': it has picture, label"):
        load_images(other)


def test_colour_pictures_are_prepared_by_an_image_processor():
    scaler = PixelScaler("picture", [10.0, 20.0, 30.0], [51.0, 102.0, 255.0])
    processor = scaler.image_processor(8)
    pixels = (255 * np.random.default_rng(0).random((8, 8, 3))).astype("uint8")
    given = processor(pixels, return_tensors="np")["pixel_values"][0]
    assert given == pytest.approx(scaler.scale(pixels.transpose(2, 0, 1)), abs=1e-5)
    assert processor(pixels[:5], return_tensors="np")["pixel_values"][0].shape == (3, 8, 8)
    assert PixelScaler("values", [1.0] * 3, [2.0] * 3).image_processor(8) is None
