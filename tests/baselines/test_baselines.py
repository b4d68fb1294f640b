"""Baselines count what they say, learn what is there and give the same answer in any company."""

import numpy as np
import pytest
import torch

from hf_mixers import DnaTokenizer, reverse_complement
from hf_mixers.baselines import (
    KmerLogisticRegression,
    MarkovBaseline,
    RandomKernelRidge,
    SmallCnn,
)
from hf_mixers.baselines.kmers import count_kmers

BASES = "ACGT"
CLASSIFIERS = [KmerLogisticRegression(k=3), SmallCnn(epochs=2)]
each_classifier = pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda m: type(m).__name__)


def draw(count, seed=0, longest=120):
    """Texts of two classes, told apart by how often a motif occurs."""
    chance = np.random.default_rng(seed)
    texts, labels = [], chance.integers(2, size=count)
    for label in labels:
        letters = chance.choice(list(BASES), size=chance.integers(20, longest))
        for start in range(0, len(letters) - 5, 10):
            if chance.random() < (0.8 if label else 0.1):
                letters[start : start + 5] = list("GATTC")
        texts.append("".join(letters))
    return texts, labels


def count_slowly(text, k, both_strands):
    counts = {}
    for start in range(len(text) - k + 1):
        word = text[start : start + k]
        if set(word) <= set(BASES):
            if both_strands:
                word = min(word, reverse_complement(word))
            counts[word] = counts.get(word, 0) + 1
    return counts


@pytest.mark.parametrize("both_strands", [True, False])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_kmers_are_those_of_a_slow_count(k, both_strands, monkeypatch):
    monkeypatch.setattr("hf_mixers.baselines.kmers.CHUNK_BASES", 150)
    texts = [*draw(10)[0], "A", "ANNACGTNAC", "NNNN"]
    slow = [count_slowly(text, k, both_strands) for text in texts]
    words = [""]
    for _ in range(k):
        words = [word + base for word in words for base in BASES]
    if both_strands:
        words = [word for word in words if word <= reverse_complement(word)]
    expected = [[counts.get(word, 0) for word in words] for counts in slow]
    np.testing.assert_array_equal(count_kmers(texts, k, both_strands).toarray(), expected)


def test_words_of_phases_are_counted_apart(monkeypatch):
    monkeypatch.setattr("hf_mixers.baselines.kmers.CHUNK_BASES", 150)
    texts = [*draw(10)[0], "A", "ANNACGTNAC", "NNNN"]
    found = count_kmers(texts, 2, False, phases=3).toarray()
    for phase in range(3):
        # every word of this phase, set apart by letters that are none
        apart = ["N".join(text[p : p + 2] for p in range(phase, len(text), 3)) for text in texts]
        expected = count_kmers([one or "N" for one in apart], 2, False).toarray()
        np.testing.assert_array_equal(found[:, 16 * phase : 16 * (phase + 1)], expected)
    with pytest.raises(ValueError, match="phases must be 1"):
        KmerLogisticRegression(3, both_strands=True, phases=3)


def test_strands_are_one_only_where_asked():
    texts, labels = draw(60)
    turned = reverse_complement(texts)
    both = KmerLogisticRegression(k=3).fit(texts, labels)
    np.testing.assert_allclose(both.predict_proba(texts), both.predict_proba(turned), rtol=1e-5)
    one = KmerLogisticRegression(k=3, both_strands=False).fit(texts, labels)
    assert np.abs(one.predict_proba(texts) - one.predict_proba(turned)).max() > 0.1


def test_case_and_rna_are_the_same_dna():
    texts, labels = draw(40)
    model = KmerLogisticRegression(k=3).fit(texts, labels)
    rna = [text.lower().replace("t", "u") for text in texts]
    np.testing.assert_array_equal(model.predict_proba(rna), model.predict_proba(texts))


@each_classifier
def test_classifier_answers_alone_as_in_company(model):
    texts, labels = draw(40)
    model.fit(texts, labels)
    others = ["A", "ACGTNNACG", "C" * 15, "G" * 16, "T" * 17, *texts]
    together = model.predict_proba(others)
    alone = np.concatenate([model.predict_proba([text]) for text in others])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(together.sum(1), 1, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [KmerLogisticRegression(k=5), SmallCnn(epochs=12, learning_rate=3e-3, max_batch_size=16)],
    ids=lambda m: type(m).__name__,
)
def test_classifier_finds_the_motif(model):
    model.fit(*draw(400, seed=1), validation=draw(100, seed=2))
    texts, labels = draw(200, seed=3)
    assert (model.predict_proba(texts).argmax(1) == labels).mean() > 0.85


