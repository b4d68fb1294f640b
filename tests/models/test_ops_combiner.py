"""Combiner's patterns against their definition: forward, gradient, and what the paper promises."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from hf_mixers.models import ops_grid, ops_lines
from hf_mixers.models.ops_axial import axial_attention
from hf_mixers.models.ops_fixed import fixed_attention
from hf_mixers.models.ops_logsparse import levels_of, logsparse_attention
from hf_mixers.models.ops_rowmajor import row_attention, rowmajor_attention
from hf_mixers.models.ops_spans import Projected
from hf_mixers.models.packing import Boundaries, pack_ragged, pack_static
from tests.reference import combiner as reference

HEADS, WIDTH = 2, 3
SEGMENT = 4
LENGTHS = [1, 3, 4, 5, 9, 16]

# patterns that a plan describes: the fast function, and the plan of position i of n
PLANS = {
    "fixed": (
        lambda parts, pack, **kw: fixed_attention(parts, pack, SEGMENT, **kw),
        lambda i, n, causal, strict: reference.fixed_plan(i, n, SEGMENT, causal, strict),
    ),
    "fixed, local only": (
        lambda parts, pack, **kw: fixed_attention(parts, pack, SEGMENT, use_summaries=False, **kw),
        lambda i, n, causal, strict: reference.fixed_plan(i, n, SEGMENT, causal, strict, False),
    ),
    "logsparse": (
        lambda parts, pack, exclude_own_span, **kw: logsparse_attention(parts, pack, **kw),
        lambda i, n, causal, strict: reference.logsparse_plan(i, n, causal),
    ),
    **{
        name: (
            partial(
                lambda parts, pack, ways, **kw: axial_attention(parts, pack, SEGMENT, **ways, **kw),
                ways={"vertical": vertical, "horizontal": horizontal, "use_summaries": summaries},
            ),
            partial(
                lambda i, n, causal, strict, ways: reference.axial_plan(
                    i, n, SEGMENT, causal, strict, *ways
                ),
                ways=(vertical, horizontal, summaries),
            ),
        )
        for name, vertical, horizontal, summaries in (
            ("axial_vertical", True, False, True),
            ("axial_horizontal", False, True, True),
            ("axial_mixture", True, True, True),
            ("axial, local only", True, True, False),
        )
    },
}
every_plan = pytest.mark.parametrize("pattern", PLANS)
every_direction = pytest.mark.parametrize(
    ("causal", "strict"),
    [(True, True), (False, True), (False, False)],
    ids=["causal", "both directions", "overlapping"],
)
every_layout = pytest.mark.parametrize(
    "layout", [pack_ragged, pack_static], ids=["ragged", "static"]
)


def draw(lengths, extra=0):
    """Projections of a padded batch in double precision, and the batch."""
    torch.manual_seed(0)
    width = max(lengths) + extra
    mask = torch.arange(width) < torch.tensor(lengths)[:, None]
    batch = Boundaries(tuple(mask.shape), torch.device("cpu"), mask=mask)
    shape = *mask.shape, HEADS, WIDTH
    return batch, [torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in range(5)]


def run(function, rows, batch, layout):
    """A function of projections and pack, from and to the padded layout."""
    pack = layout([batch])
    packed = [pack.gather(part.flatten(0, 1)) for part in rows]
    return pack.unpack(function(packed, pack)).view(*batch.shape, HEADS, WIDTH)


def check(fast, slow, rows, lengths):
    """Outputs and gradients are equal; `slow` gets the projections of one head of a sequence."""
    expected = torch.zeros_like(fast)
    for number, length in enumerate(lengths):
        for head in range(HEADS):
            part = number, slice(length), head
            expected[part] = slow(*(values[part] for values in rows))
    torch.testing.assert_close(fast, expected)
    probe = torch.randn_like(fast)
    used = [values for values in rows if values.requires_grad]
    gradients = [
        torch.autograd.grad((out * probe).sum(), used, allow_unused=True, retain_graph=True)
        for out in (fast, expected)
    ]
    for ours, theirs in zip(*gradients, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            torch.testing.assert_close(ours, theirs)


@every_plan
@every_direction
@every_layout
@pytest.mark.parametrize("kind", ["max", "mean"])
def test_patterns_equal_their_definition(pattern, causal, strict, layout, kind):
    function, plan = PLANS[pattern]
    lengths = LENGTHS if kind == "max" else [3, 9]
    batch, rows = draw(lengths, extra=2)

    def attend(parts, pack):
        return function(
            Projected(*parts), pack, causal=causal, exclude_own_span=strict, span_pool=kind
        )

    def slow(q, k, v, pooled_q, pooled_k):
        here = partial(plan, n=len(q), causal=causal, strict=strict)
        return reference.effective_attention(here, q, k, kind, pooled_q, pooled_k) @ v

    check(run(attend, rows, batch, layout), slow, rows, lengths)


@pytest.mark.parametrize("pattern", ["axial_vertical", "axial_horizontal", "axial_mixture"])
@every_direction
def test_sums_instead_of_maxima_equal_their_definition(pattern, causal, strict):
    function, plan = PLANS[pattern]
    lengths = [3, 8, 17]
    batch, rows = draw(lengths)

    def attend(parts, pack):
        return function(
            Projected(*parts), pack, causal=causal, exclude_own_span=strict, span_pool="sum"
        )

    def slow(q, k, v, pooled_q, pooled_k):
        here = partial(plan, n=len(q), causal=causal, strict=strict)
        return reference.effective_attention(here, q, k, "sum", pooled_q, pooled_k) @ v

    check(run(attend, rows, batch, pack_ragged), slow, rows, lengths)


@every_direction
@every_layout
def test_rowmajor_equals_its_definition(causal, strict, layout):
    batch, rows = draw(LENGTHS, extra=1)

    def attend(parts, pack):
        q, k, v, summary_key, _ = parts
        found = row_attention(q, k, v, pack, SEGMENT)
        return rowmajor_attention(
            Projected(q, k, v, q, k),
            summary_key,
            found,
            pack,
            SEGMENT,
            causal=causal,
            exclude_own_span=strict,
        )

    def slow(q, k, v, summary_key, _):
        return reference.rowmajor_attention(q, k, summary_key, SEGMENT, causal, strict) @ v

    check(run(attend, rows, batch, layout), slow, rows, LENGTHS)


def mix(pattern, q, k, v, pack, causal, strict=True, segment=SEGMENT):
    """A pattern's output `(T, H, d)`; keys of rows are those of their tokens."""
    parts, ways = Projected(q, k, v, q, k), {"causal": causal}
    if pattern == "logsparse":
        return logsparse_attention(parts, pack, **ways)
    ways["exclude_own_span"] = strict
    if pattern == "fixed":
        return fixed_attention(parts, pack, segment, **ways)
    if pattern == "axial_rowmajor":
        found = row_attention(q, k, v, pack, segment)
        return rowmajor_attention(parts, k, found, pack, segment, **ways)
    ways["vertical"] = pattern != "axial_horizontal"
    ways["horizontal"] = pattern != "axial_vertical"
    return axial_attention(parts, pack, segment, **ways)


