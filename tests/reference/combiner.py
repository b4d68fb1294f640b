"""Combiner from its definition: one sequence, one head, attention as a matrix of all pairs.

`plan(...)` lists what position i attends to directly and the spans that it attends to through
summaries; `effective_attention` makes of that the matrix `(n, n)` whose product with the values is
the output. Rows of the matrix sum to 1.
"""

import torch
from torch import Tensor


def pool(rows: Tensor, kind: str) -> Tensor:
    return {"max": lambda: rows.amax(0), "mean": lambda: rows.mean(0), "sum": lambda: rows.sum(0)}[
        kind
    ]()


def fixed_plan(i, n, s, causal, strict, summaries=True):
    own = i // s
    direct = [j for j in range(n) if j // s == own and (j <= i or not causal)]
    spans = []
    for r in range((n + s - 1) // s):
        wanted = r < own if causal else (r != own or not strict)
        if summaries and wanted:
            spans.append([j for j in range(n) if j // s == r])
    return direct, spans


def logsparse_plan(i, n, causal):
    def before(i):
        found = []
        for level in range(n.bit_length()):
            if i >> level & 1:
                block = i >> level
                found.append(list(range((block - 1) << level, block << level)))
        return found

    spans = before(i)
    if not causal:
        spans += [[n - 1 - j for j in span] for span in before(n - 1 - i)]
    # one token needs no summary
    direct = [i] + [span[0] for span in spans if len(span) == 1]
    return direct, [span for span in spans if len(span) > 1]


def axial_plan(i, n, m, causal, strict, vertical, horizontal, summaries=True):
    row, col = divmod(i, m)
    cells = [(j, *divmod(j, m)) for j in range(n)]
    direct = [j for j, r, c in cells if r == row and (c <= col or not causal)]
    direct += [j for j, r, c in cells if c == col and (r < row or (r > row and not causal))]
    spans = []
    if summaries and vertical:
        for other in set(range(m)) - {col}:
            if causal or strict:
                spans.append([j for j, r, c in cells if c == other and r < row])
            if not causal and strict:
                spans.append([j for j, r, c in cells if c == other and r > row])
            if not causal and not strict:
                spans.append([j for j, r, c in cells if c == other])
    if summaries and horizontal:
        last = row if causal else cells[-1][1] + 1
        for other in set(range(last)) - {row}:
            if strict:
                spans.append([j for j, r, c in cells if r == other and c < col])
                spans.append([j for j, r, c in cells if r == other and c > col])
            else:
                spans.append([j for j, r, c in cells if r == other])
    return direct, [span for span in spans if span]


def effective_attention(plan, q, k, kind="max", pooled_q=None, pooled_k=None) -> Tensor:
    """`(n, n)`: how much of each value each position gets; `q` is scaled."""
    n = len(q)
    pooled_q, pooled_k = q if pooled_q is None else pooled_q, k if pooled_k is None else pooled_k
    rows = []
    for i in range(n):
        direct, spans = plan(i)
        scores = [q[i] @ k[j] for j in direct]
        scores += [q[i] @ pool(pooled_k[span], kind) for span in spans]
        shares = torch.stack(scores).softmax(0)
        row = torch.zeros(n, dtype=q.dtype)
        for share, j in zip(shares, direct, strict=False):
            row = row + share * one_hot(j, n, q.dtype)
        for share, span in zip(shares[len(direct) :], spans, strict=True):
            inner = (k[span] @ pool(pooled_q[span], kind)).softmax(0)
            for weight, j in zip(inner, span, strict=True):
                row = row + share * weight * one_hot(j, n, q.dtype)
        rows.append(row)
    return torch.stack(rows)


def one_hot(j: int, n: int, dtype: torch.dtype) -> Tensor:
    return torch.nn.functional.one_hot(torch.tensor(j), n).to(dtype)


def count_scores(plan, i: int) -> int:
    direct, spans = plan(i)
    return len(direct) + len(spans)


def row_shares(q: Tensor, k: Tensor, m: int) -> Tensor:
    """`(n, n)`: attention of every token to its whole row."""
    n = len(q)
    rows = torch.arange(n) // m
    scores = (q @ k.T).masked_fill(rows[:, None] != rows, -torch.inf)
    return scores.softmax(1)


def rowmajor_attention(q, k, summary_key, m, causal, strict) -> Tensor:
    """`(n, n)`, given the key of each token's row for the token's column."""
    n, shares = len(q), row_shares(q, k, m)
    out = []
    for i in range(n):
        row, col = divmod(i, m)
        direct = [j for j in range(n) if j // m == row and (j <= i or not causal)]
        spans = []
        for other in range((n + m - 1) // m):
            wanted = other < row if causal else (other != row or not strict)
            if wanted:
                # beyond the end of the last row: as its last token
                spans.append(min(other * m + col, n - 1))
        scores = [q[i] @ k[j] for j in direct] + [q[i] @ summary_key[j] for j in spans]
        weights = torch.stack(scores).softmax(0)
        line = torch.zeros(n, dtype=q.dtype)
        for weight, j in zip(weights, direct, strict=False):
            line = line + weight * one_hot(j, n, q.dtype)
        for weight, j in zip(weights[len(direct) :], spans, strict=True):
            line = line + weight * shares[j]
        out.append(line)
    return torch.stack(out)


def cluster_plan(i, clusters, s, causal, strict, summaries=True):
    """`clusters[j]` of every position; clusters of more than s members are divided."""
    parts = []
    for cluster in sorted(set(clusters)):
        members = [j for j, other in enumerate(clusters) if other == cluster]
        parts += [members[first : first + s] for first in range(0, len(members), s)]
    direct, spans = [], []
    for part in parts:
        seen = [j for j in part if j <= i or not causal]
        if i in part:
            direct = seen
        if summaries and seen and (i not in part or not strict):
            spans.append(seen)
    return direct, spans
