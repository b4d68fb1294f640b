"""What the heads of one scale compute on dense blocks: softmax, linear, Linformer, Performer, FMM.

Every module is called with queries `(B, H, N, d)`, keys and values `(B, H, M, d)`, the keys' mask
and weights, and the number of the group of heads, and returns `(B, N, H, d)`. Parameters are per
head, kept by group.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from transformers import initialization as init
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ._compat import attention_name
from .configuration_mrsformer import MrsFormerConfig
from .ops_kernel_attention import (
    KERNELS,
    banded_attention,
    draw_directions,
    elu_kernel,
    linear_attention,
    random_key_features,
    random_query_features,
    signed_attention,
)
from .packing import at_least_float32, upload


class KeyBlock:
    """Which keys of a block there are, `mask` `(B, M)`, and how many tokens each stands for.

    Both are `None` where there is nothing to say: no padding, or nobody counts tokens.
    """

    def __init__(self, sizes: Tensor, is_full: bool, counts_tokens: bool):
        self.mask = None if is_full else _keep_first(sizes > 0)
        self.sizes = sizes.clamp(min=1) if counts_tokens else None

    @property
    def weights(self) -> Tensor | None:
        """Of keys in a sum: 0 for padding."""
        if self.sizes is None or self.mask is None:
            return self.mask if self.sizes is None else self.sizes
        return self.sizes * self.mask

    def bias(self, dtype: torch.dtype) -> Tensor | None:
        """Of keys in scores: the logarithm of the tokens that they stand for."""
        return None if self.sizes is None else self.sizes.to(dtype).log()

    def attention_mask(self, dtype: torch.dtype) -> Tensor | None:
        """What the attention functions of transformers take, `(B, 1, 1, M)`."""
        mask = self.mask
        if self.sizes is not None:
            mask = self.bias(dtype)
            if self.mask is not None:
                mask = mask.masked_fill(~self.mask, -torch.inf)
        return None if mask is None else mask[:, None, None]

    def without(self, count: int) -> "KeyBlock":
        """The same without the first `count` keys."""
        rest = object.__new__(KeyBlock)
        rest.mask = None if self.mask is None else _keep_first(self.mask[:, count:])
        rest.sizes = None if self.sizes is None else self.sizes[:, count:]
        return rest


def _keep_first(mask: Tensor) -> Tensor:
    # a row without any token cannot be refused while compiling, and must not divide by zero
    return mask.index_fill(1, torch.zeros(1, dtype=torch.long, device=mask.device), True)


def eager_attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **kwargs,
) -> tuple[Tensor, Tensor]:
    """Softmax attention operation by operation, with the signature of transformers."""
    scores = query @ key.transpose(2, 3) * scaling
    if attention_mask is not None and attention_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
    elif attention_mask is not None:
        scores = scores + attention_mask
    shares = scores.softmax(3, dtype=torch.promote_types(scores.dtype, torch.float32))
    shares = nn.functional.dropout(shares.to(value.dtype), dropout, module.training)
    return (shares @ value).transpose(1, 2), shares


class SoftmaxHeads(nn.Module):
    """Softmax attention by the function that `config._attn_implementation` names."""

    is_causal = False

    def __init__(self, config: MrsFormerConfig):
        super().__init__()
        self.config = config
        self.scaling = (config.hidden_size // config.num_attention_heads) ** -0.5

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        return self.weigh(query, key, value, mask)[0]

    def weigh(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """The output `(B, N, H, d)`, and what of it is of which key `(B, H, N, M)`, if eager."""
        # exporters take sdpa apart, and ask which stride is larger, for any number of groups
        name = "eager" if torch.compiler.is_exporting() else attention_name(self.config)
        attention: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(name, eager_attention_forward)
        dropout = self.config.attention_probs_dropout_prob if self.training else 0.0
        return attention(
            self, query, key, value, mask, scaling=self.scaling, dropout=dropout, is_causal=False
        )

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, keys: KeyBlock, group: int
    ) -> Tensor:
        return self.attend(query, key, value, keys.attention_mask(query.dtype))


class LinformerHeads(SoftmaxHeads):
    """Softmax attention to fixed numbers of learned mixtures of the keys, by position."""

    def __init__(self, config: MrsFormerConfig):
        super().__init__(config)
        # by name: transformers takes the parameters in a list for those of another module
        for number, group in enumerate(config.head_groups()):
            longest = config.count_groups(group.key_scale)
            size = min(config.linformer_size, longest)
            projection = nn.Parameter(torch.empty(len(group.heads), size, longest))
            self.register_parameter(f"projection_{number}", projection)

    def reset_parameters(self) -> None:
        for projection in self.parameters():
            init.normal_(projection, std=projection.shape[1] ** -0.5)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, keys: KeyBlock, group: int
    ) -> Tensor:
        projection = getattr(self, f"projection_{group}").to(key)
        if keys.mask is not None:
            absent = ~keys.mask[:, None, :, None]
            key, value = key.masked_fill(absent, 0), value.masked_fill(absent, 0)
        if torch.compiler.is_exporting():
            # exporters ask too much about slices; a key without weights stops the exported program
            places = torch.arange(key.shape[2], device=key.device)
            if keys.mask is not None:
                places = places * keys.mask.any(0)
            projection = projection.index_select(2, places)
        else:
            # longer ones than the model is built for are refused; their padding may be longer
            longest = projection.shape[2]
            projection = projection[:, :, : key.shape[2]]
            key, value = key[:, :, :longest], value[:, :, :longest]
        return self.attend(query, projection @ key, projection @ value)


class KernelHeads(nn.Module):
    """Attention that is linear in features of queries and keys; a subclass says which."""

    def __init__(self, config: MrsFormerConfig):
        super().__init__()
        self.config = config
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def mix(self, query: Tensor, key: Tensor, value: Tensor, keys: KeyBlock, group: int) -> Tensor:
        raise NotImplementedError

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, keys: KeyBlock, group: int
    ) -> Tensor:
        # sums over all keys lose too many digits in low precision
        with torch.autocast(query.device.type, enabled=False):
            precise = [at_least_float32(part) for part in (query, key, value)]
            out = self.mix(precise[0], precise[1], precise[2], keys, group).to(query.dtype)
        return self.dropout(out).transpose(1, 2)


class LinearHeads(KernelHeads):
    """Linear attention with the features elu(x) + 1."""

    def mix(self, query: Tensor, key: Tensor, value: Tensor, keys: KeyBlock, group: int) -> Tensor:
        normalize = self.config.linear_normalized
        return linear_attention(elu_kernel(query), elu_kernel(key), value, keys.weights, normalize)


class PerformerHeads(KernelHeads):
    """Linear attention with random features, whose directions are kept with the weights."""

    directions: Tensor

    def __init__(self, config: MrsFormerConfig, layer: int):
        super().__init__(config)
        self.layer = layer
        heads = config.num_attention_heads
        shape = heads, config.num_random_features, config.hidden_size // heads
        # not a parameter, which optimizers and adapters would change; saved like one
        self.register_buffer("directions", torch.empty(shape))

    def reset_parameters(self) -> None:
        heads, count, width = self.directions.shape
        seed = self.config.feature_seed + self.layer * heads
        drawn = [draw_directions(count, width, seed + head) for head in range(heads)]
        init.copy_(self.directions, torch.stack(drawn))

    def mix(self, query: Tensor, key: Tensor, value: Tensor, keys: KeyBlock, group: int) -> Tensor:
        kernel = self.config.performer_kernel
        heads = upload(self.config.head_groups()[group].heads, query.device)
        directions = self.directions.index_select(0, heads)
        return linear_attention(
            random_query_features(query, directions, kernel),
            random_key_features(key, directions, kernel, keys.mask),
            value,
            keys.weights,
        )


class FmmHeads(KernelHeads):
    """A near field, softmax over neighbours, and far fields, linear attention, with weights."""

    def __init__(self, config: MrsFormerConfig):
        super().__init__(config)
        heads = config.num_attention_heads
        width = config.hidden_size // heads
        self.near = nn.Parameter(torch.empty(heads, width))
        self.far = nn.Parameter(torch.empty(len(config.fmm_kernels), heads, width))

    def reset_parameters(self) -> None:
        init.zeros_(self.near)
        init.constant_(self.far, 1 / self.far.shape[0])

    def mix(self, query: Tensor, key: Tensor, value: Tensor, keys: KeyBlock, group: int) -> Tensor:
        heads = upload(self.config.head_groups()[group].heads, query.device)
        bias = keys.bias(query.dtype)
        out = banded_attention(query, key, value, self.config.fmm_bandwidth, keys.mask, bias)
        out = out * self.near.index_select(0, heads)[:, None]
        far = self.far.index_select(1, heads)[:, :, None]
        for name, weight in zip(self.config.fmm_kernels, far, strict=True):
            kernel = KERNELS[name]
            attend = signed_attention if name == "tanh" else linear_attention
            out = out + weight * attend(kernel(query), kernel(key), value, keys.weights)
        return out


def make_heads(config: MrsFormerConfig, layer: int) -> nn.Module:
    """The module for `config.attention_type`."""
    if config.attention_type == "performer":
        return PerformerHeads(config, layer)
    kinds = {
        "softmax": SoftmaxHeads,
        "linformer": LinformerHeads,
        "linear": LinearHeads,
        "fmm": FmmHeads,
    }
    return kinds[config.attention_type](config)