def effective(pattern, lengths, causal, strict=True, layout=pack_ragged, segment=SEGMENT):
    """Projections, and the matrix `(n, n)` of the fast path for the first head of every sequence.

    The values are columns of the identity, some at a time.
    """
    batch, rows = draw(lengths)
    q, k = (part.detach() for part in rows[:2])
    pack = layout([batch])
    query, key = (pack.gather(part.flatten(0, 1)) for part in (q, k))
    columns = []
    for first in range(0, max(lengths), WIDTH):
        values = torch.eye(max(lengths) + WIDTH, dtype=torch.float64)[:-WIDTH]
        values = values[:, first : first + WIDTH].expand(len(lengths), HEADS, -1, -1)
        value = pack.gather(values.transpose(1, 2).flatten(0, 1))
        out = pack.unpack(mix(pattern, query, key, value, pack, causal, strict, segment))
        columns.append(out.view(*batch.shape, HEADS, WIDTH)[:, :, 0])
    matrices = torch.cat(columns, 2)
    return (q, k), [matrices[i, :n, :n] for i, n in enumerate(lengths)]


PATTERNS = [
    "fixed",
    "logsparse",
    "axial_rowmajor",
    "axial_vertical",
    "axial_horizontal",
    "axial_mixture",
]
every_pattern = pytest.mark.parametrize("pattern", PATTERNS)


