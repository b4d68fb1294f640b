"""Paramixer restated from the paper in the most obvious way: one sequence, loops, matrices."""

import torch
from torch import Tensor
from torch.nn import functional


def columns(protocol: str, num_links: int, factor: int, position: int, length: int) -> list[int]:
    """The columns of row `position` of factor `factor` (0, 1, ...), in the order of the weights."""
    if protocol == "chord":
        steps = [0] + [2 ** (link - 1) for link in range(1, num_links)]
    else:
        dilation, half = 2**factor, (num_links - 1) // 2
        ahead = [dilation * step for step in range(1, half + 1)]
        steps = [0, *ahead, *(-step for step in ahead)]
    return [(position + step) % length for step in steps]


def dense_factor(weights: Tensor, protocol: str, factor: int) -> Tensor:
    """The N x N matrix of weights `(N, K)`; links that point to the same place add up."""
    length, num_links = weights.shape
    rows = []
    for position in range(length):
        row = weights.new_zeros(length)
        for link, column in enumerate(columns(protocol, num_links, factor, position, length)):
            row = row + functional.one_hot(torch.tensor(column), length) * weights[position, link]
        rows.append(row)
    return torch.stack(rows)


def multiply(values: Tensor, weights: Tensor, protocol: str, factor: int) -> Tensor:
    """The same product by number: `(N, D)` and `(N, K)` -> `(N, D)`."""
    length, num_links = weights.shape
    rows = []
    for position in range(length):
        reads = columns(protocol, num_links, factor, position, length)
        rows.append(sum(weights[position, link] * values[j] for link, j in enumerate(reads)))
    return torch.stack(rows)


def multiply_by_roll(values: Tensor, weights: Tensor, protocol: str, factor: int) -> Tensor:
    """The same with one roll per link, for longer sequences."""
    length, num_links = weights.shape
    reads = columns(protocol, num_links, factor, 0, length)
    return sum(weights[:, link, None] * values.roll(-j, 0) for link, j in enumerate(reads))


def mlp(x: Tensor, state: dict[str, Tensor], prefix: str) -> Tensor:
    x = functional.gelu(x @ state[f"{prefix}.fc1.weight"].T + state[f"{prefix}.fc1.bias"])
    return x @ state[f"{prefix}.fc2.weight"].T + state[f"{prefix}.fc2.bias"]


def run_blocks(
    values: Tensor, embedded: Tensor, state: dict[str, Tensor], config, prefix: str = "layers"
) -> Tensor:
    """One sequence `(N, D)` through all blocks, evaluation mode; all read the same `embedded`."""
    for block in range(config.num_hidden_layers):
        initial = values = mlp(values, state, f"{prefix}.{block}.values")
        for m in range(config.num_factors):
            weights = mlp(embedded, state, f"{prefix}.{block}.factors.{m}.links")
            product = multiply_by_roll(values, weights, config.link_protocol, m)
            if config.residual_mode == "previous":
                product = product + values
            elif config.residual_mode == "initial":
                product = product + initial
            values = product
    return values
