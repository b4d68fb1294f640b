"""ListOps: nested lists of digits under MIN, MAX, MED and SM, whose value is the class.

A tree is drawn level by level: every node above the deepest level is an operator with probability
0.25, which has 2 to `max_args` children, and else a digit. Trees are drawn until the number of
tokens lies strictly between `min_length` and `max_length`. That is the distribution of the
recursive generator of the Long Range Arena, with operations on whole levels in place of recursion.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from .rows import TaskRows

OPERATORS = ("[MIN", "[MAX", "[MED", "[SM")
SYMBOLS = (*"0123456789", *OPERATORS, "]")
OPEN, CLOSE = 10, 14
P_OPERATOR = 0.25
NUM_CLASSES = 10
# numbers of trees this long and shorter are small enough for two to be equal
_MAY_REPEAT = 48
# in a row, before there seem to be no more
_MANY_REPEATS = 2_000
_MANY_DRAWS = 100_000


@dataclass(frozen=True)
class ListOpsSettings:
    """Which trees are kept.

    Args:
        min_length, max_length: Tokens of a tree lie strictly between them.
        max_depth: Level of the deepest leaves, the root being level 1.
        max_args: Most children of an operator.
    """

    min_length: int = 500
    max_length: int = 2000
    max_depth: int = 10
    max_args: int = 10

    def __post_init__(self):
        if self.max_depth < 2 or self.max_args < 2:
            raise ValueError(
                f"max_depth={self.max_depth} and max_args={self.max_args} were given: each is at"
                " least 2."
            )
        if not 1 <= self.min_length < self.max_length - 1:
            raise ValueError(
                f"min_length={self.min_length} and max_length={self.max_length} were given: a"
                " length strictly between them is needed, and min_length is at least 1."
            )


class ListOps(TaskRows):
    """Trees as symbol numbers `input_ids` (see `SYMBOLS`, plus `first_id`) and value `labels`.

    Row `i` depends on `seed`, `i` and the settings alone.

    Args:
        num_examples: Size of the data set.
        settings: Which trees are kept.
        seed: Different seeds give different data.
        first_id: Id of the symbol `0`; smaller ids are those of special tokens.
    """

    def __init__(
        self, num_examples: int, settings: ListOpsSettings, seed: int = 0, first_id: int = 5
    ):
        if num_examples < 1:
            raise ValueError(f"num_examples={num_examples} was given: at least 1 is accepted.")
        self.settings, self.seed, self.first_id = settings, seed, first_id
        super().__init__(num_examples)
        self._draws = None
        if settings.min_length < _MAY_REPEAT:
            self._draws = self._find_distinct(num_examples)

    def read(self, row: int) -> dict:
        symbols, value = self._make(row if self._draws is None else self._draws[row])
        return {"input_ids": symbols + np.uint8(self.first_id), "labels": value}

    def find_lengths(self, rows: np.ndarray) -> np.ndarray:
        draws = rows if self._draws is None else self._draws[rows]
        bar = tqdm(draws, "Drawing lengths", leave=False, disable=len(draws) < 10_000)
        return np.array(
            [_count(draw_levels(self._generator(int(draw)), self.settings)) for draw in bar]
        )

    def _generator(self, draw: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, 2, int(draw)))

    def _make(self, draw: int) -> tuple[np.ndarray, int]:
        generator = self._generator(draw)
        return fill_tree(draw_levels(generator, self.settings), generator)

    def _find_distinct(self, num_examples: int) -> np.ndarray:
        """Numbers of the first draws that are all different trees."""
        seen: set = set()
        draws: list[int] = []
        draw = last = 0
        while len(draws) < num_examples:
            content = self._make(draw)[0].tobytes()
            if content not in seen:
                seen.add(content)
                draws.append(draw)
                last = draw
            draw += 1
            if draw > last + _MANY_REPEATS:
                raise ValueError(
                    f"{num_examples} different trees with more than {self.settings.min_length} and"
                    f" fewer than {self.settings.max_length} tokens were asked for: {len(draws)}"
                    f" were found in {draw} draws."
                )
        return np.array(draws)


@dataclass(frozen=True)
class Level:
    """Nodes of one depth: which are operators `(n,)`, how many children each operator has, and
    which node of the next level is its first child."""

    is_operator: np.ndarray
    children: np.ndarray
    first_child: np.ndarray


def draw_levels(generator: np.random.Generator, settings: ListOpsSettings) -> list[Level]:
    """The shape of a tree that is kept, from the root down."""
    for _ in range(_MANY_DRAWS):
        levels: list[Level] = []
        # the root is an operator: a single digit is never long enough
        length, is_operator = 1, np.ones(1, dtype=bool)
        while length < settings.max_length:
            count = int(np.count_nonzero(is_operator))
            children = generator.integers(2, settings.max_args + 1, size=count)
            ends = children.cumsum()
            levels.append(Level(is_operator, children, ends - children))
            if count == 0:
                break
            # every operator has a closing bracket, every child is at least one token
            num_nodes = int(ends[-1])
            length += count + num_nodes
            if len(levels) + 1 == settings.max_depth:
                leaves = np.zeros(num_nodes, dtype=bool)
                levels.append(Level(leaves, children[:0], children[:0]))
                break
            is_operator = generator.random(num_nodes) <= P_OPERATOR
        if settings.min_length < length < settings.max_length:
            return levels
    raise ValueError(
        f"No tree of {_MANY_DRAWS} has more than {settings.min_length} and fewer than"
        f" {settings.max_length} tokens with max_depth={settings.max_depth} and"
        f" max_args={settings.max_args}."
    )


def _count(levels: list[Level]) -> int:
    return sum(len(level.is_operator) + len(level.children) for level in levels)


def fill_tree(levels: list[Level], generator: np.random.Generator) -> tuple[np.ndarray, int]:
    """Digits and operators for a shape: symbols `(L,)` in reading order, and the value."""
    num_nodes = [len(level.is_operator) for level in levels]
    limits = np.cumsum(num_nodes)[:-1]
    digits = np.split(generator.integers(0, 10, size=sum(num_nodes)), limits)
    kinds = generator.integers(0, len(OPERATORS), size=_count(levels) - sum(num_nodes))
    kinds = np.split(kinds, np.cumsum([len(level.children) for level in levels])[:-1])
    values, sizes = _reduce(levels, digits, kinds)
    symbols = np.empty(int(sizes[0][0]), dtype=np.uint8)
    # from the root down: where each node begins
    begins = np.zeros(1, dtype=np.int64)
    for depth, level in enumerate(levels):
        symbols[begins] = digits[depth]
        if len(level.children) == 0:
            break
        opened = begins[level.is_operator]
        symbols[opened] = OPEN + kinds[depth]
        symbols[opened + sizes[depth][level.is_operator] - 1] = CLOSE
        widths = sizes[depth + 1]
        begins = widths.cumsum() - widths
        begins += np.repeat(opened + 1 - begins[level.first_child], level.children)
    return symbols, values


def _reduce(
    levels: list[Level], digits: list[np.ndarray], kinds: list[np.ndarray]
) -> tuple[int, list[np.ndarray]]:
    """Value of the tree, and the tokens of every node by level; from the leaves up."""
    sizes: list[np.ndarray] = []
    values = None
    for depth in range(len(levels) - 1, -1, -1):
        level, below = levels[depth], values
        values, size = digits[depth].copy(), np.ones(len(digits[depth]), dtype=np.int64)
        if len(level.children):
            size[level.is_operator] = 2 + np.add.reduceat(sizes[-1], level.first_child)
            values[level.is_operator] = _apply(kinds[depth], below, level)
        sizes.append(size)
    return int(values[0]), sizes[::-1]


def _apply(kinds: np.ndarray, values: np.ndarray, level: Level) -> np.ndarray:
    """Values of a level's operators, given those of the next level."""
    first, counts = level.first_child, level.children
    # digits are sorted among siblings, so that all but the sum can be looked up
    owners = np.repeat(np.arange(0, 10 * len(first), 10), counts)
    ordered = np.sort(owners + values) - owners
    middle = (ordered[first + (counts - 1) // 2] + ordered[first + counts // 2]) // 2
    total = np.add.reduceat(values, first) % 10
    return np.choose(kinds, [ordered[first], ordered[first + counts - 1], middle, total])


def evaluate(symbols: Sequence[str]) -> int:
    """The value of an expression, read from its symbols.

    >>> evaluate("[MAX 2 [MED 3 8 9 1 ] [SM 7 8 ] ]".split())
    5
    """
    open_lists: list[tuple[str, list[int]]] = []
    for place, symbol in enumerate(symbols):
        if symbol in OPERATORS:
            open_lists.append((symbol, []))
            continue
        if symbol == "]" and open_lists and open_lists[-1][1]:
            function: Any = _FUNCTIONS[open_lists[-1][0]]
            value = function(open_lists.pop()[1])
        elif symbol.isdigit() and len(symbol) == 1:
            value = int(symbol)
        else:
            raise ValueError(f"Symbol {place} of the expression is {symbol!r} out of place.")
        if not open_lists:
            if place < len(symbols) - 1:
                raise ValueError(f"The expression ends at symbol {place} of {len(symbols)}.")
            return value
        open_lists[-1][1].append(value)
    raise ValueError(f"The expression lacks {len(open_lists)} closing brackets.")


_FUNCTIONS = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda values: int(np.median(values)),
    "[SM": lambda values: sum(values) % 10,
}


def read_source(source: str) -> list[str]:
    """Symbols of an expression as the files write it, with parentheses around pairs.

    >>> read_source("( ( ( [MAX 2 ) 9 ) ] )")
    ['[MAX', '2', '9', ']']
    """
    return source.replace("(", " ").replace(")", " ").split()


def write_source(symbols: Sequence[str]) -> str:
    """An expression as the files write it: left-nested pairs in parentheses.

    >>> write_source(["[MAX", "2", "9", "]"])
    '( ( ( [MAX 2 ) 9 ) ] )'
    """
    # texts of the lists that are open, each a growing left-nested pair
    open_lists: list[tuple[int, list[str]]] = []
    for symbol in symbols:
        if symbol in OPERATORS:
            open_lists.append((0, [symbol]))
            continue
        text = symbol
        if symbol == "]":
            pairs, pieces = open_lists.pop()
            text = "( " * (pairs + 1) + " ".join(pieces) + " ] )"
        if not open_lists:
            return text
        pairs, pieces = open_lists[-1]
        pieces.append(f"{text} )")
        open_lists[-1] = (pairs + 1, pieces)
    raise ValueError(f"The expression lacks {len(open_lists)} closing brackets.")


def listops(
    num_examples: int,
    min_length: int = 500,
    max_length: int = 2000,
    *,
    max_depth: int = 10,
    max_args: int = 10,
    seed: int = 0,
    first_id: int = 5,
) -> ListOps:
    """The ListOps task of the Long Range Arena, made when asked for; no two trees are equal.

    Args:
        num_examples: Size of the data set.
        min_length, max_length, max_depth, max_args: See `ListOpsSettings`.
        seed, first_id: See `ListOps`.

    >>> data = listops(3, min_length=4, max_length=9, seed=1)
    >>> symbols = [SYMBOLS[i - 5] for i in data[0]["input_ids"]]
    >>> evaluate(symbols) == data[0]["labels"]
    True
    """
    settings = ListOpsSettings(min_length, max_length, max_depth, max_args)
    return ListOps(num_examples, settings, seed, first_id)
