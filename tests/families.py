"""The table that makes every contract test run for every family, every head and every variant."""

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor
from transformers import (
    AutoModel,
    AutoModelForImageClassification,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedConfig,
    PreTrainedModel,
)

from hf_mixers import FAMILIES, AutoModelForSequencePairClassification, Family

# the heads that every family has
AUTO_CLASSES = {
    "model": AutoModel,
    "masked_lm": AutoModelForMaskedLM,
    "sequence_classification": AutoModelForSequenceClassification,
    "token_classification": AutoModelForTokenClassification,
    "sequence_pair_classification": AutoModelForSequencePairClassification,
}
HEADS = tuple(AUTO_CLASSES)
# those that some have
OTHER_AUTO_CLASSES = {"image_classification": AutoModelForImageClassification}

# settings that every family has; lengths in the tests go up to 2,000, beyond what a model is built
# for
SHARED_VARIANTS = {
    "plain": {},
    "cls pooling": {"pooling": "cls"},
    "max pooling": {"pooling": "max"},
    "first pooling": {"pooling": "first"},
    "attention pooling": {"pooling": "attention"},
    "wider pooling": {"pooling_size": 24},
    "the papers' form": {"final_norm": "none", "weight_init": "published"},
    "learned positions": {"position_embedding_type": "absolute"},
}


@dataclass(frozen=True)
class Row:
    """A family in the tests: a small configuration and the settings worth testing besides it."""

    name: str
    small: dict
    variants: dict[str, dict] = field(default_factory=dict)
    learning_rate: float = 0.1  # of a step that a model without norms must survive too
    starts_without_bias: bool = True

    @property
    def family(self) -> Family:
        return FAMILIES[self.name]

    def model_class(self, head: str) -> type[PreTrainedModel]:
        return self.family.model_class({**AUTO_CLASSES, **OTHER_AUTO_CLASSES}[head])

    def config(self, **changes) -> PreTrainedConfig:
        return self.family.config(**{**self.small, **changes})

    def build(self, head: str = "model", **changes) -> PreTrainedModel:
        torch.manual_seed(0)
        return self.model_class(head)(self.config(**changes)).eval()


ROWS = [
    Row(
        "chordmixer",
        small={"max_position_embeddings": 2048, "track_size": 3, "intermediate_size": 16},
        variants={
            "mix_rotate": {"block_order": "mix_rotate"},
            "full depth": {"adaptive_depth": False},
            "layer norm": {"pre_norm": "layer"},
            "batch norm": {"pre_norm": "layer", "post_norm": "batch"},
            "group norm": {"pre_norm": "group", "post_norm": "group"},
            "layer norm, mix_rotate": {"pre_norm": "layer", "block_order": "mix_rotate"},
            "not fused": {"fused": False},
            "reversible": {"reversible": True},
            "both directions": {"rotation": "alternating"},
            "legacy tracks": {"num_tracks": 11, "block_order": "mix_rotate"},
        },
    ),
    Row(
        "paramixer",
        learning_rate=1e-3,
        starts_without_bias=False,
        small={"max_position_embeddings": 2048, "hidden_size": 12, "intermediate_size": 16},
        variants={
            "cdil": {"link_protocol": "cdil"},
            "three links": {"link_protocol": "cdil", "num_links": 3},
            "fewer links and factors": {"num_links": 8, "num_factors": 9},
            "initial residual": {"residual_mode": "initial"},
            "no residual": {"residual_mode": "none"},
            "two blocks": {"num_hidden_layers": 2},
            "links without positions": {
                "position_embedding_type": "absolute",
                "links_see_position": False,
            },
        },
    ),
    Row(
        "mrsformer",
        small={
            "max_position_embeddings": 2048,
            "position_embedding_type": "none",
            "initializer_range": 1.0,
            "hidden_size": 16,
            "intermediate_size": 16,
            "head_scales": [1, 2],
            "luna_memory_size": 3,
            "linformer_size": 8,
            "num_random_features": 12,
        },
        variants={
            "scale 1": {"head_scales": [1, 1, 1, 1]},
            "scales in any order": {"head_scales": [3, 1, 8, 1], "pooling": "cls"},
            "other scales of keys": {"head_scales": [1, 2, 2, 4], "key_scales": [4, 1, 2, 2]},
            "two prefix tokens": {"num_prefix_tokens": 2},
            "exact": {"head_mode": "exact"},
            "sizes of groups": {"group_size_bias": True},
            "post-norm": {"norm_position": "post"},
            "batch norm": {"norm_position": "post", "norm_type": "batch"},
            "gated, first norm left out": {"hidden_act": "reglu", "skip_first_norm": True},
            "scaled embedding": {"scale_embedding": True},
            "linear": {"attention_type": "linear"},
            "linear, sum": {"attention_type": "linear", "linear_normalized": False},
            # learned weights for positions end where learned positions do
            "linformer": {"attention_type": "linformer", "position_embedding_type": "absolute"},
            "performer": {"attention_type": "performer"},
            "performer, relu": {"attention_type": "performer", "performer_kernel": "relu"},
            "fmm": {"attention_type": "fmm"},
            "fmm, other fields": {
                "attention_type": "fmm",
                "fmm_bandwidth": 3,
                "fmm_kernels": ["tanh", "elu"],
                "group_size_bias": True,
            },
            "luna": {"attention_type": "luna"},
            "luna, values of their own, cls": {
                "attention_type": "luna",
                "luna_tied_values": False,
                "pooling": "cls",
                "group_size_bias": True,
            },
        },
    ),
    Row(
        "combiner",
        small={
            "max_position_embeddings": 2048,
            "hidden_size": 16,
            "intermediate_size": 16,
            "num_attention_heads": 2,
            "segment_length": 16,
            "position_embedding_type": "none",
        },
        variants={
            "causal": {"causal": True},
            "overlapping": {"exclude_own_span": False},
            "means": {"span_pool": "mean"},
            "deep sets": {"span_pool": "deepset"},
            "local only": {"use_summaries": False},
            "relu, no bias": {"hidden_act": "relu", "attention_bias": False},
            "tanh gelu, token types": {"hidden_act": "gelu_new", "type_vocab_size": 1},
            "waves": {"position_embedding_type": "sinusoidal"},
            "logsparse": {"pattern": "logsparse"},
            "logsparse, causal": {"pattern": "logsparse", "causal": True, "span_pool": "deepset"},
            "rowmajor": {"pattern": "axial_rowmajor"},
            "rowmajor, causal": {"pattern": "axial_rowmajor", "causal": True},
            "rowmajor, own keys": {"pattern": "axial_rowmajor", "row_summary": "none"},
            "rowmajor, sums of keys": {
                "pattern": "axial_rowmajor",
                "row_summary": "wsum",
                "exclude_own_span": False,
            },
            "rowmajor, projected keys": {"pattern": "axial_rowmajor", "row_summary": "wsum_proj"},
            "vertical": {"pattern": "axial_vertical"},
            "horizontal": {"pattern": "axial_horizontal", "exclude_own_span": False},
            "mixture": {"pattern": "axial_mixture", "span_pool": "deepset"},
            "mixture, causal": {"pattern": "axial_mixture", "causal": True},
            "mixture, sums": {
                "pattern": "axial_mixture",
                "prefix_pool": "sum",
                "exclude_own_span": False,
            },
            "learnable": {"pattern": "learnable", "num_clusters": 5},
            "learnable, causal": {
                "pattern": "learnable",
                "causal": True,
                "num_clusters": 5,
                "span_pool": "deepset",
            },
        },
    ),
]