@every_pattern
@every_direction
@every_layout
def test_every_token_reaches_all_others_and_shares_sum_to_one(pattern, causal, strict, layout):
    _, matrices = effective(pattern, LENGTHS, causal, strict, layout)
    for matrix in matrices:
        torch.testing.assert_close(matrix.sum(1), torch.ones(len(matrix), dtype=torch.float64))
        reached = matrix > 0
        wanted = torch.ones_like(reached)
        assert torch.equal(reached, wanted.tril() if causal else wanted)


@every_direction
@pytest.mark.parametrize("pattern", ["fixed", "axial_rowmajor", "axial_mixture"])
@pytest.mark.parametrize("segment", [1, 9])
def test_segments_of_one_or_all_tokens_are_full_attention(pattern, causal, strict, segment):
    if not causal and not strict and segment == 9:
        # a summary of all tokens besides all tokens: what the released code has
        return
    (q, k), (matrix,) = effective(pattern, [9], causal, strict, segment=segment)
    if pattern == "axial_mixture" and not causal and not strict:
        return
    scores = q[0, :, 0] @ k[0, :, 0].T
    if causal:
        scores = scores.masked_fill(~torch.ones(9, 9, dtype=torch.bool).tril(), -torch.inf)
    elif not strict:
        # the own token counts twice
        scores = scores + torch.eye(9, dtype=torch.float64) * torch.log(torch.tensor(2.0))
    torch.testing.assert_close(matrix, scores.softmax(1))


@pytest.mark.parametrize("length", [1, 2])
@pytest.mark.parametrize("causal", [True, False])
def test_logsparse_is_full_attention_for_two_tokens(length, causal):
    (q, k), (matrix,) = effective("logsparse", [length], causal)
    scores = q[0, :, 0] @ k[0, :, 0].T
    if causal:
        scores = scores.masked_fill(
            ~torch.ones(length, length, dtype=torch.bool).tril(), -torch.inf
        )
    torch.testing.assert_close(matrix, scores.softmax(1))


def test_blocks_between_segments_have_rank_one():
    _, (matrix,) = effective("fixed", [16], causal=True)
    for row in range(1, 4):
        for other in range(row):
            block = matrix[4 * row : 4 * row + 4, 4 * other : 4 * other + 4]
            assert torch.linalg.matrix_rank(block) == 1


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 9, 17, 31, 32, 33, 64, 65])
def test_logsparse_spans_tile_the_past(length):
    seen = [[i] for i in range(length)]
    for level in levels_of(length):
        for first, groups, size, viewers in level:
            for group in range(groups):
                start = first + group * (size + viewers)
                for i in range(start + size, start + size + viewers):
                    seen[i] += range(start, start + size)
    for i, found in enumerate(seen):
        assert sorted(found) == list(range(i + 1))


