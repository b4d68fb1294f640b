"""MrsFormer restated in the most obvious way: one sequence, dense matrices, a head at a time."""

import torch
from torch import Tensor
from torch.nn import functional


def groups(length: int, scale: int, prefix: int = 0) -> list[list[int]]:
    """The positions of each group: the first `prefix` alone, then `scale` at a time."""
    alone = [[position] for position in range(min(prefix, length))]
    starts = range(prefix, length, scale)
    return alone + [list(range(start, min(start + scale, length))) for start in starts]


def down(length: int, scale: int, prefix: int = 0) -> Tensor:
    """D: means of groups."""
    members = groups(length, scale, prefix)
    matrix = torch.zeros(len(members), length, dtype=torch.float64)
    for row, positions in enumerate(members):
        matrix[row, positions] = 1 / len(positions)
    return matrix


def up(length: int, scale: int, prefix: int = 0) -> Tensor:
    """U: every position gets what its group has."""
    return (down(length, scale, prefix).T > 0).double()


def project_onto_groups(length: int, scale: int, prefix: int = 0) -> Tensor:
    """P = U D."""
    return up(length, scale, prefix) @ down(length, scale, prefix)


def softmax_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | float = 0.0) -> Tensor:
    return torch.softmax(q @ k.T / q.shape[1] ** 0.5 + bias, 1) @ v


def kernel_attention(fq: Tensor, fk: Tensor, v: Tensor, sizes: Tensor | float = 1.0) -> Tensor:
    """The whole matrix of scores, each row divided by its sum."""
    scores = (fq @ fk.T) * sizes
    return (scores / scores.sum(1, keepdim=True)) @ v


KERNELS = {
    "elu": lambda x: functional.elu(x) + 1,
    "negative_elu": lambda x: functional.elu(-x) + 1,
    "tanh": torch.tanh,
}


def performer_features(x: Tensor, directions: Tensor, kernel: str) -> Tensor:
    x = x / x.shape[1] ** 0.25
    if kernel == "relu":
        return (x @ directions.T).relu() + 1e-3
    return (x @ directions.T - x.square().sum(1, keepdim=True) / 2).exp()


