"""Where the time of a training step goes: matrix products, copies, activations, sums, the rest.

Ours and the plain twin on 64k tokens, under torch's profiler, which costs little here: operations
are few and large. Copies are what turns tracks and puts them side by side. Memory that is touched
for the first time counts where it is touched.
"""

from torch.profiler import ProfilerActivity, profile

from ..contenders import chord_settings
from ..interleaved import Group, compare_networks
from ..isolated import Built
from ..options import Options
from ..steps import build_single

LENGTH = 65_536
NETWORKS = ("chordmixer", "plain")
# operations of torch by what they do; all others are the rest
PARTS = {
    "products": ("mm", "addmm", "addmm_", "bmm", "baddbmm"),
    "copies": (
        *("index_select", "index", "gather", "roll", "cat", "clone", "copy_", "stack"),
        *("embedding", "slice_backward", "select_backward", "index_put_"),
    ),
    "activations": ("gelu", "gelu_", "gelu_backward"),
    "sums": ("add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_", "sum", "mean"),
}
PART_OF = {f"aten::{name}": part for part, names in PARTS.items() for name in names}


def make_groups(options: Options) -> list[Group]:
    length = 512 if options.smoke else LENGTH
    return [compare_networks(NETWORKS, build, options.seed, length=length)]


def build(name: str, length: int, seed: int) -> Built:
    """A training step that tells the seconds of its parts."""
    built = build_single(name, length, "training", seed, chord_settings(length))

    def step() -> dict[str, float]:
        with profile(activities=[ProfilerActivity.CPU]) as watched:
            built.step()
        seconds = dict.fromkeys((*PARTS, "rest"), 0.0)
        for event in watched.key_averages():
            # optimiser and autograd wrap operations in events of their own
            seconds[PART_OF.get(event.key, "rest")] += event.self_cpu_time_total / 1e6
        return {f"{part}_s": round(value, 4) for part, value in seconds.items()}

    return Built(step, built.facts)
