"""How time and memory grow with length: N log N is the promise.

One network built for 2^20 tokens (21 tracks of 8 channels, 128 hidden units, 20 blocks), ours and
the plain twin, on one sequence of 4k to 1M tokens, which passes ceil(log2 N) blocks.
"""

from ..interleaved import Case, Group
from ..options import Options
from ..steps import MODES, build_single

LENGTHS = tuple(1 << power for power in (12, 14, 16, 18, 20))
SETTINGS = {"max_position_embeddings": 1 << 20, "track_size": 8, "intermediate_size": 128}
NAMES = ("chordmixer", "plain")


def make_groups(options: Options) -> list[Group]:
    lengths = (256, 1024) if options.smoke else LENGTHS
    # all lengths in turns, because their ratio is the question
    return [
        Group(
            [
                Case(
                    {
                        "network": name,
                        "mode": mode,
                        "length": length,
                        "token_blocks": length * (length - 1).bit_length(),
                    },
                    build_single,
                    {
                        "name": name,
                        "length": length,
                        "mode": mode,
                        "seed": options.seed,
                        "settings": SETTINGS,
                    },
                )
                for name in NAMES
                for length in lengths
            ]
        )
        for mode in MODES
    ]