@each_classifier
def test_classifier_depends_on_its_seed_alone(model):
    texts, labels = draw(30)
    first = model.fit(texts, labels).predict_proba(texts)
    torch.manual_seed(77)
    state = torch.random.get_rng_state()
    np.testing.assert_array_equal(model.fit(texts, labels).predict_proba(texts), first)
    assert torch.equal(torch.random.get_rng_state(), state)


@each_classifier
def test_fit_prints_nothing_but_its_bar(model, capsys):
    model.fit(*draw(20))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert all(type(model).__name__ in line for line in captured.err.split("\r") if line.strip())


@each_classifier
def test_labels_without_rows_keep_their_column(model):
    texts, labels = draw(20)
    assert model.fit(texts, labels * 2).predict_proba(texts).shape == (20, 3)


@each_classifier
def test_classes_without_rows_have_probability_zero(model):
    texts, labels = draw(20)
    held_out = (texts, labels * 3)
    for options in ({"num_labels": 4}, {"validation": held_out}):
        found = model.fit(texts, labels * 2, **options).predict_proba(texts)
        assert found.shape == (20, 4)
        assert not found[:, [1, 3]].any()
        np.testing.assert_allclose(found.sum(1), 1, atol=1e-5)
    for options in ({}, {"validation": held_out}):
        largest = 3 if options else 2
        message = rf"num_labels={largest} was given, but there is a label {largest}\."
        with pytest.raises(ValueError, match=message):
            model.fit(texts, labels * 2, num_labels=largest, **options)


def test_regularisation_is_chosen_on_validation_rows():
    texts, labels = draw(80)
    assert KmerLogisticRegression(k=3).fit(texts, labels).C_ == 10
    # labels without a reason: the stronger the penalty, the better
    nonsense = np.random.default_rng(5).integers(2, size=80)
    model = KmerLogisticRegression(k=3).fit(texts, nonsense, validation=draw(60, seed=9))
    assert np.isclose(model.C_, 0.1)


def test_training_stops_early_and_keeps_the_best_epoch():
    texts, labels = draw(40)
    held_out, opposite = draw(40, seed=4)
    model = SmallCnn(epochs=20, patience=2, learning_rate=5e-3)
    model.fit(texts, labels, validation=(held_out, 1 - opposite))
    losses = [record["validation_loss"] for record in model.history]
    assert len(losses) < 20
    assert losses.index(min(losses)) == len(losses) - 3
    picked = model.predict_proba(held_out)[np.arange(40), 1 - opposite]
    assert -np.log(picked).mean() == pytest.approx(min(losses), rel=1e-4)


def test_network_is_small():
    model = SmallCnn(epochs=1).fit(*draw(4))
    size = sum(weights.numel() for weights in model.network.parameters())
    assert 100_000 <= size <= 300_000


def test_batches_hold_every_row_once_within_the_budget():
    model = SmallCnn(batch_tokens=300, max_batch_size=5)
    lengths = np.random.default_rng(0).integers(1, 400, size=100)
    rows = [np.zeros(length, np.uint8) for length in lengths]
    for shuffle in (None, np.random.default_rng(1)):
        batches = list(model._batches(rows, shuffle))
        assert sorted(np.concatenate(batches)) == list(range(100))
        for batch in batches:
            assert len(batch) <= 5
            assert len(batch) == 1 or len(batch) * lengths[batch].max() <= 300


@each_classifier
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], []), "at least one sequence"),
        (("ACGT", [0]), "list of at least one"),
        ((["ACGT", ""], [0, 1]), "number 1 is an empty str"),
        ((["ACGT", 3], [0, 1]), "number 1 is int"),
        ((["ACGT", "AC"], [0]), "one label per sequence"),
        ((["ACGT", "AC"], [0, -1]), "integers from 0 on"),
        ((["ACGT", "AC"], [0.0, 1.0]), "integers from 0 on"),
    ],
)
def test_wrong_examples_are_refused_in_one_sentence(model, arguments, message):
    with pytest.raises(ValueError, match=rf"{message}.*\.$"):
        model.fit(*arguments)


