"""Token ids are those of the tokenizer, small on disk, and nothing is cut."""

import logging
import time

import numpy as np
import pytest
import torch
from datasets import ClassLabel, Dataset, DatasetDict, LargeList, List, Value, disable_progress_bars

from hf_mixers import ByteTokenizer, CharTokenizer, DnaTokenizer
from hf_mixers.data import FlatCollator, fix_lengths, load_sequences, tokenize_sequences
from hf_mixers.training import MixerTrainer, MixerTrainingArguments
from tests.families import find_row

disable_progress_bars()

TEXTS = ["ACGTN", "gg", "TTTACGT"]


def make(texts=TEXTS, **columns):
    rows = {"id": [f"r{i}" for i in range(len(texts))], "sequence": texts}
    return Dataset.from_dict(rows | columns)


def draw_bases(count, seed=0):
    picks = np.random.default_rng(seed).integers(4, size=count)
    return np.frombuffer(b"ACGT", np.uint8)[picks].tobytes().decode()


@pytest.mark.parametrize(
    ("tokenizer", "dtype"),
    [
        (DnaTokenizer(), "uint8"),
        (DnaTokenizer(add_cls=True, add_sep=True), "uint8"),
        (ByteTokenizer(), "uint16"),
        (CharTokenizer("ACGTNg"), "uint8"),
    ],
    ids=["dna", "special", "byte", "char"],
)
def test_ids_are_those_of_the_tokenizer_in_few_bytes(tokenizer, dtype):
    encoded = tokenize_sequences(make(label=[0, 1, 0]), tokenizer)
    assert encoded.column_names == ["input_ids", "length", "labels", "id"]
    assert encoded.features["input_ids"] == LargeList(Value(dtype))
    for row, text in zip(encoded, TEXTS, strict=True):
        assert isinstance(row["input_ids"], np.ndarray)
        assert row["input_ids"].dtype == "int64"
        assert row["input_ids"].tolist() == tokenizer(text).input_ids
        assert row["length"] == len(row["input_ids"])
    assert encoded["labels"][:] == [0, 1, 0]


def test_long_lengths_and_large_labels_survive_the_format():
    encoded = tokenize_sequences(make(["ACGT" * 1000] * 2, label=[300, 70000]), DnaTokenizer())
    assert encoded[:2]["length"] == [4000, 4000]
    assert encoded["labels"][:] == [300, 70000]
    assert encoded[0]["labels"] == 300


def test_token_labels_that_are_added_later_keep_their_sign():
    encoded = tokenize_sequences(make(), DnaTokenizer())
    labels = [[-100, 1, 300, 2, 0], [1, -100], [0] * 7]
    encoded = encoded.add_column("labels", labels)
    assert [np.asarray(row["labels"]).tolist() for row in encoded] == labels


def test_lists_of_classes_become_vectors():
    feature = List(ClassLabel(names=["a", "b", "c"]))
    rows = make(label=[[0, 2], [], [1]]).cast_column("label", feature)
    encoded = tokenize_sequences(rows, DnaTokenizer())
    assert encoded["labels"][:] == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert encoded.features["labels"] == List(Value("float32"))


def test_labels_are_whole_numbers_or_floats():
    names = make(label=[0, 1, 0]).cast_column("label", ClassLabel(names=["a", "b"]))
    assert tokenize_sequences(names, DnaTokenizer()).features["labels"] == Value("int64")
    floats = tokenize_sequences(make(label=[0.5, 1.0, 2.0]), DnaTokenizer())
    assert floats.features["labels"] == Value("float32")
    assert "labels" not in tokenize_sequences(make(), DnaTokenizer()).column_names
    with pytest.raises(ValueError, match="column 'label' holds"):
        tokenize_sequences(make(label=["a", "b", "a"]), DnaTokenizer())
    with pytest.raises(ValueError, match="'r1' has no label"):
        tokenize_sequences(make(label=[1, None, 0]), DnaTokenizer())


def test_other_columns_can_be_named():
    dataset = Dataset.from_dict({"dna": ["AC"], "y": [1]})
    encoded = tokenize_sequences(dataset, DnaTokenizer(), column="dna", label_column="y")
    assert encoded.column_names == ["input_ids", "length", "labels"]
    with pytest.raises(ValueError, match="no column 'sequence': it has dna, y"):
        tokenize_sequences(dataset, DnaTokenizer())


def test_too_long_sequences_are_named_or_counted_and_never_cut(caplog):
    with pytest.raises(ValueError, match="Record 'r0' has 6 tokens: at most 5"):
        tokenize_sequences(make(), DnaTokenizer(add_cls=True), max_length=5)
    with caplog.at_level(logging.WARNING):
        encoded = tokenize_sequences(make(), DnaTokenizer(), max_length=5, too_long="drop")
    assert encoded["id"][:] == ["r0", "r1"]
    assert "1 of 3 examples are left out: longer than 5 tokens" in caplog.text
    with pytest.raises(ValueError, match="No example has at most 1"):
        tokenize_sequences(make(), DnaTokenizer(), max_length=1, too_long="drop")
    with pytest.raises(ValueError, match="too_long='cut'"):
        tokenize_sequences(make(), DnaTokenizer(), max_length=5, too_long="cut")


def test_empty_sequences_and_data_sets_are_errors():
    with pytest.raises(ValueError, match="Record 'r1' has no sequence"):
        tokenize_sequences(make(["AC", ""]), DnaTokenizer())
    with pytest.raises(ValueError, match="is empty"):
        tokenize_sequences(make().select([]), DnaTokenizer())


def test_parts_are_encoded_each():
    parts = DatasetDict(train=make(), test=make(["AC"]))
    encoded = tokenize_sequences(parts, DnaTokenizer())
    assert {name: len(part) for name, part in encoded.items()} == {"train": 3, "test": 1}