@pytest.mark.parametrize("length", [8, 9, 16, 17])
def test_numbers_of_scores_are_those_of_the_paper(length):
    n, m = -(-length // SEGMENT), SEGMENT
    last = length - 1
    fixed = partial(reference.fixed_plan, n=length, s=m, causal=True, strict=True)
    own = last % m + 1
    assert reference.count_scores(fixed, last) == own + n - 1 <= m + n
    logsparse = partial(reference.logsparse_plan, n=length, causal=True)
    assert reference.count_scores(logsparse, last) == 1 + last.bit_count()
    mixture = partial(
        reference.axial_plan,
        n=length,
        m=m,
        causal=True,
        strict=True,
        vertical=True,
        horizontal=True,
    )
    assert reference.count_scores(mixture, last) <= 3 * n + 2 * m


class LargestTensor(TorchDispatchMode):
    """The number of elements of the largest tensor that is made while it is entered."""

    numel = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for part in out if isinstance(out, tuple | list) else [out]:
            if torch.is_tensor(part):
                self.numel = max(self.numel, part.numel())
        return out


def test_no_pattern_makes_a_matrix_of_all_pairs():
    length, segment = 1024, 32
    batch, rows = draw([length])
    for pattern in PATTERNS:
        for causal in (True, False):
            with LargestTensor() as largest:
                pack = pack_ragged([batch])
                q, k, v = (pack.gather(part.flatten(0, 1)) for part in rows[:3])
                out = mix(pattern, q, k, v, pack, causal, segment=segment)
                out.sum().backward()
            # at most 2 (columns above, below) + 1 and 2 + 1 lines of 32 per token and head
            assert largest.numel <= HEADS * length * 6 * segment < HEADS * length**2


@pytest.mark.slow
@every_pattern
@pytest.mark.parametrize("causal", [True, False])
@settings(max_examples=15)
@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_company_does_not_matter(pattern, causal, lengths):
    _, together = effective(pattern, lengths, causal)
    _, rows = draw(lengths)
    for number, length in enumerate(lengths):
        alone = Boundaries((1, length), torch.device("cpu"))
        q, k, v = (part[number : number + 1, :length].detach() for part in rows[:3])
        pack = pack_ragged([alone])
        q, k, v = (part.flatten(0, 1) for part in (q, k, v))
        out = mix(pattern, q, k, v, pack, causal)
        torch.testing.assert_close(out[:, 0], together[number] @ v[:, 0])


def test_permuting_a_past_segment_changes_nothing_later():
    batch, rows = draw([12])
    q, k, v = (part.detach().flatten(0, 1) for part in rows[:3])
    order = torch.tensor([2, 0, 3, 1, *range(4, 12)])
    pack = pack_ragged([batch])
    plain = fixed_attention(Projected(q, k, v, q, k), pack, SEGMENT, causal=True)
    q, k, v = q[order], k[order], v[order]
    mixed = fixed_attention(Projected(q, k, v, q, k), pack, SEGMENT, causal=True)
    torch.testing.assert_close(mixed[4:], plain[4:])
    assert not torch.allclose(mixed[:4], plain[:4])


def test_a_leaking_grid_fails_these_tests(monkeypatch):
    plain = ops_grid._make_grid

    def leaking(pack, segment):
        grid = plain(pack, segment)
        object.__setattr__(grid, "present", torch.ones_like(grid.present))
        return grid

    monkeypatch.setattr(ops_grid, "_make_grid", leaking)
    with pytest.raises(AssertionError):
        test_patterns_equal_their_definition("fixed", False, True, pack_ragged, "max")


def test_a_summary_that_sees_the_future_fails_these_tests(monkeypatch):
    from hf_mixers.models import ops_fixed

    plain = ops_fixed._mask

    def leaking(block, present, causal, *rest):
        seen = plain(block, present, causal, *rest)
        if seen is not None and causal and seen.shape[-1] > block.width:
            seen = seen.clone()
            seen[..., block.width :] = 0
        return seen

    monkeypatch.setattr(ops_fixed, "_mask", leaking)
    with pytest.raises(AssertionError):
        test_every_token_reaches_all_others_and_shares_sum_to_one("fixed", True, True, pack_ragged)


@pytest.mark.parametrize("chunk", [1, 100])
def test_lines_may_be_computed_some_at_a_time(chunk, monkeypatch):
    made, plain = [], ops_lines._chunks

    def counted(*lines):
        made.append(list(plain(*lines)))
        return made[-1]

    monkeypatch.setattr(ops_lines, "CHUNK", chunk)
    monkeypatch.setattr(ops_lines, "_chunks", counted)
    test_rowmajor_equals_its_definition(False, True, pack_ragged)
    test_patterns_equal_their_definition("axial_mixture", True, True, pack_ragged, "max")
    assert max(map(len, made)) > 1


def test_attention_to_two_sets_of_keys_is_merged_into_one_softmax():
    torch.manual_seed(0)
    shapes = [(3, 5, 4), (3, 6, 4), (3, 6, 4)]
    query, key, value = (
        torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes
    )
    seen = torch.rand(3, 5, 6) < 0.5
    seen[..., 0] = True
    # of the second set the first query sees nothing
    seen[:, 0, 2:] = False

    def attend(keys):
        return ops_lines.attend_lines(
            query,
            key[:, keys],
            value[:, keys],
            torch.arange(3)[:, None],
            lambda n: seen[n[:, 0], :, keys],
        )

    pieces = [attend(slice(2)), attend(slice(2, 6))]
    merged = ops_lines.merge_attention(*zip(*pieces, strict=True))
    scores = (query @ key.transpose(1, 2)).masked_fill(~seen, -torch.inf)
    expected = scores.softmax(2) @ value
    torch.testing.assert_close(merged, expected)
    probe = torch.randn_like(merged)
    ours, theirs = (
        torch.autograd.grad((out * probe).sum(), (query, key, value)) for out in (merged, expected)
    )
    torch.testing.assert_close(ours, theirs)
