"""What heads of several scales save: an attention layer of MrsFormer beside its twin of one scale.

One sequence of 4,096 tokens, 8 heads of 32 channels, at scales 1, 1, 2, 2, 4, 4, 8, 8 or all at 1;
forward and backward, both with sdpa. Without dropout torch's CPU kernel never holds all scores;
with dropout of attention, as in training by the paper's settings, it does.
"""

import torch

from hf_mixers import MrsFormerConfig
from hf_mixers.models.attention_multiresolution import make_attention
from hf_mixers.models.packing import Boundaries, pack_ragged

from ..interleaved import Group, compare_networks
from ..isolated import Built
from ..options import Options

LENGTH, HEAD_SIZE = 4_096, 32
SCALES = {"mrsformer": [1, 1, 2, 2, 4, 4, 8, 8], "one scale": [1] * 8}
DROPOUTS = (0.0, 0.1)


def make_groups(options: Options) -> list[Group]:
    length = 256 if options.smoke else LENGTH
    return [
        compare_networks(list(SCALES), build, options.seed, dropout=dropout, length=length)
        for dropout in DROPOUTS
    ]


def build(name: str, dropout: float, length: int, seed: int) -> Built:
    """An attention layer and a sequence, forward and backward."""
    torch.manual_seed(seed)
    scales = SCALES[name]
    config = MrsFormerConfig(
        hidden_size=HEAD_SIZE * len(scales),
        num_attention_heads=len(scales),
        head_scales=scales,
        max_position_embeddings=length,
        attention_probs_dropout_prob=dropout,
        attn_implementation="sdpa",
    )
    attention = make_attention(config, 0).train()
    hidden = torch.randn(length, config.hidden_size, requires_grad=True)
    pack = pack_ragged([Boundaries((1, length), torch.device("cpu"))])

    def step() -> None:
        attention(hidden, pack).sum().backward()
        attention.zero_grad()
        hidden.grad = None

    return Built(step, {"heads": len(scales), "width": config.hidden_size})