every_family = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
# for what hardly depends on the family: the first in `make test`, all in `make exhaustive`
one_family = pytest.mark.parametrize(
    "row",
    [ROWS[0], *(pytest.param(row, marks=pytest.mark.exhaustive) for row in ROWS[1:])],
    ids=lambda row: row.name,
)
every_head = pytest.mark.parametrize("head", HEADS)
every_head_with_loss = pytest.mark.parametrize("head", HEADS[1:])


def _mark_variants(shared: dict[str, dict]) -> pytest.MarkDecorator:
    cases = [
        pytest.param(
            row,
            changes,
            id=f"{row.name}-{name}",
            marks=[] if name == "plain" else [pytest.mark.variant],
        )
        for row in ROWS
        for name, changes in {**shared, **row.variants}.items()
    ]
    return pytest.mark.parametrize(("row", "changes"), cases)


every_variant = _mark_variants(SHARED_VARIANTS)
every_own_variant = _mark_variants({})


def find_row(name: str) -> Row:
    return next(row for row in ROWS if row.name == name)


def random_ids(*shape: int) -> Tensor:
    """Bases as ids of the DNA tokenizer."""
    return torch.randint(5, 9, shape)


def pad(sequences: list[Tensor], side: str = "right", width: int | None = None, content: int = 0):
    """Sequences as a padded batch and its mask."""
    width = width or max(map(len, sequences))
    ids = torch.full((len(sequences), width), content)
    mask = torch.zeros(len(sequences), width, dtype=torch.long)
    for row, sequence in enumerate(sequences):
        place = slice(0, len(sequence)) if side == "right" else slice(width - len(sequence), width)
        ids[row, place] = sequence
        mask[row, place] = 1
    return ids, mask


def flatten(sequences: list[Tensor]) -> dict[str, Tensor]:
    """Sequences as a flat batch with boundaries."""
    lengths = torch.tensor([0, *map(len, sequences)])
    return {
        "input_ids": torch.cat(sequences)[None],
        "cu_seq_lens_q": lengths.cumsum(0).to(torch.int32),
        "max_length_q": int(lengths.max()),
    }


def example_inputs(head: str, batch: int = 3, length: int = 12) -> dict[str, Tensor]:
    """Padded inputs that a head accepts, with labels."""
    ids, mask = pad([random_ids(length - 3 * row) for row in range(batch)])
    inputs = {"input_ids": ids, "attention_mask": mask}
    if head == "masked_lm":
        inputs["labels"] = torch.where((torch.rand(ids.shape) < 0.5) & (mask == 1), ids, -100)
        inputs["labels"][0, 0] = ids[0, 0]
    elif head == "token_classification":
        inputs["labels"] = torch.where(mask == 1, ids % 2, -100)
    elif head != "model":
        inputs["labels"] = torch.arange(batch) % 2
    if head == "sequence_pair_classification":
        inputs["input_ids_2"], inputs["attention_mask_2"] = ids.flip(0), mask.flip(0)
    return inputs
