"""What labels stand for: one class, a number, or any number of classes."""

import pytest
from datasets import ClassLabel, Dataset, List, Value

from hf_mixers.data.problems import find_problem, read_as


def make(labels):
    count = len(labels)
    ids = [f"r{number}" for number in range(count)]
    return Dataset.from_dict({"id": ids, "label": labels, "length": [4] * count})


def test_numbers_are_read_from_numbers_and_from_text():
    for labels in ([1, 2, -3], [1.0, 2.0, -3.0], ["1", " 2 ", "-3e0"]):
        rows = read_as(make(labels), "regression")
        assert rows["label"][:] == [1, 2, -3]
        assert rows.features["label"] == Value("float64")
        assert rows.column_names == ["id", "label", "length"]
        assert find_problem(rows) == "regression"


def test_text_classes_are_read_as_numbers_by_their_names():
    rows = make(["10", "2", "10"]).class_encode_column("label")
    assert read_as(rows, "regression")["label"][:] == [10, 2, 10]


@pytest.mark.parametrize("wrong", ["high", "nan", "inf"])
def test_what_is_no_number_is_named(wrong):
    with pytest.raises(ValueError, match=rf"record 'r1' has the label '{wrong}': a number"):
        read_as(make(["1.5", wrong]), "regression")


def test_lists_of_labels_hold_each_once():
    rows = read_as(make(["b, a,b", "c", ","]), "multi_label", separator=",")
    assert rows["label"][:] == [[0, 1], [2], []]
    assert rows.features["label"] == List(ClassLabel(names=["a", "b", "c"]))
    assert find_problem(rows) == "multi_label"


def test_no_label_at_all_and_no_separator_are_errors():
    with pytest.raises(ValueError, match="No record has a label"):
        read_as(make([";", ";"]), "multi_label")
    with pytest.raises(ValueError, match="at least one character"):
        read_as(make(["a"]), "multi_label", separator="")


def test_classes_stay_and_decimal_numbers_are_none():
    rows = read_as(make(["x", "y"]), "classes")
    assert rows.features["label"] == ClassLabel(names=["x", "y"])
    assert find_problem(rows) == "classes"
    with pytest.raises(ValueError, match="problem=regression learns to predict them"):
        read_as(make([0.5, 1.0]), "classes")
    with pytest.raises(ValueError, match="classes, regression, multi_label are accepted"):
        read_as(make(["a"]), "ranking")