def near_field(q: Tensor, k: Tensor, v: Tensor, bandwidth: int, bias: Tensor | float) -> Tensor:
    distance = (torch.arange(len(q))[:, None] - torch.arange(len(k))).abs()
    far = torch.where(distance <= bandwidth // 2, 0.0, -torch.inf)
    return softmax_attention(q, k, v, far + bias)


def coarse_head(q, k, v, sizes, state, prefix, config, number) -> Tensor:
    """Head `number` on its coarse queries, keys and values; `sizes` are tokens per key."""
    kind = config.attention_type
    counts = sizes if config.group_size_bias else torch.ones_like(sizes)
    if kind == "softmax":
        return softmax_attention(q, k, v, counts.log())
    if kind == "linformer":
        groups_of_heads = config.head_groups()
        group = next(i for i, g in enumerate(groups_of_heads) if number in g.heads)
        place = groups_of_heads[group].heads.index(number)
        owner = "shared_heads" if config.linformer_shared else f"{prefix}.heads"
        projection = state[f"{owner}.projection_{group}"][place][:, : len(k)]
        return softmax_attention(q, projection @ k, projection @ v)
    if kind == "linear":
        fq, fk = KERNELS["elu"](q), KERNELS["elu"](k)
        if not config.linear_normalized:
            return (fq @ fk.T * counts) @ v / len(k) ** 0.5
        return kernel_attention(fq, fk, v, counts)
    if kind == "performer":
        directions = state[f"{prefix}.heads.directions"][number]
        fq, fk = (performer_features(x, directions, config.performer_kernel) for x in (q, k))
        return kernel_attention(fq, fk, v, counts)
    near, far = state[f"{prefix}.heads.near"][number], state[f"{prefix}.heads.far"][:, number]
    out = near * near_field(q, k, v, config.fmm_bandwidth, counts.log())
    for name, weight in zip(config.fmm_kernels, far, strict=True):
        fq, fk = KERNELS[name](q), KERNELS[name](k)
        if name == "tanh":
            out = out + weight * ((fq @ fk.T * counts) @ v / len(k))
        else:
            out = out + weight * kernel_attention(fq, fk, v, counts)
    return out


def linear(x: Tensor, state: dict[str, Tensor], name: str) -> Tensor:
    return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def attention(x: Tensor, state: dict[str, Tensor], prefix: str, config) -> Tensor:
    """All heads of one layer, each by itself, on one sequence `(N, D)`."""
    if config.attention_type == "luna":
        return luna_attention(x, state, prefix, config)
    length, size = len(x), config.hidden_size // config.num_attention_heads
    q, k, v = (linear(x, state, f"{prefix}.{name}_proj") for name in "qkv")
    outputs = []
    for head in range(config.num_attention_heads):
        part = slice(head * size, (head + 1) * size)
        scale = config.head_scales[head]
        key_scale = (config.key_scales or config.head_scales)[head]
        if config.head_mode == "exact":
            scores = torch.softmax(q[:, part] @ k[:, part].T / size**0.5, 1)
            mixed = project_onto_groups(length, scale, config.prefix_size) @ scores
            mixed = mixed @ project_onto_groups(length, key_scale, config.prefix_size)
            outputs.append(mixed @ v[:, part])
            continue
        pool = down(length, scale, config.prefix_size)
        pool_keys = down(length, key_scale, config.prefix_size)
        sizes = up(length, key_scale, config.prefix_size).sum(0)
        coarse = coarse_head(
            pool @ q[:, part],
            pool_keys @ k[:, part],
            pool_keys @ v[:, part],
            sizes,
            state,
            prefix,
            config,
            head,
        )
        outputs.append(up(length, scale, config.prefix_size) @ coarse)
    return linear(torch.cat(outputs, 1), state, f"{prefix}.o_proj")


def luna_attention(x: Tensor, state: dict[str, Tensor], prefix: str, config) -> Tensor:
    """The first rows are the memory: it looks at the rest, then the rest looks at it."""
    size, memory_size = config.hidden_size // config.num_attention_heads, config.memory_size
    memory, tokens, alone = x[:memory_size], x[memory_size:], config.prefix_size - memory_size
    values = "k" if config.luna_tied_values else "v"
    key_scales = config.key_scales or config.head_scales

    def heads():
        for head in range(config.num_attention_heads):
            yield head, slice(head * size, (head + 1) * size)

    q = linear(memory, state, f"{prefix}.pack_q_proj")
    k = linear(tokens, state, f"{prefix}.pack_k_proj")
    v = linear(tokens, state, f"{prefix}.pack_{values}_proj")
    packed = []
    for head, part in heads():
        pool = down(len(tokens), key_scales[head], alone)
        sizes = up(len(tokens), key_scales[head], alone).sum(0)
        bias = sizes.log() if config.group_size_bias else 0.0
        packed.append(softmax_attention(q[:, part], pool @ k[:, part], pool @ v[:, part], bias))
    packed = torch.cat(packed, 1)

    q = linear(tokens, state, f"{prefix}.q_proj")
    k, v = (
        linear(packed, state, f"{prefix}.k_proj"),
        linear(packed, state, f"{prefix}.{values}_proj"),
    )
    outputs = []
    for head, part in heads():
        scale = config.head_scales[head]
        coarse = softmax_attention(
            down(len(tokens), scale, alone) @ q[:, part], k[:, part], v[:, part]
        )
        outputs.append(up(len(tokens), scale, alone) @ coarse)
    return torch.cat([packed, linear(torch.cat(outputs, 1), state, f"{prefix}.o_proj")])


def norm(x: Tensor, state: dict[str, Tensor], name: str, config) -> Tensor:
    """Norm over channels, or by running means in evaluation mode."""
    weight, bias = state[f"{name}.weight"], state[f"{name}.bias"]
    if config.norm_type == "batch":
        mean, variance = state[f"{name}.running_mean"], state[f"{name}.running_var"]
    else:
        mean, variance = x.mean(1, keepdim=True), x.var(1, correction=0, keepdim=True)
    return (x - mean) / (variance + config.norm_eps).sqrt() * weight + bias


def mlp(x: Tensor, state: dict[str, Tensor], prefix: str, config) -> Tensor:
    inner = linear(x, state, f"{prefix}.fc1")
    if config.hidden_act == "reglu":
        inner = inner * linear(x, state, f"{prefix}.gate").relu()
    else:
        inner = functional.gelu(inner)
    return linear(inner, state, f"{prefix}.fc2")


def run_blocks(x: Tensor, state: dict[str, Tensor], config, prefix: str = "layers") -> Tensor:
    """One sequence `(N, D)`, memory and CLS token included, through all blocks in eval mode."""
    is_token = (torch.arange(len(x)) >= config.memory_size)[:, None]
    last = config.num_hidden_layers - 1
    for index in range(config.num_hidden_layers):
        block = f"{prefix}.{index}"
        if config.norm_position == "post":
            x = x + attention(x, state, f"{block}.attention", config)
            x = norm(x, state, f"{block}.attention_norm", config)
            x = x + is_token * mlp(x, state, f"{block}.mlp", config)
            x = norm(x, state, f"{block}.mlp_norm", config)
            continue
        skip = config.skip_first_norm and index == 0
        normal = x if skip else norm(x, state, f"{block}.attention_norm", config)
        x = x + attention(normal, state, f"{block}.attention", config)
        normal = norm(x, state, f"{block}.mlp_norm", config)
        x = x + is_token * mlp(normal, state, f"{block}.mlp", config)
        if index == last:
            x = norm(x, state, f"{block}.last_norm", config)
    return x


def embed(ids: Tensor, state: dict[str, Tensor], config) -> Tensor:
    """Tokens of one sequence as the blocks get them, with memory and CLS token in front."""
    x = state["embed_tokens.weight"][ids]
    if config.scale_embedding:
        x = x * config.hidden_size**0.5
    if config.position_embedding_type == "absolute":
        x = x + state["embed_positions.weight"][: len(ids)]
    rows = [
        state[f"embed_{name}.weight"]
        for name in ("memory", "cls")
        if f"embed_{name}.weight" in state
    ]
    return torch.cat([*rows, x])
