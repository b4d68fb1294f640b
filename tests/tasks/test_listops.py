"""ListOps follows its published generator."""

import random
import time

import numpy as np
import pytest

from hf_mixers.tasks import listops
from hf_mixers.tasks.listops_trees import SYMBOLS, evaluate, read_source, write_source

from ..reference.listops import depth_of, draw_tree, symbols_of, value_of


def spell(example, first_id=5):
    return [SYMBOLS[index - first_id] for index in example["input_ids"]]


@pytest.fixture(scope="module")
def examples():
    data = listops(1500, seed=4)
    return [data[index] for index in range(len(data))]


def test_expressions_have_the_value_that_their_label_says(examples):
    for example in examples[:300]:
        assert evaluate(spell(example)) == example["labels"]


def test_the_evaluator_agrees_with_recursion_over_trees():
    chance = random.Random(3)
    for _ in range(300):
        tree, length = draw_tree(chance, max_depth=5)
        symbols = symbols_of(tree)
        assert len(symbols) == length
        assert evaluate(symbols) == value_of(tree)


def test_files_spell_an_expression_in_parentheses_and_back(examples):
    assert write_source(["[MAX", "2", "9", "]"]) == "( ( ( [MAX 2 ) 9 ) ] )"
    nested = "( ( ( [SM ( ( ( [MED 1 ) 2 ) ] ) ) 3 ) ] )"
    assert read_source(nested) == ["[SM", "[MED", "1", "2", "]", "3", "]"]
    assert write_source(read_source(nested)) == nested
    for example in examples[:50]:
        source = write_source(spell(example))
        assert source.count("(") == source.count(")")
        assert read_source(source) == spell(example)


def test_trees_are_distributed_as_the_recursive_generator_draws_them(examples):
    chance, lengths, values, depths = random.Random(1), [], [], set()
    while len(lengths) < 700:
        tree, length = draw_tree(chance)
        if 500 < length < 2000:
            lengths.append(length)
            values.append(value_of(tree))
            depths.add(depth_of(tree))
    drawn = np.array([len(example["input_ids"]) for example in examples])
    assert np.mean(drawn) == pytest.approx(np.mean(lengths), rel=0.06)
    for share in (0.1, 0.5, 0.9):
        assert np.quantile(drawn, share) == pytest.approx(np.quantile(lengths, share), rel=0.12)
    found, expected = (
        np.bincount(labels, minlength=10) / len(labels)
        for labels in ([example["labels"] for example in examples], values)
    )
    assert np.abs(found - expected).max() < 0.05
    assert depths == {9}


def test_statistics_are_those_of_the_arena(examples):
    lengths = np.array([len(example["input_ids"]) for example in examples])
    assert 500 < lengths.min() <= 510
    assert 1900 < lengths.max() < 2000
    assert lengths.mean() == pytest.approx(1050, abs=35)
    classes = np.bincount([example["labels"] for example in examples], minlength=10) / len(examples)
    published = [0.172, 0.094, 0.075, 0.075, 0.091, 0.087, 0.078, 0.075, 0.077, 0.175]
    assert np.abs(classes - published).max() < 0.04
    for example in examples[:200]:
        steps = {"]": -1, **dict.fromkeys(("[MIN", "[MAX", "[MED", "[SM"), 1)}
        depth = np.cumsum([steps.get(symbol, 0) for symbol in spell(example)])
        assert depth.max() == 9
        assert depth[-1] == 0


def test_children_digits_and_operators_are_uniform(examples):
    counts, children = dict.fromkeys(SYMBOLS, 0), []
    for example in examples[:200]:
        stack = []
        for symbol in spell(example):
            counts[symbol] += 1
            if symbol == "]":
                children.append(stack.pop())
            if symbol != "]" and stack:
                stack[-1] += 1
            if symbol.startswith("["):
                stack.append(0)
    operators = [counts[symbol] for symbol in SYMBOLS[10:14]]
    assert counts["]"] == sum(operators)
    assert min(operators) > 0.95 * max(operators)
    digits = [counts[symbol] for symbol in SYMBOLS[:10]]
    assert min(digits) > 0.95 * max(digits)
    # long trees are kept, so that operators with many children are more frequent
    assert set(children) == set(range(2, 11))


def test_rows_depend_on_seed_and_number_alone():
    one, longer, other = listops(5, seed=1), listops(9, seed=1), listops(5, seed=2)
    assert np.array_equal(one[3]["input_ids"], longer[3]["input_ids"])
    assert not np.array_equal(one[3]["input_ids"][:50], other[3]["input_ids"][:50])
    assert np.array_equal(longer.select([7, 3])[1]["input_ids"], one[3]["input_ids"])
    assert one.lengths.tolist() == [len(one[index]["input_ids"]) for index in range(5)]
    assert longer.select([4, 2]).lengths.tolist() == one.lengths[[4, 2]].tolist()
    assert one.labels.tolist() == [one[index]["labels"] for index in range(5)]


def test_short_trees_are_all_different():
    data = listops(800, min_length=3, max_length=6, seed=2)
    contents = {data[index]["input_ids"].tobytes() for index in range(len(data))}
    assert len(contents) == 800
    assert set(data.lengths) == {4, 5}
    for index in range(100):
        assert evaluate(spell(data[index])) == data[index]["labels"]


def test_settings_bound_the_trees():
    data = listops(40, min_length=20, max_length=60, max_depth=3, max_args=4, first_id=0)
    for index in range(len(data)):
        symbols = spell(data[index], first_id=0)
        assert 20 < len(symbols) < 60
        assert evaluate(symbols) == data[index]["labels"]
        depth = 0
        for symbol in symbols:
            depth += symbol.startswith("[")
            depth -= symbol == "]"
            assert depth <= 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_examples": 0}, "num_examples=0"),
        ({"num_examples": 3, "min_length": 5, "max_length": 6}, "strictly between"),
        ({"num_examples": 3, "max_args": 1}, "max_args=1"),
        ({"num_examples": 500, "min_length": 3, "max_length": 5}, "different trees"),
    ],
)
def test_impossible_settings_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        listops(**options)


def test_lengths_that_no_tree_has_are_refused(monkeypatch):
    monkeypatch.setattr("hf_mixers.tasks.listops_trees._MANY_DRAWS", 50)
    with pytest.raises(ValueError, match="No tree of 50 has more than 5000"):
        listops(1, min_length=5000, max_length=6000, max_depth=3)[0]


@pytest.mark.parametrize("symbols", ["[MAX ]", "1 2", "[MAX 1", "] 1", "[MAX x ]"])
def test_broken_expressions_are_refused(symbols):
    with pytest.raises(ValueError, match="expression"):
        evaluate(symbols.split())


@pytest.mark.timing
def test_a_core_makes_hundreds_of_examples_a_second():
    data, start = listops(400, seed=9), time.process_time()
    for index in range(len(data)):
        data[index]
    # 1,100 on an idle core
    assert 400 / (time.process_time() - start) > 250
