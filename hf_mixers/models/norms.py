"""Normalisations of a pack: over the channels of a token, a batch, or a sequence."""

import torch
from torch import Tensor, nn

from .packing import Pack, at_least_float32, segment_mean


def make_norm(kind: str, width: int, groups: int, eps: float) -> nn.Module | None:
    """The norm called `none`, `layer`, `batch` or `group`, to be called with `(hidden, pack)`."""
    if kind == "none":
        return None
    if kind == "group":
        return SequenceGroupNorm(groups, width, eps=eps)
    return {"layer": TokenLayerNorm, "batch": TokenBatchNorm}[kind](width, eps=eps)


class TokenLayerNorm(nn.LayerNorm):
    """Normalises the channels of each token."""

    def forward(self, hidden: Tensor, pack: Pack) -> Tensor:
        return super().forward(hidden)


class TokenBatchNorm(nn.BatchNorm1d):
    """Normalises each channel over all tokens of the batch, and by running means in eval.

    Fewer than two tokens have no variance: they are normalised by the running means in training
    too.
    """

    def forward(self, hidden: Tensor, pack: Pack) -> Tensor:
        if not self.training or pack.num_rows < 2:
            return nn.functional.batch_norm(
                hidden, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
            )
        if pack.valid is None:
            return super().forward(hidden)
        return self._forward_masked(hidden, pack.valid)

    def _forward_masked(self, hidden: Tensor, valid: Tensor) -> Tensor:
        values = at_least_float32(hidden)
        valid = valid[:, None]
        count = valid.sum().to(values.dtype)
        # chosen, not multiplied by 0: padding may hold anything, NaN too
        mean = torch.where(valid, values, 0).sum(0) / count.clamp(min=1)
        squares = torch.where(valid, values - mean, 0).square()
        variance = squares.sum(0) / count.clamp(min=1)
        enough = count >= 2
        mean = torch.where(enough, mean, self.running_mean)
        variance = torch.where(enough, variance, self.running_var)
        with torch.no_grad():
            step = torch.where(enough, self.momentum, 0.0)
            unbiased = torch.where(enough, variance * count / (count - 1).clamp(min=1), variance)
            self.running_mean.lerp_(mean.detach().to(self.running_mean.dtype), step)
            self.running_var.lerp_(unbiased.detach().to(self.running_var.dtype), step)
            self.num_batches_tracked.add_(enough.to(torch.long))
        normal = (values - mean) * torch.rsqrt(variance + self.eps)
        return (normal * self.weight + self.bias).to(hidden.dtype)


class RunningStandardize(nn.Module):
    """Centres and scales each channel of pooled vectors `(B, D)` by running mean and variance.

    Vectors that are means over many tokens lie close together; what tells them apart is small
    beside what they share, and heads learn it slowly. The running values are used in training too,
    where they take in each batch first: batches may be of few sequences, or of one.
    """

    # share of a new batch, once the plain mean over all batches would give it less
    momentum = 0.01

    def __init__(self, width: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, pooled: Tensor) -> Tensor:
        values = at_least_float32(pooled)
        if self.training and pooled.shape[0] > 0:
            self._take_in(values.detach())
        mean, variance = (part.to(values.dtype) for part in (self.running_mean, self.running_var))
        return ((values - mean) * torch.rsqrt(variance + self.eps)).to(pooled.dtype)

    @torch.no_grad()
    def _take_in(self, values: Tensor) -> None:
        self.num_batches_tracked.add_(1)
        # what is there at first counts as one batch: a batch of one sequence has no spread
        share = (1 / (self.num_batches_tracked + 1)).clamp(min=self.momentum)
        mean = values.mean(0)
        # around the running mean: the spread between batches counts too
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        spread = (values - self.running_mean).square().mean(0)
        self.running_var.lerp_(spread.to(self.running_var.dtype), share)


class SequenceGroupNorm(nn.GroupNorm):
    """Normalises groups of channels over all tokens of one sequence."""

    def forward(self, hidden: Tensor, pack: Pack) -> Tensor:
        if pack.num_rows == 0 and pack.share is None:
            return hidden * self.weight + self.bias
        groups = at_least_float32(hidden).unflatten(1, (self.num_groups, -1))
        mean = segment_mean(groups.mean(2), pack)[pack.sequence].unsqueeze(2)
        centred = groups - mean
        variance = segment_mean(centred.square().mean(2), pack)[pack.sequence].unsqueeze(2)
        normal = (centred * torch.rsqrt(variance + self.eps)).flatten(1)
        return (normal * self.weight + self.bias).to(hidden.dtype)