def test_stream_is_encoded_while_it_is_read(tmp_path):
    (tmp_path / "x.fa").write_text(">a\nACGT\n>b\nGG\n")
    stream = load_sequences(tmp_path / "x.fa", streaming=True)
    rows = list(tokenize_sequences(stream, DnaTokenizer()))
    assert [list(row["input_ids"]) for row in rows] == [[5, 6, 7, 8], [7, 7]]
    assert [row["length"] for row in rows] == [4, 2]


def test_files_give_memory_mapped_ids(tmp_path):
    (tmp_path / "x.fa").write_text(">a\nACGT\n>b\nGG\n")
    dataset = load_sequences(tmp_path / "x.fa", cache_dir=tmp_path / "cache")
    encoded = tokenize_sequences(dataset, DnaTokenizer())
    assert encoded.cache_files
    # asked again, it comes from the cache
    again = tokenize_sequences(dataset, DnaTokenizer())
    assert again.cache_files == encoded.cache_files


@pytest.mark.timing
def test_long_and_many_sequences_are_quick():
    long, joined = draw_bases(500_000), draw_bases(5_000_000, seed=1)
    many = [joined[start : start + 500] for start in range(0, len(joined), 500)]
    for texts in ([long] * 4, many):
        dataset = make(texts)
        start = time.perf_counter()
        encoded = tokenize_sequences(dataset, DnaTokenizer())
        # about 0.1 s on a quiet machine
        assert time.perf_counter() - start < 3
        assert encoded[len(texts) - 1]["length"] == len(texts[-1])


def test_fixed_lengths_are_cut_or_padded_and_reported(caplog):
    encoded = tokenize_sequences(make(label=[0, 1, 0]), DnaTokenizer())
    with caplog.at_level(logging.WARNING):
        fixed = fix_lengths(DatasetDict(train=encoded), 5, pad_token_id=0)["train"]
    assert "Of 3 sequences 1 are cut and 1 padded to 5 tokens." in caplog.text
    assert fixed.column_names == encoded.column_names
    assert fixed.features == encoded.features
    expected = [[5, 6, 7, 8, 9], [7, 7, 0, 0, 0], [8, 8, 8, 5, 6]]
    for row, ids, label in zip(fixed, expected, [0, 1, 0], strict=True):
        assert row["input_ids"].tolist() == ids
        assert row["input_ids"].dtype == "int64"
        assert (row["length"], row["labels"]) == (5, label)
    assert encoded["length"][:] == [5, 2, 7]
    with pytest.raises(ValueError, match="length must be at least 1, got 0"):
        fix_lengths(encoded, 0, pad_token_id=0)


def test_a_sequence_of_white_space_is_refused():
    dataset = Dataset.from_dict({"sequence": ["AC GT\n", " \n"], "id": ["a", "b"]})
    with pytest.raises(ValueError, match="Record 'b' has only white space as its sequence"):
        tokenize_sequences(dataset, DnaTokenizer())
    encoded = tokenize_sequences(dataset.select([0]), DnaTokenizer())
    assert encoded["length"][:] == [4]


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ([[1, 0, 1], [0, 0, 1], [1, 1, 1]], "int64"),
        ([[True, False], [False, False], [True, True]], "bool"),
        ([[0.5, -2.25], [1.0, 3.0], [0.25, 0.0]], "float64"),
    ],
)
@pytest.mark.parametrize("list_type", [List, LargeList])
def test_lists_of_labels_become_vectors_of_floats(labels, kind, list_type):
    dataset = make(label=labels).cast_column("label", list_type(Value(kind)))
    encoded = tokenize_sequences(dataset, DnaTokenizer())
    assert encoded.features["labels"] == List(Value("float32"))
    batch = FlatCollator()([encoded[row] for row in range(3)])
    assert batch["labels"].dtype == torch.float32
    assert batch["labels"].tolist() == [[float(value) for value in row] for row in labels]
    stream = tokenize_sequences(dataset.to_iterable_dataset(), DnaTokenizer())
    assert [row["labels"] for row in stream] == encoded["labels"][:]


def test_lists_of_labels_must_be_as_long_and_complete():
    cases = {
        "Record 'r1' has 1 labels and others 2: as many for every": [[1, 0], [1], [0, 0]],
        "Record 'r0' has 0 labels and others 0: as many for every example, at least": [[], [], []],
        "Record 'r2' has no label at 1": [[1.0, 0.0], [1.0, 1.0], [0.5, None]],
        "Record 'r2' has no label": [[1, 0], [1, 1], None],
    }
    for message, labels in cases.items():
        dataset = make(label=labels).cast_column("label", List(Value("float64")))
        with pytest.raises(ValueError, match=message):
            tokenize_sequences(dataset, DnaTokenizer())
    with pytest.raises(ValueError, match="or lists of them, are accepted"):
        tokenize_sequences(make(label=[["a"], ["b"], ["c"]]), DnaTokenizer())


@pytest.mark.slow
@pytest.mark.parametrize("problem", ["multi_label_classification", "regression"])
def test_vectors_of_labels_are_learned_from(problem, tmp_path):
    labels = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    encoded = tokenize_sequences(make(label=labels), DnaTokenizer())
    model = find_row("chordmixer").build("sequence_classification", problem_type=problem)
    arguments = MixerTrainingArguments(
        str(tmp_path), max_steps=60, learning_rate=1e-2, use_cpu=True, report_to="none"
    )
    trainer = MixerTrainer(
        model, arguments, train_dataset=encoded, eval_dataset=encoded, data_collator=FlatCollator()
    )
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < 0.3 * before
    assert trainer.predict(encoded).label_ids.tolist() == labels
