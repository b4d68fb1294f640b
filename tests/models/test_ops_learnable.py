"""Attention by clusters against its definition, and centroids that follow their tokens."""

import pytest
import torch

from hf_mixers.models import ops_learnable_past, ops_lines
from hf_mixers.models.ops_learnable import (
    assign_clusters,
    directions_of,
    learnable_attention,
    mean_directions,
)
from hf_mixers.models.ops_spans import Projected
from hf_mixers.models.packing import Boundaries, pack_ragged
from tests.models.test_ops_combiner import (
    HEADS,
    LENGTHS,
    WIDTH,
    LargestTensor,
    check,
    draw,
    every_direction,
    every_layout,
    run,
)
from tests.reference import combiner as reference

CLUSTERS, SEGMENT = 3, 4


@every_direction
@every_layout
@pytest.mark.parametrize("summaries", [True, False])
@pytest.mark.parametrize("kind", ["max", "mean"])
def test_attention_equals_its_definition(causal, strict, layout, summaries, kind):
    batch, rows = draw(LENGTHS, extra=2)
    clusters = torch.randint(CLUSTERS, (*batch.shape, HEADS))

    def attend(parts, pack):
        return learnable_attention(
            Projected(*parts),
            pack.gather(clusters.flatten(0, 1)),
            pack,
            CLUSTERS,
            SEGMENT,
            causal=causal,
            span_pool=kind,
            exclude_own_span=strict,
            use_summaries=summaries,
        )

    places = iter((b, h) for b in range(len(LENGTHS)) for h in range(HEADS))

    def slow(q, k, v, pooled_q, pooled_k):
        number, head = next(places)
        here = clusters[number, : len(q), head].tolist()

        def plan(i):
            return reference.cluster_plan(i, here, SEGMENT, causal, strict, summaries)

        return reference.effective_attention(plan, q, k, kind, pooled_q, pooled_k) @ v

    check(run(attend, rows, batch, layout), slow, rows, LENGTHS)


@pytest.mark.parametrize("kind", ["max", "mean"])
def test_lines_may_be_computed_one_at_a_time(kind, monkeypatch):
    monkeypatch.setattr(ops_lines, "CHUNK", 1)
    test_attention_equals_its_definition(True, True, pack_ragged, True, kind)


@every_layout
def test_what_compiled_programs_do_equals_the_definition(layout, monkeypatch):
    for module in (ops_lines, ops_learnable_past):
        monkeypatch.setattr(module, "use_static_layout", lambda: True)
    test_attention_equals_its_definition(True, True, layout, True, "max")


def test_a_summary_that_sees_the_future_fails_these_tests(monkeypatch):
    plain = ops_learnable_past._block_summaries

    def leaking(*arguments):
        summary, hidden_from = plain(*arguments)
        return summary, hidden_from + 1

    monkeypatch.setattr(ops_learnable_past, "_block_summaries", leaking)
    with pytest.raises(AssertionError):
        test_attention_equals_its_definition(True, True, pack_ragged, True, "max")


def test_many_clusters_cost_short_sequences_nothing():
    # no tensor of clusters times tokens, forward or backward
    length, count = 16, 1000
    torch.manual_seed(0)
    rows = torch.randn(length, HEADS, WIDTH, requires_grad=True)
    pack = pack_ragged([Boundaries((1, length), torch.device("cpu"))])
    clusters = torch.randint(count, (length, HEADS))
    parts = Projected(rows, rows, rows, rows, rows)
    with LargestTensor() as largest:
        learnable_attention(parts, clusters, pack, count, SEGMENT, causal=True).sum().backward()
    # blocks of 4 tokens with at most 16 parts and 4 tokens
    assert largest.numel <= HEADS * length // SEGMENT * (length + SEGMENT) * max(WIDTH, SEGMENT)


@pytest.mark.parametrize("causal", [True, False])
def test_every_token_reaches_all_others_and_shares_sum_to_one(causal):
    length = 13
    torch.manual_seed(0)
    q, k = torch.randn(2, length, 1, length, dtype=torch.float64)
    values = torch.eye(length, dtype=torch.float64)[:, None]
    pack = pack_ragged([Boundaries((1, length), torch.device("cpu"))])
    clusters = torch.randint(CLUSTERS, (length, 1))
    parts = Projected(q, k, values, q, k)
    matrix = learnable_attention(parts, clusters, pack, CLUSTERS, SEGMENT, causal=causal)[:, 0]
    torch.testing.assert_close(matrix.sum(1), torch.ones(length, dtype=torch.float64))
    wanted = torch.ones(length, length, dtype=torch.bool)
    assert torch.equal(matrix > 0, wanted.tril() if causal else wanted)


def test_tokens_go_to_the_nearest_centroid_and_means_are_those_of_tokens():
    batch, rows = draw([5, 9])
    pack = pack_ragged([batch])
    query, key = (pack.gather(part.detach().flatten(0, 1)) for part in rows[:2])
    directions = directions_of(query, key)
    centroids = torch.randn(HEADS, CLUSTERS, WIDTH, dtype=torch.float64)
    clusters = assign_clusters(directions, centroids)
    means, counts = mean_directions(directions, clusters, pack, CLUSTERS)
    assert counts.sum() == 14 * HEADS
    for head in range(HEADS):
        scores = directions[:, head] @ centroids[head].T
        assert torch.equal(clusters[:, head], scores.argmax(1))
        for cluster in range(CLUSTERS):
            members = directions[clusters[:, head] == cluster, head]
            assert counts[head, cluster] == len(members)
            if len(members):
                torch.testing.assert_close(means[head, cluster], members.mean(0))
