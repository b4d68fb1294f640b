"""Private interfaces of torch and transformers that the models use, one reason each.

After an upgrade, `tests/test_compat.py` names what is missing. Like all of this folder, the file
goes to the Hub with a checkpoint that is published with its code.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import BatchEncoding, PreTrainedConfig, TokenizersBackend

# called or read by the functions below
CALLED = {
    "torch.nn.Module()._forward_hooks": "there is no public way to ask whether a module has hooks",
    "torch.nn.Module()._forward_pre_hooks": "the same",
    "torch.nn.Module()._backward_hooks": "the same",
    "torch.nn.Module()._backward_pre_hooks": "the same",
    "torch._C._are_functorch_transforms_active": "torch.func has no public way to ask",
    "torch.ops.aten._embedding_bag_per_sample_weights_backward": (
        "the gradient of weights in bags by themselves, without that of their rows"
    ),
    "torch._assert_async": "the only check of values that a compiled program keeps",
    "transformers.PreTrainedConfig()._attn_implementation": (
        "what users choose as attn_implementation is public in from_pretrained only"
    ),
    "transformers.TokenizersBackend._encode_plus": (
        "the backend's own encoding, past the table of a subclass"
    ),
    "transformers.TokenizersBackend._eventual_warn_about_too_long_sequence": (
        "the same warning, once, whichever way encodes"
    ),
    "hf_mixers.ChordMixerModel().layers._gradient_checkpointing_func": (
        "gradient_checkpointing_enable() leaves the chosen function in this attribute"
    ),
}

# overridden or set by classes of this folder; transformers reads or calls them
OVERRIDDEN = {
    "transformers.TokenizersBackend._encode_plus": "every call of a tokenizer comes through it",
    "transformers.TokenizersBackend._add_tokens": "an added token changes the table of ids",
    "transformers.TokenizersBackend._save_pretrained": (
        "padding and truncation of the last call would be saved"
    ),
    "transformers.PreTrainedModel._init_weights": "how transformers asks for initial weights",
    "transformers.PreTrainedModel._no_split_modules": "blocks that device_map and FSDP keep whole",
    "transformers.PreTrainedModel._supports_sdpa": "lets users choose attn_implementation='sdpa'",
    "transformers.PreTrainedModel._can_compile_fullgraph": "says that torch.compile sees one graph",
    "transformers.GenerationMixin._supports_default_dynamic_cache": (
        "a Combiner keeps summaries of spans, which the default cache does not hold"
    ),
    "transformers.PreTrainedModel._supports_attention_backend": (
        "pair models of peers take the attention of their towers"
    ),
    "transformers.PreTrainedModel._supports_context_parallel": (
        "True by inheritance; transformers' context parallelism assumes causal full attention"
    ),
    "transformers.PreTrainedModel._tied_weights_keys": "which weights tie_word_embeddings ties",
}


def has_hooks(module: nn.Module) -> bool:
    """Whether a call of `module` does more than its forward."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


def in_function_transform() -> bool:
    """Whether a transform of `torch.func` (grad, vmap, ...) is at work."""
    return torch._C._are_functorch_transforms_active()


def assert_at_run_time(condition: Tensor, message: str) -> None:
    """Raise `message` when a compiled program finds `condition` false."""
    torch._assert_async(condition, message)


def bag_weight_grads(grad: Tensor, values: Tensor, source: Tensor) -> Tensor:
    """Dot products `(T, K)` of rows `(T, D)` with the rows of `values` that `source` names."""
    count, links = source.shape
    offsets = torch.arange(0, count * links, links, device=source.device)
    bags = torch.arange(count, device=source.device)[:, None].expand(-1, links)
    dots = torch.ops.aten._embedding_bag_per_sample_weights_backward(
        grad.contiguous(),
        values.contiguous(),
        source.reshape(-1),
        offsets,
        # of a single row this would be a view
        bags.reshape(-1).contiguous(),
        0,
    )
    return dots.view(count, links)


def attention_name(config: PreTrainedConfig) -> str | None:
    """Which attention function the user chose: eager, sdpa, ..."""
    return config._attn_implementation


def run_checkpointed(module: nn.Module, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call `function` as the gradient checkpointing that was enabled for `module` does."""
    checkpoint: Any = module._gradient_checkpointing_func
    return checkpoint(function, *arguments)


def encode_by_backend(tokenizer: TokenizersBackend, text: Any, **options: Any) -> BatchEncoding:
    """Encode as `TokenizersBackend` does, whatever the tokenizer's own class makes of it."""
    return TokenizersBackend._encode_plus(tokenizer, text, **options)


def warn_of_length(
    tokenizer: TokenizersBackend, num_tokens: int, max_length: int | None, verbose: bool
) -> None:
    """The warning of transformers about a text longer than `model_max_length`, once."""
    ids: Any = range(num_tokens)  # only their number is looked at
    tokenizer._eventual_warn_about_too_long_sequence(ids, max_length, verbose)
