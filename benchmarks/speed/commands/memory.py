"""Peak memory: of a training step kept in different ways, of very long sequences.

A training step on 64k tokens (16 blocks): the plain twin, ours from plain operations, ours, ours
with gradient checkpointing, ours reversible. One optimiser step on a single sequence of 1.5M
tokens (22 tracks of 8 channels, 88 hidden units, 21 blocks). Inference on 8M tokens.
These long ones run once, after a tiny warm-up, one at a time; --time-limit does not hold for them.
"""

from ..contenders import chord_settings
from ..interleaved import Case, Group
from ..options import Options
from ..steps import Mode, build_single

LENGTH = 65_536
LONG_TRAINING = 1_500_000
LONG_INFERENCE = 8_000_000


def make_groups(options: Options) -> list[Group]:
    length, long, longer = LENGTH, LONG_TRAINING, LONG_INFERENCE
    if options.smoke:
        length, long, longer = 512, 1024, 2048

    def make_case(task: str, name: str, mode: Mode, length: int, settings: dict) -> Case:
        labels = {"task": task, "network": name, "mode": mode, "length": length}
        arguments = {"name": name, "length": length, "mode": mode, "seed": options.seed}
        return Case(labels, build_single, {**arguments, "settings": settings})

    def narrow(length: int) -> dict[str, int]:
        return {"max_position_embeddings": length, "track_size": 8, "intermediate_size": 88}

    kept = ("plain", "unfused", "chordmixer", "checkpointed", "reversible")
    groups = [
        Group(
            [
                make_case("training step", name, "training", length, chord_settings(length))
                for name in kept
            ]
        )
    ]
    for name in ("reversible", "checkpointed", "chordmixer", "plain"):
        case = make_case("long training step", name, "training", long, narrow(long))
        groups.append(Group([case], repeats=0, time_limit=3600))
    case = make_case("long inference", "chordmixer", "forward", longer, narrow(longer))
    groups.append(Group([case], repeats=0, time_limit=3600))
    return groups
