"""Sequences of a pack that stand side by side in one dense block, because they are about as long.

From the pack it needs its order: neighbours in it have similar lengths.
"""

from collections.abc import Sequence

from .packing import Pack

# blocks of a batch on an accelerator, on which each costs as many launches as a large one
MOST_BLOCKS = 4


def find_parts(pack: Pack, power: float) -> list[tuple[int, int]]:
    """Sequences of similar lengths, as first and end in the pack; worked out once per pack.

    On accelerators there are at most `MOST_BLOCKS`, whatever the number of sequences.

    Args:
        power: Of its length to which a sequence costs.
    """
    note = ("parts", power)
    if note in pack.notes:
        return pack.notes[note]
    parts, sizes, first = [], pack.sizes, 0
    for last in range(len(sizes)):
        following = sizes[last + 1] if last + 1 < len(sizes) else 0
        # so little padding that scores grow by less than a third, whatever the mix of lengths
        if following < sizes[first] * 7 / 8 - 4 or following == 0:
            parts.append((first, last + 1))
            first = last + 1
    if pack.lengths.device.type != "cpu":
        parts = merge_parts(parts, sizes, MOST_BLOCKS, power)
    pack.notes[note] = parts
    return parts


def merge_parts(
    parts: list[tuple[int, int]], sizes: Sequence[int], most: int, power: float
) -> list[tuple[int, int]]:
    """At most `most` parts, of neighbours joined such that they cost as little as possible."""
    # best[k]: cost of the first k parts and where the last of their groups begins
    best: list[tuple[float, list[int]]] = [(0, [])] + [
        (parts[end - 1][1] * sizes[0] ** power, [0]) for end in range(1, len(parts) + 1)
    ]
    for _ in range(most - 1):
        longer = best[:1]
        for end in range(1, len(parts) + 1):
            choices = [best[end]]
            for begin in range(1, end):
                first = parts[begin][0]
                cost = (parts[end - 1][1] - first) * sizes[first] ** power
                choices.append((best[begin][0] + cost, [*best[begin][1], begin]))
            longer.append(min(choices, key=lambda choice: (choice[0], len(choice[1]))))
        best = longer
    begins = best[len(parts)][1]
    ends = [*begins[1:], len(parts)]
    return [(parts[begin][0], parts[end - 1][1]) for begin, end in zip(begins, ends, strict=True)]
