"""Paramixer's network against its slow twin, forward and gradient, and its own settings."""

import pytest
import torch

from hf_mixers import ParamixerConfig, ParamixerModel
from tests.families import find_row, flatten, random_ids
from tests.reference import links as reference

ROW = find_row("paramixer")
LENGTHS = [1, 2, 3, 8, 9, 33]


@pytest.mark.parametrize("changes", [{}, *ROW.variants.values()], ids=["plain", *ROW.variants])
def test_the_network_equals_its_slow_twin_forward_and_gradient(changes):
    model = ROW.build(**changes).double()
    config = model.config
    sequences = [random_ids(n) for n in LENGTHS]
    output = model(**flatten(sequences)).last_hidden_state[0]
    state = dict(model.named_parameters())
    slow = []
    for ids in sequences:
        embedded = values = state["embed_tokens.weight"][ids]
        if config.position_embedding_type == "absolute":
            values = values + state["embed_positions.weight"][: len(ids)]
        if config.links_see_position:
            embedded = values
        slow.append(reference.run_blocks(values, embedded, state, config))
    slow = torch.nn.functional.layer_norm(
        torch.cat(slow), [config.hidden_size], state["final_norm.weight"], state["final_norm.bias"]
    )
    torch.testing.assert_close(output, slow)
    probe = torch.randn_like(output)
    parameters = list(state.values())
    fast_gradients = torch.autograd.grad((output * probe).sum(), parameters)
    slow_gradients = torch.autograd.grad((slow * probe).sum(), parameters)
    torch.testing.assert_close(fast_gradients, slow_gradients)


def test_all_blocks_compute_their_links_from_the_same_embedding():
    model = ROW.build(num_hidden_layers=3)
    seen = []
    for layer in model.layers:
        for factor in layer.factors:
            factor.links.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    ids = random_ids(1, 9)
    model(ids)
    assert len(seen) == 3 * model.config.num_factors
    assert all(torch.equal(embedded, model.embed_tokens(ids[0])) for embedded in seen)


def test_the_second_block_hears_the_embedding_through_links_and_through_values():
    model = ROW.build(num_hidden_layers=2)
    embeddings = model.embed_tokens(random_ids(1, 9)).detach()
    for cut in ("links", "values"):
        model.zero_grad()
        given = embeddings.clone().requires_grad_()

        def detach(module, inputs, cut=cut):
            values, pack, embedded = inputs
            if cut == "links":
                return values, pack, embedded.detach()
            return values.detach(), pack, embedded

        hook = model.layers[1].register_forward_pre_hook(detach)
        model(inputs_embeds=given).last_hidden_state.square().sum().backward()
        hook.remove()
        assert given.grad.any()


def test_without_links_a_block_is_its_value_mlp():
    ids = random_ids(1, 13)
    for mode in ("previous", "initial", "none"):
        model = ROW.build(residual_mode=mode, final_norm="none")
        for factor in model.layers[0].factors:
            torch.nn.init.zeros_(factor.links.fc2.weight)
            torch.nn.init.zeros_(factor.links.fc2.bias)
        output = model(ids).last_hidden_state
        expected = model.layers[0].values(model.embed_tokens(ids))
        assert torch.equal(output, torch.zeros_like(output) if mode == "none" else expected)


@pytest.mark.parametrize("sees", [True, False])
def test_links_see_positions_or_do_not_and_values_always_do(sees):
    model = ROW.build(position_embedding_type="absolute", links_see_position=sees)
    seen = {}
    layer = model.layers[0]
    layer.values.register_forward_pre_hook(lambda _, x: seen.update(values=x[0]))
    layer.factors[0].links.register_forward_pre_hook(lambda _, x: seen.update(links=x[0]))
    ids = random_ids(1, 7)
    model(ids)
    content, positions = model.embed_tokens(ids[0]), model.embed_positions.weight[:7]
    torch.testing.assert_close(seen["values"], content + positions)
    torch.testing.assert_close(seen["links"], content + positions if sees else content)


def kept(rows: torch.Tensor) -> float:
    return (rows != 0).float().mean().item()


