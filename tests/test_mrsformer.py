"""MrsFormer's network against its slow twin, forward and gradient; its heads and settings."""

import pytest
import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from hf_mixers import (
    MrsFormerConfig,
    MrsFormerForSequenceClassification,
    MrsFormerModel,
)
from hf_mixers.models import attention_multiresolution, packing

from .families import SHARED_VARIANTS, find_row, flatten, random_ids
from .reference import multiresolution as reference

ROW = find_row("mrsformer")
LENGTHS = [1, 2, 3, 8, 9, 33]
VARIANTS = {**SHARED_VARIANTS, **ROW.variants}


def slow_output(model, ids):
    """Output of one sequence by the slow twin, memory and CLS token included."""
    state = {**dict(model.named_buffers()), **dict(model.named_parameters())}
    rows = reference.embed(ids, state, model.config)
    return reference.run_blocks(rows, state, model.config)


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_the_network_equals_its_slow_twin_forward_and_gradient(changes, static, monkeypatch):
    monkeypatch.setattr(packing, "use_static_layout", lambda: static)
    model = ROW.build(**changes).double()
    sequences = [random_ids(n) for n in LENGTHS]
    output = model(**flatten(sequences)).last_hidden_state[0]
    slow = torch.cat([slow_output(model, ids)[-len(ids) :] for ids in sequences])
    # exponents of keys are counted from the largest one, which leaves a small constant
    tolerance = {"atol": 1e-4, "rtol": 1e-3} if "performer" in changes.values() else {}
    torch.testing.assert_close(output, slow, **tolerance)
    probe = torch.randn_like(output)
    parameters = list(model.parameters())
    fast_gradients = torch.autograd.grad(
        (output * probe).sum(), parameters, allow_unused=True, materialize_grads=True
    )
    slow_gradients = torch.autograd.grad(
        (slow * probe).sum(), parameters, allow_unused=True, materialize_grads=True
    )
    if tolerance:
        for fast, exact in zip(fast_gradients, slow_gradients, strict=True):
            assert (fast - exact).norm() <= 1e-3 * exact.norm() + 1e-6
    else:
        torch.testing.assert_close(fast_gradients, slow_gradients)


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


@pytest.mark.parametrize("kind", ["softmax", "linear", "linformer", "performer", "fmm", "luna"])
def test_adapters_and_hooks_see_projections_of_all_tokens_with_equal_results(kind):
    """Pooling before projecting changes nothing, and is left out where somebody watches."""
    model = ROW.build(attention_type=kind, head_scales=[1, 4, 2, 4])
    inputs = flatten([random_ids(n) for n in LENGTHS])
    expected = model(**inputs).last_hidden_state
    seen = []
    for layer in model.layers:
        layer.attention.q_proj.register_forward_hook(lambda _, i, out: seen.append(out.shape))
    torch.testing.assert_close(model(**inputs).last_hidden_state, expected, atol=1e-5, rtol=1e-5)
    rows = sum(LENGTHS) + len(LENGTHS) * model.config.memory_size
    assert seen == [(rows, 16)] * 2


@pytest.mark.parametrize("changes", [{}, {"group_size_bias": True}, {"attention_type": "luna"}])
def test_eager_and_sdpa_attention_agree(changes):
    inputs = flatten([random_ids(n) for n in LENGTHS])
    outputs = [
        ROW.build(attn_implementation=name, **changes)(**inputs).last_hidden_state
        for name in ("eager", "sdpa")
    ]
    torch.testing.assert_close(*outputs, atol=1e-5, rtol=1e-5)
    assert ROW.build().config._attn_implementation == "sdpa"


@pytest.fixture
def count_scores(monkeypatch):
    """Scores that the attention function is asked for, all heads and sequences together."""
    counts = []

    def counting(module, query, key, value, mask, **kwargs):
        counts.append(query.shape[0] * query.shape[1] * query.shape[2] * key.shape[2])
        sdpa = ALL_ATTENTION_FUNCTIONS["sdpa"]
        return sdpa(module, query, key, value, mask, **kwargs)

    interface = type(ALL_ATTENTION_FUNCTIONS)
    monkeypatch.setattr(interface, "get_interface", lambda *_: counting)

    def count(**settings):
        counts.clear()
        MrsFormerModel(MrsFormerConfig(num_hidden_layers=1, **settings))(random_ids(1, 512))
        return sum(counts)

    return count


@pytest.mark.parametrize(
    "scales", [[1, 2], [1, 2, 2, 4], [1, 1, 2, 2, 4, 4, 8, 8]], ids=lambda s: str(len(s))
)
def test_scores_that_are_computed_have_the_ratio_of_the_formula(scales, count_scores):
    ratio = count_scores(head_scales=scales) / count_scores(head_scales=[1] * len(scales))
    assert ratio == sum(1 / scale**2 for scale in scales) / len(scales)
    queries_only = count_scores(head_scales=scales, key_scales=[1] * len(scales))
    assert queries_only == 512**2 * sum(1 / scale for scale in scales)
    exact = count_scores(head_scales=scales, head_mode="exact")
    assert exact == 512**2 * len(scales)