def test_wrong_settings_are_refused_in_one_sentence():
    with pytest.raises(ValueError, match=r"k must be from 1 to 10, got 11\."):
        KmerLogisticRegression(k=11)
    with pytest.raises(ValueError, match=r"C must be positive, got 0\."):
        KmerLogisticRegression(C=0)
    with pytest.raises(ValueError, match=r"got only 0\."):
        KmerLogisticRegression().fit(["A", "C"], [0, 0])
    with pytest.raises(ValueError, match=r"epochs must be at least 1, got 0\."):
        SmallCnn(epochs=0)
    with pytest.raises(ValueError, match=r"order must be from 0 to 6, got 7\."):
        MarkovBaseline(7)
    for unfitted in (KmerLogisticRegression(), SmallCnn()):
        with pytest.raises(ValueError, match="predicts after fit"):
            unfitted.predict_proba(["ACGT"])
    with pytest.raises(ValueError, match="predicts after fit"):
        MarkovBaseline(1).score([4], [5])


def probability_slowly(texts, text, place, order):
    """The chance of each base at a place, by looking at all others one by one."""

    def reach(sequence, at, step):
        known = 0
        while known < order:
            there = at + step * (known + 1)
            if not 0 <= there < len(sequence) or sequence[there] not in BASES:
                break
            known += 1
        return known

    before, after = reach(text, place, -1), reach(text, place, 1)
    left, right = text[place - before : place], text[place + 1 : place + 1 + after]
    counts = np.ones(4)
    for other in texts:
        for at in range(before, len(other) - after):
            same = other[at - before : at] == left and other[at + 1 : at + 1 + after] == right
            if same and other[at] in BASES:
                counts[BASES.index(other[at])] += 1
    return counts / counts.sum()


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_markov_is_a_slow_count_with_back_off(order):
    texts = [*draw(6, longest=60)[0], "ACGTNNACGATTC", "A", "GT"]
    model = MarkovBaseline(order).fit(texts)
    ids = DnaTokenizer()(["ACMGTNGATTCA", "T"])["input_ids"]
    selected = [[True] * 12, [True]]
    found = model.predict_proba(ids, selected)
    # M is a letter, but no base; the same holds for a mask
    expected = [probability_slowly(texts, "ACMGTNGATTCA", at, order) for at in range(12)]
    expected.append(probability_slowly(texts, "T", 0, order))
    np.testing.assert_allclose(found, expected)


def test_markov_reads_texts_and_ids_alike():
    texts = draw(5)[0]
    ids = [np.array(row, np.uint8) for row in DnaTokenizer()(texts)["input_ids"]]
    labels = [np.where(np.arange(len(row)) % 7 == 0, row.astype(int), -100) for row in ids]
    masked = [np.where(label >= 0, 4, row) for row, label in zip(ids, labels, strict=True)]
    from_texts = MarkovBaseline(2).fit(texts).score(masked, labels)
    assert MarkovBaseline(2).fit(ids).score(masked, labels) == from_texts
    assert from_texts["count"] == sum((label >= 0).sum() for label in labels)


def test_markov_reads_padded_tensors():
    model = MarkovBaseline(2).fit(["ACGTACGTAC"])
    ids = torch.tensor([[5, 6, 4, 8, 0], [4, 6, 7, 8, 5]])
    labels = torch.tensor([[-100, -100, 7, -100, -100], [5, -100, -100, -100, 9]])
    score = model.score(ids, labels)
    assert score["count"] == 2
    assert score["accuracy"] == 1.0
    assert score == model.score([ids[0, :4].numpy(), ids[1].numpy()], [labels[0, :4], labels[1]])


def test_frequency_of_bases_has_the_perplexity_of_their_entropy():
    chance = np.random.default_rng(0)
    frequencies = np.array([0.4, 0.1, 0.2, 0.3])
    ids = chance.choice(4, p=frequencies, size=50_000) + 5
    score = MarkovBaseline(0).fit([ids]).score(np.full(50_000, 4), ids)
    entropy = -(frequencies * np.log(frequencies)).sum()
    assert score["perplexity"] == pytest.approx(np.exp(entropy), rel=0.01)
    assert score["accuracy"] == pytest.approx(0.4, abs=0.01)


def test_neighbours_help_where_bases_depend_on_them():
    texts = ["ACGT" * 50, "ACGT" * 20]
    ids = np.array(DnaTokenizer()("ACGT" * 10)["input_ids"])
    labels = np.where(np.arange(40) % 5 == 2, ids, -100)
    masked = np.where(labels >= 0, 4, ids)
    plain, aware = (MarkovBaseline(k).fit(texts).score(masked, labels) for k in (0, 1))
    assert aware["accuracy"] == 1.0
    assert aware["perplexity"] < 1.1 < 3.9 < plain["perplexity"]


