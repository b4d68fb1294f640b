"""What Combiner's patterns cost next to full attention: one causal layer, forward and backward.

One sequence of 1k to 64k tokens, 4 heads of 32 channels, segments of the default length; full
attention by sdpa (a segment as long as the sequence), and at 4k also with all its scores in memory
(`eager`). Then 1,000 sequences of 100 tokens next to one of 100,000, for layers built for the
longer: what short sequences cost next to their number of tokens.
"""

import torch
from torch import Tensor

from hf_mixers import CombinerConfig
from hf_mixers.models.attention_combiner import CombinerAttention
from hf_mixers.models.ops_spans import Projected, masked_softmax
from hf_mixers.models.packing import Boundaries, Pack, pack_ragged

from ..interleaved import Case, Group, compare_networks
from ..isolated import Built
from ..options import Options

LENGTHS = (1024, 4096, 8192, 16_384, 65_536)
PATTERNS = (
    "fixed",
    "logsparse",
    "axial_rowmajor",
    "axial_vertical",
    "axial_horizontal",
    "axial_mixture",
    "learnable",
)
# of these a token costs the logarithm of the length
NEARLY_LINEAR = ("logsparse",)
WIDTH, HEADS = 128, 4
EAGER_LENGTH = 4096


def make_groups(options: Options) -> list[Group]:
    lengths, many = ((128, 256), (8, 10)) if options.smoke else (LENGTHS, (1000, 100))
    groups = []
    for length in lengths:
        names = [*PATTERNS, "sdpa"]
        if length == EAGER_LENGTH or options.smoke:
            names.append("eager")
        groups.append(compare_networks(names, build, options.seed, count=1, length=length))
    count, length = many
    for name in PATTERNS:
        shapes = ((count, length), (1, count * length))
        groups.append(Group([_shaped(name, *shape, options.seed) for shape in shapes]))
    return groups


def _shaped(name: str, count: int, length: int, seed: int) -> Case:
    labels = {"network": name, "count": count, "length": length}
    arguments = {"name": name, "count": count, "length": length, "seed": seed}
    return Case(labels, build, arguments)


class EagerAttention(CombinerAttention):
    """Full attention operation by operation."""

    def mix(self, parts: Projected, hidden: Tensor, pack: Pack, cache: None) -> Tensor:
        query, key, value = (part.transpose(0, 1) for part in parts[:3])
        seen = torch.ones(len(hidden), len(hidden), dtype=torch.bool).tril()
        return (masked_softmax(query @ key.transpose(1, 2), seen) @ value).transpose(0, 1)


def build(name: str, count: int, length: int, seed: int) -> Built:
    """An attention layer and sequences, forward and backward."""
    torch.manual_seed(seed)
    total = count * length
    is_full = name in ("sdpa", "eager")
    config = CombinerConfig(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        max_position_embeddings=total,
        pattern="fixed" if is_full else name,
        segment_length=total if is_full else None,
        causal=True,
    )
    attention = (EagerAttention if name == "eager" else CombinerAttention)(config).train()
    if name == "learnable":
        attention.routing.reset_parameters()
    hidden = torch.randn(total, WIDTH, requires_grad=True)
    batch = Boundaries((count, length), torch.device("cpu"))

    def step() -> None:
        attention(hidden, pack_ragged([batch])).sum().backward()
        attention.zero_grad()
        hidden.grad = None

    return Built(step, {"segment": config.segment_length, "tokens": total})
