"""ChordMixer restated from the paper in the most obvious way: one sequence, loops, no packing."""

import torch
from torch import Tensor
from torch.nn import functional


def rotate(sequence: Tensor, track_size: int, base: int = 2) -> Tensor:
    """Equations 1 and 2, number by number: `(N, D)` -> `(N, D)`; base -2 looks both ways."""
    length, width = sequence.shape
    columns = []
    for channel in range(width):
        track = channel // track_size + 1
        column = []
        for j in range(length):
            k = j if track == 1 else (j + base ** (track - 2)) % length
            column.append(sequence[k, channel])
        columns.append(torch.stack(column))
    return torch.stack(columns, dim=1)


def rotate_by_roll(sequence: Tensor, track_size: int, base: int = 2) -> Tensor:
    """The same with one roll per track, for longer sequences."""
    tracks = sequence.split(track_size, dim=1)
    offsets = [0] + [base**t for t in range(len(tracks) - 1)]
    return torch.cat([track.roll(-o, 0) for track, o in zip(tracks, offsets, strict=True)], dim=1)


def normalise(sequence: Tensor, kind: str, state: dict[str, Tensor], prefix: str, groups: int):
    if kind == "none":
        return sequence
    weight, bias = state[f"{prefix}.weight"], state[f"{prefix}.bias"]
    if kind == "layer":
        return functional.layer_norm(sequence, sequence.shape[-1:], weight, bias)
    if kind == "group":
        return functional.group_norm(sequence.T[None], groups, weight, bias)[0].T
    mean, variance = state[f"{prefix}.running_mean"], state[f"{prefix}.running_var"]
    return (sequence - mean) / torch.sqrt(variance + 1e-5) * weight + bias


def finish(sequence: Tensor, config, state: dict[str, Tensor], prefix: str = "final_norm"):
    """The norm after the last block, if there is one."""
    if config.final_norm == "none":
        return sequence
    return normalise(sequence, "layer", state, prefix, 1)


def run_blocks(
    sequence: Tensor, state: dict[str, Tensor], config, prefix: str = "layers"
) -> Tensor:
    """One sequence `(N, D)` through the blocks that it needs, evaluation mode."""
    length = sequence.shape[0]
    depth = config.num_hidden_layers
    if config.adaptive_depth:
        depth = min(depth, (length - 1).bit_length())
    base = -2 if config.rotation == "alternating" else 2
    previous = sequence
    for k in range(depth):
        block = f"{prefix}.{k}"

        def mix(x, block=block):
            x = x @ state[f"{block}.mix.fc1.weight"].T + state[f"{block}.mix.fc1.bias"]
            x = functional.gelu(x)
            return x @ state[f"{block}.mix.fc2.weight"].T + state[f"{block}.mix.fc2.bias"]

        groups = config.norm_groups or config.track_size
        branch = normalise(sequence, config.pre_norm, state, f"{block}.norm_before", groups)
        if config.block_order == "rotate_mix":
            branch = mix(rotate_by_roll(branch, config.track_size, base))
        else:
            branch = rotate_by_roll(mix(branch), config.track_size, base)
        if config.reversible:
            previous, sequence = sequence, previous + branch
            continue
        sequence = normalise(
            sequence + branch, config.post_norm, state, f"{block}.norm_after", groups
        )
    return (previous + sequence) / 2 if config.reversible else sequence
