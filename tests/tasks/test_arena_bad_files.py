"""Files and options that do not fit are refused in a sentence, whatever is wrong with them."""

import pickle

import numpy as np
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

from hf_mixers.tasks import load_arena_task

from . import release

TEXTS = "text,label\n" + "".join(f"review {n},{n % 2}\n" for n in range(20))


def write(folder, **parts):
    folder.mkdir(exist_ok=True)
    for part, content in parts.items():
        (folder / f"{part}.csv").write_text(content)
    return folder


@pytest.mark.parametrize(
    ("train", "test", "options", "words"),
    [
        (TEXTS + ",1\n", TEXTS, {}, "text has 1 rows without text"),
        (TEXTS, "text,label\nabc,0\n,1\n", {"reference_validation": True}, "rows without text"),
        ("text,label\n1,0\n2,1\n", TEXTS, {}, "text holds int64"),
        (TEXTS + "abc,\n", TEXTS, {}, "label has rows without a label"),
        (TEXTS, "text,label\nabc,\ndef,1\n", {}, "label has rows without a label"),
        (TEXTS, "words,label\nabc,1\n", {}, "no column text: it has words, label"),
        (TEXTS, "text,class\nabc,1\n", {}, "no column label: it has text, class"),
        ("", TEXTS, {}, "train.csv cannot be read as csv: No columns"),
        (TEXTS, TEXTS, {"validation_fraction": 0}, "needs a share between 0 and 1"),
        (TEXTS, TEXTS, {"max_length": -5}, "max_length=-5 was given: at least 1"),
        (TEXTS, TEXTS, {"max_length": 1.5}, "max_length=1.5 was given: int or none"),
        (TEXTS, TEXTS, {"append_eos": 1}, "append_eos=1 was given: bool"),
        (TEXTS, TEXTS, {"padding": "left"}, "padding='left' was given: none, batch, max"),
        (TEXTS, TEXTS, {"tokenization": "chars", "min_count": 99}, "no character is as frequent"),
    ],
)
def test_texts(tmp_path, train, test, options, words):
    folder = write(tmp_path / "texts", train=train, test=test)
    with pytest.raises(ValueError, match=words):
        load_arena_task("text", folder, **options)


def test_numbers_of_classes_count_in_the_order_of_their_own_part(tmp_path):
    parts = {}
    for part, names in (("train", ["neg", "pos"]), ("test", ["pos", "neg"])):
        features = Features({"text": Value("string"), "label": ClassLabel(names=names)})
        rows = {"text": [f"{part} {n}" for n in range(20)], "label": [n % 2 for n in range(20)]}
        parts[part] = Dataset.from_dict(rows, features=features)
    DatasetDict(parts).save_to_disk(tmp_path / "saved")
    task = load_arena_task("text", tmp_path / "saved")
    assert task.class_names == ("neg", "pos")
    assert task.parts["test"].labels[:2].tolist() == [1, 0]
    # as the Hub marks rows without a label
    rows = {"text": ["a", "b"], "label": [-1, 0]}
    parts["test"] = Dataset.from_dict(rows, features=parts["test"].features)
    DatasetDict(parts).save_to_disk(tmp_path / "unlabelled")
    with pytest.raises(ValueError, match="rows without a label"):
        load_arena_task("text", tmp_path / "unlabelled")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"\t5", "line 3 is"),
        (b"5", "line 3 is"),
        (b"[MAX 2 ]\tb\t3", "line 3 is"),
        (b"[MAX 2 ]\t10", "line 3 has the target"),
        (b"[MEAN 2 ]\t2", "line 3: '\\[MEAN' is not a symbol"),
        (b"\xff\xfe\t3", "line 3 is not UTF-8"),
    ],
)
def test_lines_of_listops(tmp_path, line, words):
    release.write_listops(tmp_path / "listops")
    file = tmp_path / "listops" / "basic_train.tsv"
    good = file.read_bytes().splitlines()[:2]
    file.write_bytes(b"\n".join([*good, line]) + b"\n")
    with pytest.raises(ValueError, match=words):
        # what is not UTF-8 or no symbol is found when it is read
        load_arena_task("listops", tmp_path / "listops").parts["train"][1]


def test_files_of_listops_without_expressions(tmp_path):
    release.write_listops(tmp_path / "listops")
    (tmp_path / "listops" / "basic_val.tsv").write_text("Source\tTarget\n")
    with pytest.raises(ValueError, match=r"basic_val.tsv holds no expressions"):
        load_arena_task("listops", tmp_path / "listops")


@pytest.mark.parametrize("target", ["12", "3.7", ""])
def test_targets_of_tables_of_listops(tmp_path, target):
    good = "Source,Target\n[MAX 2 3 ],3\n"
    bad = f"{good}[MAX 2 3 ],{target}\n"
    folder = write(tmp_path / "tables", train=good, validation=good, test=bad)
    with pytest.raises(ValueError, match="target"):
        load_arena_task("listops", folder)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({b"labels": [10, 0, 1, 2]}, "labels other than one of 0 to 9"),
        ({b"labels": [0, 1]}, "labels other than one of 0 to 9"),
        ({b"data": np.zeros((4, 3072), np.float32)}, "type float32"),
        ({b"labels": None}, "has no labels"),
        ([1, 2], "has no data"),
    ],
)
def test_batches_of_pixels(tmp_path, changes, words):
    release.write_cifar(tmp_path)
    file = tmp_path / "data_batch_2"
    content = pickle.loads(file.read_bytes(), encoding="bytes")
    if isinstance(changes, list):
        content = changes
    else:
        content = {name: one for name, one in (content | changes).items() if one is not None}
    file.write_bytes(pickle.dumps(content))
    with pytest.raises(ValueError, match=words):
        load_arena_task("image", tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_train": "many"}, "num_train='many' was given: int is accepted"),
        ({"num_train": 2.5}, "num_train=2.5 was given"),
        ({"num_train": True}, "num_train=True was given"),
        ({"max_length": None}, "max_length=None was given"),
        ({"data_seed": -1}, "data_seed=-1 was given: at least 0"),
    ],
)
def test_options(options, words):
    with pytest.raises(ValueError, match=words):
        load_arena_task("listops", **options)


def test_whole_numbers_may_be_written_as_others():
    given = {"num_validation": 1, "num_test": 1, "min_length": 20, "max_length": 1e2}
    assert len(load_arena_task("listops", num_train=1e1, **given).parts["train"]) == 10