def test_markov_refuses_what_it_cannot_count():
    model = MarkovBaseline(1).fit(["ACGT"])
    with pytest.raises(ValueError, match="A, C, G or T, got none"):
        MarkovBaseline(1).fit(["NNN"])
    with pytest.raises(ValueError, match="list of sequences"):
        MarkovBaseline(1).fit("ACGT")
    with pytest.raises(ValueError, match="label that is A, C, G or T"):
        model.score([4, 5], [-100, 9])
    with pytest.raises(ValueError, match="of one shape"):
        model.score([4, 5], [5])
    with pytest.raises(ValueError, match="row of integer token ids"):
        model.score([4.0, 5.0], [5, -100])


def draw_waves(count, num_classes, seed=0):
    """Series of three channels and many lengths; the class is the speed of the second."""
    chance = np.random.default_rng(seed)
    labels = np.arange(count) % num_classes
    series = []
    for label in labels:
        values = chance.normal(size=(chance.integers(15, 60), 3))
        values[:, 1] = np.sin((0.4 + 0.8 * label) * np.arange(len(values)) + chance.uniform(0, 6))
        series.append(values)
    return series, labels


@pytest.mark.parametrize("num_classes", [2, 3])
def test_random_kernels_tell_waves_apart(num_classes):
    model = RandomKernelRidge(200).fit(*draw_waves(60, num_classes))
    series, labels = draw_waves(30, num_classes, seed=1)
    scores = model.predict_scores(series)
    assert scores.shape == (30, num_classes)
    assert (scores.argmax(1) == labels).mean() > 0.9
    again = RandomKernelRidge(200).fit(*draw_waves(60, num_classes)).predict_scores(series)
    np.testing.assert_array_equal(scores, again)


def test_random_kernels_answer_alone_as_in_company():
    model = RandomKernelRidge(50).fit(*draw_waves(40, 2))
    series, _ = draw_waves(10, 2, seed=1)
    alone = np.concatenate([model.predict_scores([one]) for one in series])
    np.testing.assert_allclose(model.predict_scores(series), alone, atol=1e-5)


@pytest.mark.parametrize("num_classes", [2, 3])
def test_random_kernels_give_classes_without_rows_the_lowest_score(num_classes):
    series, labels = draw_waves(40, num_classes)
    model = RandomKernelRidge(50).fit(series, labels * 2, num_labels=6)
    scores = model.predict_scores(series[:5])
    assert scores.shape == (5, 6)
    seen = np.arange(num_classes) * 2
    absent = np.setdiff1d(np.arange(6), seen)
    assert (scores[:, absent].max(1) < scores[:, seen].min(1)).all()
    alone = np.concatenate([model.predict_scores([one]) for one in series[:5]])
    np.testing.assert_allclose(scores, alone, atol=1e-5)


def test_random_kernels_count_shares_and_peaks_slowly():
    series, labels = draw_waves(4, 2)
    model = RandomKernelRidge(6).fit(series, labels)
    features = model.transform(series)
    values = np.pad(series[0], ((100, 100), (0, 0)))
    place, expected = 0, []
    for dilation in np.unique(model._dilations):
        chosen = np.flatnonzero(model._dilations == dilation)
        steps = dilation * (np.arange(9) - 4)
        answers = [
            [
                (model._weights[k].numpy().T * values[100 + step + steps]).sum()
                + float(model._biases[k])
                for step in range(len(series[0]))
            ]
            for k in chosen
        ]
        expected += [np.mean(np.array(answers) > 0, 1), np.max(answers, 1)]
        place += len(chosen)
    np.testing.assert_allclose(features[0], np.concatenate(expected), atol=1e-4)
    assert place == 6


def test_random_kernels_say_what_they_need():
    with pytest.raises(ValueError, match="num_kernels must be at least 1"):
        RandomKernelRidge(0)
    with pytest.raises(ValueError, match="Got 1 series and 2 labels"):
        RandomKernelRidge(5).fit([np.zeros((3, 1))], [0, 1])
    with pytest.raises(ValueError, match=r"Labels of two classes or more are needed, got only 1\."):
        RandomKernelRidge(5).fit([np.zeros((3, 1))], [1])
    with pytest.raises(ValueError, match=r"num_labels=1 was given, but there is a label 1\."):
        RandomKernelRidge(5).fit([np.zeros((3, 1))] * 2, [0, 1], num_labels=1)
    with pytest.raises(ValueError, match="predicts after fit"):
        RandomKernelRidge(5).predict_scores([np.zeros((3, 1))])
