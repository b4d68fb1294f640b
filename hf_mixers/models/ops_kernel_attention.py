"""Attention in linear time on dense blocks: kernels, random features, near fields.

Queries, keys and values are `(B, H, N, d)`, sequences side by side. `weights` `(B, N)` of the keys
are 0 for padding, else 1 or how many tokens a key stands for; `None` means 1 for all. All are at
least float32.
"""

from collections.abc import Callable
from math import sqrt

import torch
from torch import Tensor
from torch.nn import functional

# keeps random features positive where an exponential underflows
_SMALL = 1e-6


def elu_kernel(x: Tensor) -> Tensor:
    return functional.elu(x) + 1


def negative_elu_kernel(x: Tensor) -> Tensor:
    return functional.elu(-x) + 1


KERNELS: dict[str, Callable[[Tensor], Tensor]] = {
    "elu": elu_kernel,
    "negative_elu": negative_elu_kernel,
    "tanh": torch.tanh,
}


def linear_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    weights: Tensor | None,
    normalize: bool = True,
) -> Tensor:
    """`queries (keys^T values)`, for features of queries and keys, as a mean over the keys.

    Not normalised, the sum over N keys is divided by sqrt(N) instead of by the sum of its weights.
    """
    if weights is not None:
        keys = keys * weights[:, None, :, None].to(keys.dtype)
    out = queries @ (keys.transpose(2, 3) @ values)
    if normalize:
        return out / (queries @ keys.sum(2)[..., None]).clamp(min=1e-9)
    return out / sqrt_of_keys(keys, weights)


def signed_attention(
    queries: Tensor, keys: Tensor, values: Tensor, weights: Tensor | None
) -> Tensor:
    """The same for features of any sign, whose sums may vanish: divided by the number of keys."""
    out = linear_attention(queries, keys, values, weights, normalize=False)
    return out / sqrt_of_keys(keys, weights)


def sqrt_of_keys(keys: Tensor, weights: Tensor | None) -> Tensor | float:
    """Square root of the number of keys of each sequence."""
    if weights is None:
        return sqrt(keys.shape[2])
    return (weights > 0).sum(1).clamp(min=1).to(keys.dtype).sqrt()[:, None, None, None]


def random_query_features(x: Tensor, directions: Tensor, kernel: str) -> Tensor:
    """Positive features `(B, H, N, m)` of queries, for `directions` `(H, m, d)`.

    `"exp"`: products with features of keys have the expectation exp(q k / sqrt(d)), but for a
    factor per query and one per sequence, which divide out.
    """
    exponents, features = _project(x, directions, kernel)
    if features is not None:
        return features
    return (exponents - exponents.amax(3, keepdim=True).detach()).exp() + _SMALL


def random_key_features(x: Tensor, directions: Tensor, kernel: str, mask: Tensor | None) -> Tensor:
    """The same of keys, of which `mask` `(B, N)` says which there are."""
    exponents, features = _project(x, directions, kernel)
    if features is not None:
        return features
    if mask is not None:
        # padding must not decide what the largest one is
        exponents = exponents.masked_fill(~mask[:, None, :, None], -torch.inf)
    return (exponents - exponents.amax((2, 3), keepdim=True).detach()).exp() + _SMALL


def _project(x: Tensor, directions: Tensor, kernel: str) -> tuple[Tensor, Tensor | None]:
    x = x * x.shape[-1] ** -0.25
    projected = x @ directions.to(x.dtype).transpose(1, 2)
    if kernel == "relu":
        return projected, functional.relu(projected) + 1e-3
    return projected - x.square().sum(3, keepdim=True) / 2, None


def draw_directions(count: int, width: int, seed: int) -> Tensor:
    """Directions `(count, width)`, orthogonal in blocks of `width`, with lengths of normal ones."""
    generator = torch.Generator().manual_seed(seed)
    blocks = []
    for _ in range(-(-count // width)):
        normal = torch.randn(width, width, generator=generator)
        blocks.append(torch.linalg.qr(normal)[0].T)
    lengths = torch.randn(count, width, generator=generator).norm(dim=1)
    return torch.cat(blocks)[:count] * lengths[:, None]


def banded_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    bandwidth: int,
    mask: Tensor | None,
    bias: Tensor | None = None,
) -> Tensor:
    """Softmax over the `bandwidth` (odd) keys around each query, one shifted product at a time.

    `mask` and `bias` `(B, N)` say which keys there are, and what is added to their scores.
    """
    length, half = queries.shape[2], bandwidth // 2
    if mask is None:
        mask = torch.ones(keys.shape[0], length, dtype=torch.bool, device=keys.device)
    keys, values = (functional.pad(part, (0, 0, half, half)) for part in (keys, values))
    mask = functional.pad(mask, (half, half))
    bias = None if bias is None else functional.pad(bias, (half, half))
    scores = []
    for shift in range(bandwidth):
        near = slice(shift, shift + length)
        score = (queries * keys[:, :, near]).sum(3) * queries.shape[3] ** -0.5
        if bias is not None:
            score = score + bias[:, None, near]
        scores.append(score.masked_fill(~mask[:, None, near], torch.finfo(score.dtype).min))
    shares = torch.stack(scores, 3).softmax(3)
    near_values = (values[:, :, shift : shift + length] for shift in range(bandwidth))
    weighed = (shares[..., i, None] * part for i, part in enumerate(near_values))
    return sum(weighed)  # type: ignore[return-value]  # a bandwidth is 1 or more
