"""Networks that are measured side by side: ours, its plain twin, and peers from transformers.

All are sequence classifiers over the same vocabulary with about as many parameters that learn.
Tables of learned positions are neither counted nor trained, which favours the peers. They keep
their own defaults in all but size.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from transformers import (
    FNetConfig,
    FNetForSequenceClassification,
    LongformerConfig,
    LongformerForSequenceClassification,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    MraConfig,
    MraForSequenceClassification,
    NystromformerConfig,
    NystromformerForSequenceClassification,
)

from hf_mixers import ChordMixerConfig, ChordMixerForSequenceClassification
from hf_mixers.models.configuration_mixer import PUBLISHED_FORM

from .isolated import Failure
from .plain import PlainChordMixer

PARAMETERS = 1_270_000
# what makes the variants of our own network
VARIANTS = {
    "chordmixer": {},
    "unfused": {"fused": False},
    "checkpointed": {},
    "reversible": {"reversible": True},
}
_IDS = {"vocab_size": 20, "pad_token_id": 0, "num_labels": 2}
_PEERS = {**_IDS, "bos_token_id": None, "eos_token_id": None, "hidden_size": 128}
_DROPOUTS = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def draw_ids(*shape: int, seed: int = 0) -> Tensor:
    """Bases as ids of the DNA tokenizer."""
    return torch.randint(5, 9, shape, generator=torch.Generator().manual_seed(seed))


def chord_settings(length: int, track_size: int = 16) -> dict[str, int | str]:
    """A ChordMixer for `length` tokens all of whose blocks are needed, with `PARAMETERS`."""
    config = ChordMixerConfig(max_position_embeddings=length, track_size=track_size)
    per_channel = 2 * config.hidden_size * config.num_hidden_layers
    hidden = max(8, 8 * round(PARAMETERS / per_channel / 8))
    return {
        "max_position_embeddings": length,
        "track_size": track_size,
        "intermediate_size": hidden,
        # as in the paper, and as in the plain twin
        **PUBLISHED_FORM,
    }


def build_network(name: str, length: int, settings: dict[str, int] | None = None) -> nn.Module:
    """A network by name, for sequences of `length` tokens.

    Args:
        settings: Fields of the configuration of ours and of its plain twin.
    """
    if name in VARIANTS or name == "plain":
        settings = settings or chord_settings(length)
        config = ChordMixerConfig(**_IDS, **settings, **VARIANTS.get(name, {}))
        if name == "plain":
            return PlainChordMixer(config)
        model = ChordMixerForSequenceClassification(config)
        if name == "checkpointed":
            model.gradient_checkpointing_enable()
        return model
    model = PEERS[name](length)
    for part in model.modules():
        if isinstance(table := getattr(part, "position_embeddings", None), nn.Embedding):
            table.requires_grad_(False)
    return model


def count_parameters(model: nn.Module) -> int:
    """Parameters that learn."""
    return sum(one.numel() for one in model.parameters() if one.requires_grad)


def check_mixing(model: nn.Module, length: int) -> None:
    """Refuse a network whose answer does not depend on its last token: it does not do its work."""
    ids = draw_ids(1, length)
    other = ids.clone()
    other[0, -1] = 13 - ids[0, -1]
    model.eval()
    with torch.no_grad():
        if torch.equal(model(input_ids=ids).logits, model(input_ids=other).logits):
            raise Failure("mixes nothing here: its last token has no effect on its answer")


def _modernbert(length: int) -> nn.Module:
    config = ModernBertConfig(
        **_PEERS,
        num_hidden_layers=8,
        num_attention_heads=2,
        intermediate_size=232,
        max_position_embeddings=length,
        cls_token_id=2,
        sep_token_id=3,
        attn_implementation="sdpa",
    )
    return ModernBertForSequenceClassification(config)


def _longformer(length: int) -> nn.Module:
    config = LongformerConfig(
        **_PEERS,
        **_DROPOUTS,
        num_hidden_layers=5,
        num_attention_heads=2,
        intermediate_size=512,
        # positions start behind the padding token, and rows are padded to whole windows
        max_position_embeddings=length + 513,
        sep_token_id=3,
    )
    return LongformerForSequenceClassification(config)


def _nystromformer(length: int) -> nn.Module:
    config = NystromformerConfig(
        **_PEERS,
        **_DROPOUTS,
        num_hidden_layers=6,
        num_attention_heads=2,
        intermediate_size=544,
        max_position_embeddings=length,
        # with its default, which is the number of landmarks, it would compute full attention
        segment_means_seq_len=length,
    )
    return NystromformerForSequenceClassification(config)


def _mra(length: int) -> nn.Module:
    config = MraConfig(
        **_PEERS,
        **_DROPOUTS,
        num_hidden_layers=6,
        num_attention_heads=2,
        intermediate_size=544,
        max_position_embeddings=length,
    )
    return MraForSequenceClassification(config)


def _fnet(length: int) -> nn.Module:
    config = FNetConfig(
        **_PEERS,
        hidden_dropout_prob=0.0,
        num_hidden_layers=9,
        intermediate_size=528,
        max_position_embeddings=length,
    )
    return FNetForSequenceClassification(config)


PEERS: dict[str, Callable[[int], nn.Module]] = {
    "modernbert": _modernbert,
    "longformer": _longformer,
    "nystromformer": _nystromformer,
    "mra": _mra,
    "fnet": _fnet,
}
