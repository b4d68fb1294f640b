"""What the heads of one attention layer compute: scales, groups, the CLS token, exact heads."""

import pytest
import torch

from hf_mixers.models import packing
from tests.families import find_row, flatten, random_ids
from tests.reference import multiresolution as reference

ROW = find_row("mrsformer")


@pytest.mark.parametrize("changes", [{}, {"pooling": "cls"}], ids=["plain", "cls"])
def test_scale_1_is_the_multi_head_attention_of_torch(changes):
    model = ROW.build(head_scales=[1] * 4, **changes)
    ours = model.layers[0].attention
    theirs = torch.nn.MultiheadAttention(16, 4, batch_first=True)
    with torch.no_grad():
        names = ("q_proj", "k_proj", "v_proj")
        theirs.in_proj_weight.copy_(torch.cat([getattr(ours, n).weight for n in names]))
        theirs.in_proj_bias.copy_(torch.cat([getattr(ours, n).bias for n in names]))
        theirs.out_proj.load_state_dict(ours.o_proj.state_dict())
    hidden = torch.randn(21, 16)
    pack = packing.pack_ragged([packing.Boundaries((1, 21), hidden.device)])
    expected = theirs(hidden[None], hidden[None], hidden[None])[0][0]
    torch.testing.assert_close(ours(hidden, pack), expected, atol=1e-6, rtol=1e-5)


def run_attention(model, hidden, lengths=None):
    """The heads of the first layer before they are mixed, `(T, H, d)`, of one sequence or more."""
    attention = model.layers[0].attention
    seen = []
    hook = attention.o_proj.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    ends = torch.tensor([0, *(lengths or [len(hidden)])]).cumsum(0)
    pack = packing.pack_ragged(
        [packing.Boundaries((1, len(hidden)), hidden.device, cu_seq_lens=ends)]
    )
    attention(hidden, pack)
    hook.remove()
    return seen[0].unflatten(1, (model.config.num_attention_heads, -1))


@pytest.mark.parametrize("mode", ["efficient", "exact"])
def test_values_of_one_give_outputs_of_one(mode):
    model = ROW.build(head_scales=[1, 2, 4, 8], head_mode=mode)
    attention = model.layers[0].attention
    torch.nn.init.zeros_(attention.v_proj.weight)
    torch.nn.init.ones_(attention.v_proj.bias)
    out = run_attention(model, torch.randn(19, 16))
    torch.testing.assert_close(out, torch.ones_like(out))


def test_the_coarse_matrix_of_exact_heads_has_rows_that_sum_to_one():
    scores = torch.softmax(torch.randn(19, 19, dtype=torch.float64), 1)
    for scale, key_scale in ((1, 2), (4, 4), (8, 3)):
        coarse = reference.down(19, scale) @ scores @ reference.up(19, key_scale)
        torch.testing.assert_close(coarse.sum(1), torch.ones(len(coarse), dtype=torch.float64))


def test_exact_and_efficient_heads_agree_where_queries_and_keys_are_constant_on_groups():
    hidden = torch.randn(6, 16).repeat_interleave(4, 0)
    settings = {"head_scales": [1, 2, 4, 4]}
    outputs = [
        run_attention(ROW.build(head_mode=mode, **settings), hidden)
        for mode in ("efficient", "exact")
    ]
    torch.testing.assert_close(*outputs, atol=1e-6, rtol=1e-5)
    other = torch.randn(24, 16)
    outputs = [
        run_attention(ROW.build(head_mode=mode, **settings), other)
        for mode in ("efficient", "exact")
    ]
    torch.testing.assert_close(outputs[0][:, 0], outputs[1][:, 0])
    assert not torch.allclose(outputs[0][:, 3], outputs[1][:, 3], atol=1e-3)


@pytest.mark.parametrize("kind", ["softmax", "linear", "linformer", "performer", "fmm"])
def test_coarse_heads_are_constant_on_groups(kind):
    model = ROW.build(head_scales=[1, 2, 4, 8], attention_type=kind)
    out = run_attention(model, torch.randn(22, 16))
    for head, scale in enumerate(model.config.head_scales):
        for positions in reference.groups(22, scale):
            group = out[positions, head]
            assert torch.equal(group, group[:1].expand_as(group))
    assert not torch.allclose(out[0, 1], out[2, 1])


