"""ListOps as its published generator makes it: one tree by recursion, until one fits."""

import random

OPERATORS = ("MIN", "MAX", "MED", "SM")


def draw_tree(chance: random.Random, depth=1, max_depth=10, max_args=10):
    """A digit, or an operator with its children; and the number of tokens."""
    if depth >= max_depth or chance.random() > 0.25:
        return chance.randrange(10), 1
    count = chance.randint(2, max_args)
    children = [draw_tree(chance, depth + 1, max_depth, max_args) for _ in range(count)]
    tree = (chance.choice(OPERATORS), [child for child, _ in children])
    return tree, 2 + sum(length for _, length in children)


def value_of(tree) -> int:
    if isinstance(tree, int):
        return tree
    operator, children = tree
    values = sorted(value_of(child) for child in children)
    half = len(values) // 2
    middle = values[half] if len(values) % 2 else (values[half - 1] + values[half]) // 2
    return {"MIN": values[0], "MAX": values[-1], "MED": middle, "SM": sum(values) % 10}[operator]


def depth_of(tree) -> int:
    return 0 if isinstance(tree, int) else 1 + max(depth_of(child) for child in tree[1])


def symbols_of(tree) -> list[str]:
    if isinstance(tree, int):
        return [str(tree)]
    inner = [symbol for child in tree[1] for symbol in symbols_of(child)]
    return [f"[{tree[0]}", *inner, "]"]