def test_short_sequences_do_not_pay_for_long_neighbours(count_scores, monkeypatch):
    model = MrsFormerModel(MrsFormerConfig(num_hidden_layers=1, head_scales=[1, 2]))
    lengths = [1000, 12, 300, 11, 1, 290]
    rows = []
    original = attention_multiresolution.SoftmaxHeads.attend

    def watched(self, query, key, value, mask=None):
        rows.append(query.shape[0] * query.shape[2] * key.shape[2])
        return original(self, query, key, value, mask)

    monkeypatch.setattr(attention_multiresolution.SoftmaxHeads, "attend", watched)
    model(**flatten([random_ids(n) for n in lengths]))
    needed = sum(n**2 + (-(-n // 2)) ** 2 for n in lengths)
    assert sum(rows) < 1.05 * needed


@pytest.mark.parametrize("kind", ["linear", "performer", "fmm", "linformer", "luna"])
def test_other_kinds_of_attention_are_linear_in_the_length(kind):
    class Largest(torch.utils._python_dispatch.TorchDispatchMode):
        numel = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            if torch.is_tensor(result):
                Largest.numel = max(Largest.numel, result.numel())
            return result

    model = ROW.build(attention_type=kind, max_position_embeddings=4096)
    sizes = []
    for length in (1024, 4096):
        Largest.numel = 0
        with Largest(), torch.no_grad():
            model(random_ids(1, length))
        sizes.append(Largest.numel)
    assert sizes[1] < 5 * sizes[0]
    assert sizes[1] < 4096**2 / 2


def test_linformer_has_no_more_rows_than_groups_and_refuses_longer_sequences():
    model = ROW.build(
        attention_type="linformer", head_scales=[1, 2, 8, 8], max_position_embeddings=24
    )
    heads = model.layers[0].attention.heads
    shapes = [tuple(p.shape) for p in heads.parameters()]
    assert shapes == [(1, 8, 24), (1, 8, 12), (2, 3, 3)]
    assert model(random_ids(1, 24)).last_hidden_state.isfinite().all()
    with pytest.raises(ValueError, match="25 tokens, but attention_type='linformer' has weights"):
        model(random_ids(1, 25))
    compiled = torch.compile(model, backend="eager")
    with pytest.raises(RuntimeError, match="but attention_type='linformer' has weights for 24"):
        compiled(random_ids(1, 25))


def test_order_is_known_unless_settings_say_otherwise():
    values = torch.randn(1, 64, 3)
    for settings, knows_order in (
        ({"input_features": 3}, True),
        ({"input_features": 3, "position_embedding_type": "none"}, False),
    ):
        model = MrsFormerForSequenceClassification(MrsFormerConfig(**settings)).eval()
        change = model(input_values=values).logits - model(input_values=values.flip(1)).logits
        assert (change.abs().max() > 1e-4) == knows_order
    assert MrsFormerConfig(num_numeric_features=3).position_embedding_type == "none"
    assert MrsFormerConfig().initializer_range == 0.02


def test_random_directions_are_saved_and_come_from_the_seed(tmp_path):
    settings = {"attention_type": "performer"}
    torch.manual_seed(1)
    first = MrsFormerModel(ROW.config(**settings))
    torch.manual_seed(2)
    again = MrsFormerModel(ROW.config(**settings))
    other = MrsFormerModel(ROW.config(**settings, feature_seed=100))
    name = "layers.1.attention.heads.directions"
    assert torch.equal(first.state_dict()[name], again.state_dict()[name])
    assert not torch.equal(first.state_dict()[name], other.state_dict()[name])
    assert not torch.equal(first.state_dict()[name], first.state_dict()[name.replace("1", "0")])
    other.save_pretrained(tmp_path)
    loaded = MrsFormerModel.from_pretrained(tmp_path, feature_seed=7)
    assert torch.equal(loaded.state_dict()[name], other.state_dict()[name])


def test_the_near_field_starts_silent_and_learns():
    model = ROW.build("sequence_classification", attention_type="fmm")
    heads = model.model.layers[0].attention.heads
    assert not heads.near.any()
    assert torch.equal(heads.far, torch.full_like(heads.far, 1 / 2))
    model(random_ids(2, 9), labels=torch.tensor([0, 1])).loss.backward()
    assert heads.near.grad.any()


def test_memory_goes_from_layer_to_layer_and_not_through_the_mlp():
    model = ROW.build(attention_type="luna")
    seen = []
    for layer in model.layers:
        layer.register_forward_hook(lambda _, inputs, out: seen.append((inputs[0], out)))
    mlp = []
    model.layers[0].mlp.register_forward_hook(lambda *_: mlp.append(1))
    ids = random_ids(1, 9)
    output = model(ids)
    assert output.last_hidden_state.shape == (1, 9, 16)
    (before, between), (second, _) = seen
    assert before.shape == (12, 16)
    torch.testing.assert_close(before[:3], model.embed_memory.weight)
    assert torch.equal(between, second)
    with torch.no_grad():
        model.layers[0].mlp.fc2.bias.add_(1)
    model(ids)
    torch.testing.assert_close(seen[2][1][:3], between[:3])
    assert not torch.allclose(seen[2][1][3:], between[3:])


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


def test_attention_of_every_kind_drops_out_in_training_only():
    for kind in ("softmax", "linear", "linformer", "performer", "fmm", "luna"):
        model = ROW.build(attention_type=kind, attention_probs_dropout_prob=0.5)
        ids = random_ids(1, 30)
        assert torch.equal(model(ids)[0], model(ids)[0]), kind
        model.train()
        assert not torch.allclose(model(ids)[0], model(ids)[0]), kind


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_attention_heads": 3}, "must divide hidden_size=16, got 3"),
        (
            {"num_attention_heads": 16, "head_scales": None},
            "head_scales must be given for num_attention_heads=16",
        ),
        (
            {"num_attention_heads": 4},
            r"one number of at least 1 for each of the 4 heads, got \[1, 2",
        ),
        ({"key_scales": [1, 2, 0, 1]}, "key_scales must hold one number of at least 1"),
        ({"attention_type": "fmm", "key_scales": [1, 1]}, "a near field needs one scale"),
        ({"attention_type": "luna", "num_prefix_tokens": 1}, "must be at least 3, the rows that"),
        ({"pooling": "cls", "num_prefix_tokens": 0}, "must be at least 1, the rows that"),
        ({"num_prefix_tokens": -1}, "num_prefix_tokens must be at least 0, .* got -1"),
        ({"attention_type": "linear", "head_mode": "exact"}, "is for attention_type='softmax'"),
        ({"group_size_bias": True, "head_mode": "exact"}, "without group_size_bias"),
        ({"group_size_bias": True, "attention_type": "linformer"}, "has no meaning for attention"),
        ({"fmm_bandwidth": 4}, "fmm_bandwidth must be odd, got 4"),
        ({"linformer_size": 0}, "linformer_size must be at least 1, got 0"),
        ({"fmm_kernels": ["cosine"]}, "fmm_kernels must be some of elu, .* got .*cosine"),
        ({"norm_position": "post", "skip_first_norm": True}, "skip_first_norm needs norm_position"),
        ({"image_size": 30}, "image_size must be a multiple of patch_size=16, got 30"),
        (
            {"image_size": 32, "input_features": 3},
            "one kind of input, got input_features and image",
        ),
        ({"category_sizes": [3, 0]}, r"category_sizes must be at least 1, got \[3, 0\]"),
        ({"num_numeric_features": -1}, "num_numeric_features must not be negative, got -1"),
        ({"pool2d": True}, "pool2d needs images"),
        (
            {"pool2d": True, "image_size": 48, "head_scales": [1, 2, 2, 4]},
            "largest tile, here 2 x 2 patches, divides the 3 x 3 patches",
        ),
        ({"image_size": 32, "tie_word_embeddings": True}, "but the model reads pixel_values"),
        ({"attention_type": "sparse"}, "attention_type"),
        ({"intermediate_dropout_prob": 1.5}, r"must lie in \[0, 1\), got 1.5"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(changes, message):
    with pytest.raises(Exception, match=message):
        ROW.config(**changes)


def test_presets_are_the_tables_of_the_supplement():
    widths = {name: MrsFormerConfig.preset(name) for name in MrsFormerConfig.presets}
    assert len(widths) == 10 + 3 + 2
    for name in ("pems_sf", "self_regulation_scp2", "uwave_gesture_library"):
        assert (widths[name].hidden_size, widths[name].intermediate_size) == (512, 2048)
    for name in ("ethanol_concentration", "heartbeat", "spoken_arabic_digits"):
        assert (widths[name].hidden_size, widths[name].intermediate_size) == (64, 256)
    for name in ("handwriting", "japanese_vowels", "self_regulation_scp1", "face_detection"):
        assert (widths[name].hidden_size, widths[name].intermediate_size) == (128, 256)
    for name in ("listops", "text", "retrieval"):
        config = widths[name]
        assert (config.hidden_size, config.intermediate_size) == (64, 128)
        assert config.hidden_size // config.num_attention_heads == 32
        assert config.head_scales == [1, 2]
    assert widths["japanese_vowels"].head_scales == [1, 1, 2, 2, 4, 4, 8, 8]
    assert widths["deit"].head_scales == [1, 2, 2, 4]
    assert widths["deit"].max_position_embeddings == 196
    table = MrsFormerConfig.preset("ft_transformer", num_numeric_features=6, category_sizes=[2, 9])
    assert table.max_position_embeddings == 8


@pytest.mark.parametrize("name", ["japanese_vowels", "listops", "deit", "ft_transformer"])
def test_a_preset_runs(name):
    model = MrsFormerForSequenceClassification(MrsFormerConfig.preset(name)).eval()
    with torch.no_grad():
        if name == "deit":
            logits = model(pixel_values=torch.randn(1, 3, 224, 224)).logits
        elif name == "ft_transformer":
            logits = model(numeric_values=torch.randn(1, 8)).logits
        else:
            logits = model(**model.dummy_inputs).logits
    assert logits.shape[1] == model.config.num_labels
    assert logits.isfinite().all()