def test_order_inside_a_group_does_not_reach_coarse_heads_of_the_cls_token():
    model = ROW.build(head_scales=[4, 1, 4, 4], pooling="cls")
    hidden = torch.randn(13, 16)
    swapped = hidden[[0, 1, 2, 3, 4, 8, 6, 7, 5, 9, 10, 11, 12]]
    before, after = run_attention(model, hidden), run_attention(model, swapped)
    torch.testing.assert_close(before[0, [0, 2, 3]], after[0, [0, 2, 3]])
    across = hidden[[0, 1, 2, 9, 4, 5, 6, 7, 8, 3, 10, 11, 12]]
    assert not torch.allclose(run_attention(model, across)[0, 0], before[0, 0])


def test_the_cls_token_is_a_key_of_its_own_that_every_group_hears():
    model = ROW.build(head_scales=[4] * 4, pooling="cls")
    hidden = torch.randn(13, 16, requires_grad=True)
    out = run_attention(model, hidden)
    for row in range(13):
        (grad,) = torch.autograd.grad(out[row].sum(), hidden, retain_graph=True)
        assert grad[0].any()
        # members of a group share what comes back to them, the CLS token has its own
        assert torch.allclose(grad[1], grad[4])
        assert not torch.allclose(grad[0], grad[1])


@pytest.mark.parametrize("changes", [{}, {"group_size_bias": True}, {"attention_type": "luna"}])
def test_eager_and_sdpa_attention_agree(changes):
    inputs = flatten([random_ids(n) for n in (1, 2, 3, 8, 9, 33)])
    outputs = [
        ROW.build(attn_implementation=name, **changes)(**inputs).last_hidden_state
        for name in ("eager", "sdpa")
    ]
    torch.testing.assert_close(*outputs, atol=1e-5, rtol=1e-5)
    assert ROW.build().config._attn_implementation == "sdpa"


def test_first_tokens_are_kept_out_of_groups_as_configured():
    assert ROW.config().prefix_size == 0
    assert ROW.config(pooling="first").prefix_size == 1
    assert ROW.config(pooling="cls").prefix_size == 1
    assert ROW.config(pooling="cls", attention_type="luna").prefix_size == 4
    assert ROW.config(pooling="first", num_prefix_tokens=0).prefix_size == 0
    hidden = torch.randn(9, 16)
    out = run_attention(ROW.build(head_scales=[4] * 4, num_prefix_tokens=2), hidden)
    for positions in ([0], [1], [2, 3, 4, 5], [6, 7, 8]):
        assert torch.equal(out[positions], out[positions[:1]].expand_as(out[positions]))
    assert not torch.allclose(out[1], out[2])


@pytest.mark.parametrize("name", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", ["softmax", "linear", "linformer", "performer", "fmm", "luna"])
def test_rows_without_any_token_which_compilers_cannot_refuse_harm_nothing(kind, name):
    settings = {} if kind == "linformer" else {"group_size_bias": True}
    model = ROW.build(attention_type=kind, attn_implementation=name, **settings)
    attention = model.layers[0].attention
    mask = torch.arange(9) < torch.tensor([[9], [0]])
    hidden = torch.randn(2, 9 + model.config.memory_size, 16)
    outputs = []
    for count in (1, 2):
        boundaries = packing.Boundaries((count, 9), hidden.device, mask=mask[:count])
        pack = packing.pack_static([boundaries])
        if model.config.memory_size:
            pack, *_ = pack.with_prefix(model.config.memory_size)
        outputs.append(attention(hidden[:count].flatten(0, 1), pack).view(count, -1, 16)[0])
    torch.testing.assert_close(*outputs)
    outputs[1].sum().backward()
    assert all(p.grad.isfinite().all() for p in attention.parameters() if p.grad is not None)