@pytest.mark.parametrize(("rate", "expected"), [(None, 0.64), (0.0, 0.8), (0.5, 0.4)])
def test_values_are_dropped_twice_and_links_once(rate, expected):
    model = ROW.build(embedding_dropout=0.2, value_dropout=rate, hidden_size=64).train()
    seen = {}
    layer = model.layers[0]
    layer.values.register_forward_pre_hook(lambda _, x: seen.update(values=x[0]))
    layer.factors[0].links.register_forward_pre_hook(lambda _, x: seen.update(links=x[0]))
    model(random_ids(1, 500))
    assert kept(seen["links"]) == pytest.approx(0.8, abs=0.01)
    assert kept(seen["values"]) == pytest.approx(expected, abs=0.01)


def test_the_output_of_a_block_is_dropped():
    model = ROW.build(hidden_dropout_prob=0.3, hidden_size=64, final_norm="none").train()
    assert kept(model(random_ids(1, 500)).last_hidden_state) == pytest.approx(0.7, abs=0.01)


def test_checkpointing_keeps_the_activations_of_no_factor():
    kept_numbers = []
    for checkpointing in (False, True):
        model = ROW.build(intermediate_size=64).train()
        if checkpointing:
            model.gradient_checkpointing_enable()
        sizes = []

        def pack_hook(tensor, sizes=sizes):
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack_hook, lambda tensor: tensor):
            model(random_ids(1, 256))
        kept_numbers.append(sum(size for size in sizes if size >= 256 * 64))
    assert kept_numbers[1] < kept_numbers[0] / 5


def test_defaults_follow_the_longest_length_and_the_protocol():
    for length, factors in ((1, 1), (2, 1), (1024, 10), (1025, 11), (2000, 11), (16384, 14)):
        config = ParamixerConfig(max_position_embeddings=length)
        assert (config.num_factors, config.num_links) == (factors, factors + 1)
        config = ParamixerConfig(max_position_embeddings=length, link_protocol="cdil")
        assert (config.num_factors, config.num_links) == (factors, 9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_factors": 0}, "num_factors must be at least 1, got 0"),
        ({"num_links": 1}, "num_links must be at least 2, got 1"),
        ({"link_protocol": "cdil", "num_links": 4}, "must be odd for link_protocol='cdil', got 4"),
        ({"links_see_position": False}, "needs position_embedding_type='absolute'"),
        ({"link_protocol": "ring"}, "link_protocol"),
        ({"checkpoint_segment_size": 2}, "has no meaning here: gradient checkpointing goes factor"),
        ({"residual_mode": "next"}, "residual_mode"),
        ({"value_dropout": 1.0}, r"value_dropout must lie in \[0, 1\), got 1.0"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(changes, message):
    with pytest.raises(Exception, match=message):
        ParamixerConfig(**changes)


def test_linear_layers_start_as_torch_starts_them():
    settings = {"hidden_size": 48, "intermediate_size": 64, "weight_init": "published"}
    model = ROW.build("masked_lm", **settings)
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            bound = module.in_features**-0.5
            assert 0.8 * bound < module.weight.abs().max() <= bound
            assert 0 < module.bias.abs().max() <= bound


def test_values_of_a_new_model_stay_within_a_few_orders_of_magnitude():
    torch.manual_seed(0)
    config = ParamixerConfig(max_position_embeddings=16384, final_norm="none")
    model = ParamixerModel(config).eval()
    with torch.no_grad():
        assert 1e-2 < model(random_ids(1, 16384)).last_hidden_state.std() < 1e4


def test_the_number_of_parameters_of_a_block_is_that_of_the_formula():
    config = ROW.config(num_links=7, num_factors=5)
    width, hidden, links, factors = config.hidden_size, config.intermediate_size, 7, 5
    block = ParamixerModel(config).layers[0]
    expected = factors * (width * hidden + hidden + hidden * links + links)
    expected += 2 * width * hidden + hidden + width
    assert sum(p.numel() for p in block.parameters()) == expected
