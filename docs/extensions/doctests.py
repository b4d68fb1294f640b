"""Examples in docstrings as blocks of code: lines from `>>>` to the next empty line."""

import griffe


class FenceDoctests(griffe.Extension):
    """Puts a fence around every doctest before Markdown reads its brackets as links."""

    def on_instance(self, *, obj: griffe.Object, **kwargs) -> None:
        if obj.docstring is not None and ">>>" in obj.docstring.value:
            obj.docstring.value = fence(obj.docstring.value)


def fence(text: str) -> str:
    lines, is_inside = [], False
    for line in text.splitlines():
        if not is_inside and line.lstrip().startswith(">>>"):
            lines.append("```pycon")
            is_inside = True
        elif is_inside and not line.strip():
            lines.append("```")
            is_inside = False
        lines.append(line)
    return "\n".join([*lines, "```"] if is_inside else lines)
