"""Questions about the values of inputs, answered in one transfer from the device they are on.

Looking at a value makes the host wait for an accelerator, so all checks of a call ask first and are
answered together.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from .packing import use_static_layout

Answer = Callable[[list[int]], None]


class Border:
    """What is to be known about the inputs of one call before they go in.

    Args:
        checks: Whether inputs are checked at all (`config.check_inputs`); lengths are asked for in
            any case.

    >>> border = Border()
    >>> border.ask(torch.tensor([3, 4]), print)
    >>> border.settle()
    [3, 4]
    """

    def __init__(self, checks: bool = True):
        # while compiling and exporting there are no values to look at
        self.checks = checks and not use_static_layout()
        self._asked: list[tuple[Tensor, Answer]] = []

    def ask(self, numbers: Tensor, answer: Answer) -> None:
        """Call `answer` with `numbers`, whole ones in a vector, once they are known."""
        if numbers.device.type != "meta":
            self._asked.append((numbers, answer))

    def ask_bounds(self, numbers: Tensor, answer: Answer) -> None:
        """Call `answer` with the smallest and the largest of whole numbers, if there are any."""
        if self.checks and numbers.numel():
            self.ask(torch.stack(torch.aminmax(numbers)), answer)

    def ask_if(self, condition: Tensor, answer: Callable[[], None]) -> None:
        """Call `answer` if any entry of `condition` is true."""
        if self.checks:
            self.ask(condition.any()[None], lambda found: answer() if found[0] else None)

    def settle(self) -> None:
        """Answer all questions, in the order in which they were asked."""
        if not self._asked:
            return
        asked, self._asked = self._asked, []
        answers: dict[int, list[int]] = {}
        for device in dict.fromkeys(numbers.device for numbers, _ in asked):
            places = [place for place, (part, _) in enumerate(asked) if part.device == device]
            parts = [asked[place][0].long() for place in places]
            values = torch.cat(parts).tolist()
            for place, part in zip(places, parts, strict=True):
                answers[place], values = values[: len(part)], values[len(part) :]
        for place, (_, answer) in enumerate(asked):
            answer(answers[place])


def make_border(checks: bool) -> Border | None:
    """A border for eager calls; none while compiling, whose inputs must be tensors."""
    return None if use_static_layout() else Border(checks)
