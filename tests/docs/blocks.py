"""Code blocks of Markdown pages, and how Python blocks are run."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
# what stands behind an expression as its value
_COMMENT = re.compile(r"  # (.+)$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text and the line of the page that it starts in."""

    page: Path
    line: int
    language: str
    code: str


def read_blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, found.start(2)), found[1], found[2])
        for found in _FENCE.finditer(text)
    ]


def run_python(block: Block, names: dict) -> int:
    """Run a block; an expression with a literal in its comment must have that value.

    Returns how many values were compared.
    """
    lines = block.code.splitlines()
    tree = ast.parse(block.code)
    ast.increment_lineno(tree, block.line)
    compared = 0
    for node in tree.body:
        expected = _find_value(lines[node.end_lineno - block.line - 1])
        if isinstance(node, ast.Expr) and expected is not None:
            value = eval(compile(ast.Expression(node.value), str(block.page), "eval"), names)
            assert value == expected[0], f"{block.page}:{node.lineno}: {value!r}"
            compared += 1
        else:
            exec(compile(ast.Module([node], []), str(block.page), "exec"), names)
    return compared


def _find_value(line: str) -> tuple | None:
    """The literal in a comment, in a tuple, or None if there is none."""
    found = _COMMENT.search(line)
    try:
        return (ast.literal_eval(found[1]),) if found else None
    except (ValueError, SyntaxError):
        return None
