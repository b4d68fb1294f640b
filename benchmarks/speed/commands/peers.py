"""Ours beside its plain twin and beside models of transformers, at equal size and equal inputs.

Sequence classifiers with about 1.3M parameters on one sequence of 1k, 4k, 16k and 64k tokens,
forward and training step, time and peak memory. ChordMixer is built for the length at hand, so
that all its blocks are needed. A model that cannot run has a row that says how it failed.
"""

from ..contenders import PEERS
from ..interleaved import Group, compare_networks
from ..options import Options
from ..steps import MODES, build_single

LENGTHS = (1024, 4096, 16_384, 65_536)
NAMES = ("chordmixer", "plain", *PEERS)


def make_groups(options: Options) -> list[Group]:
    lengths = (256,) if options.smoke else LENGTHS
    return [
        compare_networks(NAMES, build_single, options.seed, mode=mode, length=length)
        for length in lengths
        for mode in MODES
    ]
