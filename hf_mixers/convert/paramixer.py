"""Original Paramixers: classifiers of tokens, and the adding problem with its two features."""

from typing import Any, Literal

from transformers import PreTrainedModel

from ..models.configuration_mixer import NO_SPECIAL_TOKENS, PUBLISHED_FORM
from ..models.configuration_paramixer import ParamixerConfig
from ..models.modeling_paramixer import ParamixerForSequenceClassification
from .states import (
    StateDict,
    compare_with_stated,
    count_modules,
    read_width,
    refuse_unknown,
    rename,
)

PROTOCOLS: dict[str, Any] = {"chord": "chord", "dil": "cdil"}


def convert_paramixer(
    state: StateDict,
    *,
    protocol: str,
    pos_embedding: str | bool | None,
    dropout1_p: float = 0.0,
    dropout2_p: float = 0.0,
    residual_mode: Literal["previous", "initial", "none"] = "previous",
    **stated,
) -> tuple[PreTrainedModel, StateDict]:
    """The released Paramixer.

    Weights do not tell the protocol (9 links may be either) nor whether the table of positions,
    which is always stored, was used: `protocol` and `pos_embedding` are needed. `residual_mode` is
    no argument of the original; its code was edited to `"initial"` for temporal order at 16,384
    tokens. Models that read `[CLS]` expect its id in front of the others, as the original does.
    """
    # besides what the weights tell: how they were initialised, and the name of a task
    free = {"init_embedding", "problem"}
    told = {"vocab_size", "embedding_size", "max_seq_len", "n_layers", "n_class", "hidden_size"}
    refuse_unknown(stated, free | told | {"pooling_type"})
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol must be one of {', '.join(PROTOCOLS)}, got {protocol!r}.")
    length, width = (read_width(state, "apc_embedding.weight", axis) for axis in (0, 1))
    is_linear = "init_linear.weight" in state
    unused = {"embedding.weight"} if is_linear else set()
    if pos_embedding != "APC" and pos_embedding is not True:
        unused.add("apc_embedding.weight")
    renamed = rename(
        {key: value for key, value in state.items() if key not in unused},
        [
            (r"embedding\.", "model.embed_tokens."),
            (r"init_linear\.", "model.embed_values."),
            (r"apc_embedding\.", "model.embed_positions."),
            (r"attention\.(\d+)\.fs\.(\d+)\.network\.", r"model.layers.\1.factors.\2.links."),
            (r"attention\.(\d+)\.g\.network\.", r"model.layers.\1.values."),
            (r"(model\.layers\..*)\.0\.(weight|bias)$", r"\1.fc1.\2"),
            (r"(model\.layers\..*)\.2\.(weight|bias)$", r"\1.fc2.\2"),
            (r"final\.", "classifier."),
        ],
    )
    num_factors = count_modules(renamed, "model.layers.0.factors")
    num_links = read_width(renamed, "model.layers.0.factors.0.links.fc2.weight")
    if protocol == "chord" and num_links != num_factors + 1:
        raise ValueError(
            f"{num_factors} factors of protocol='chord' go with {num_factors + 1} links, but the "
            f"weights have {num_links}."
        )
    # some of the released variants flatten whatever their pooling_type says
    is_flat = read_width(renamed, "classifier.weight", 1) == length * width
    inputs: dict[str, Any] = (
        {"input_features": read_width(renamed, "model.embed_values.weight", 1)}
        if is_linear
        else {"vocab_size": read_width(renamed, "model.embed_tokens.weight")}
    )
    config = ParamixerConfig(
        **inputs,
        hidden_size=width,
        intermediate_size=read_width(renamed, "model.layers.0.values.fc1.weight"),
        num_hidden_layers=count_modules(renamed, "model.layers"),
        max_position_embeddings=length,
        position_embedding_type="none" if "apc_embedding.weight" in unused else "absolute",
        link_protocol=PROTOCOLS[protocol],
        num_links=num_links,
        num_factors=num_factors,
        residual_mode=residual_mode,
        pooling="flat" if is_flat else "first",
        embedding_dropout=dropout1_p,
        hidden_dropout_prob=dropout2_p,
        num_labels=read_width(  # type: ignore[call-arg]  # a further keyword of every config
            renamed, "classifier.weight"
        ),
        **NO_SPECIAL_TOKENS,
        **PUBLISHED_FORM,
    )
    seen = {
        "vocab_size": read_width(state, "embedding.weight"),
        "embedding_size": width,
        "max_seq_len": length,
        "n_layers": config.num_hidden_layers,
        "n_class": config.num_labels,
        "hidden_size": config.intermediate_size,
    }
    compare_with_stated(stated, seen if is_flat else seen | {"pooling_type": "CLS"})
    return ParamixerForSequenceClassification(config), renamed
