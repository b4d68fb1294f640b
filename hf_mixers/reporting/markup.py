"""Texts of users and numbers in Markdown."""

import re
from collections.abc import Sequence
from typing import Any

# characters that start markup, and `_` where it does not join the letters of a word
_MARKUP = re.compile(r"([\\`*\[\]<>|~])|(?<!\w)(_)|(_)(?!\w)")


def escape(text: Any) -> str:
    """A text that Markdown shows as it is, on one line.

    >>> print(escape("a|b <script>\\n# c *d* snake_case"))
    a\\|b \\<script\\> # c \\*d\\* snake_case
    """
    one_line = " ".join(str(text).split())
    escaped = _MARKUP.sub(lambda found: "\\" + found.group(), one_line)
    return re.sub(r"^([#+=-])", r"\\\1", escaped)


def show(value: Any) -> str:
    """A setting for a cell of a table."""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(show, value))
    return escape(value)


def table(rows: Sequence[Sequence[str]]) -> str:
    """A table whose first row is its head."""
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def format_number(value: float | None) -> str:
    """A number with three digits after the point, or three significant ones if it is small.

    >>> format_number(0.93614), format_number(0.0012345), format_number(3), format_number(None)
    ('0.936', '0.00123', '3', 'undefined')
    """
    if value is None:
        return "undefined"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3f}" if value == 0 or abs(value) >= 0.1 else f"{value:.3g}"
