"""Original checkpoints give the original numbers: parity with the authors' implementations."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from hf_mixers import ChordMixerForSequencePairClassification
from hf_mixers.convert import from_original

FIXTURES = sorted((Path(__file__).parents[1] / "fixtures").glob("*.safetensors"))
TOLERANCE = {"atol": 1e-5, "rtol": 1e-5}


def load(path: Path):
    """State dict, recorded tensors, family and constructor arguments of a fixture."""
    with safe_open(path, "pt") as file:
        metadata = {key: json.loads(value) for key, value in file.metadata().items()}
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
    state = {k.removeprefix("state."): v for k, v in tensors.items() if k.startswith("state.")}
    return state, tensors, metadata["family"], metadata["constructor"]


def model_inputs(tensors):
    content = tensors["input"]
    inputs = {}
    if "lengths" in tensors:
        content = content[None]
        inputs["cu_seq_lens_q"] = torch.cat([torch.tensor([0]), tensors["lengths"].cumsum(0)])
    inputs["input_values" if content.is_floating_point() else "input_ids"] = content
    return inputs


def test_all_fixtures_are_here():
    for family, count in {"chordmixer": 7, "paramixer": 2}.items():
        assert len([path for path in FIXTURES if path.name.startswith(family)]) == count


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_converted_models_equal_the_originals(path):
    state, tensors, family, arguments = load(path)
    model = from_original(state, family, **arguments)
    inputs = model_inputs(tensors)
    expected = tensors["mixed" if family == "paramixer" else "encoder_output"]
    trunk = model.model(**inputs).last_hidden_state.view_as(expected)
    torch.testing.assert_close(trunk, expected, **TOLERANCE)
    output = model(**inputs)
    if "log_probs" in tensors:
        torch.testing.assert_close(output.logits.log_softmax(-1), tensors["log_probs"], **TOLERANCE)
    if "logits" in tensors:
        torch.testing.assert_close(output.logits, tensors["logits"], **TOLERANCE)
        output.logits.square().sum().backward()
        block = model.model.layers[0]
        if family == "paramixer":
            gradient, name = block.factors[0].links.fc1.weight.grad, "grad_layer0_f0_in"
        else:
            gradient, name = block.mix.fc1.weight.grad, "grad_block0_fc1"
        torch.testing.assert_close(gradient, tensors[name], **TOLERANCE)


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_converted_models_survive_saving(path, tmp_path):
    state, tensors, family, arguments = load(path)
    model = from_original(state, family, **arguments)
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path).eval()
    inputs = model_inputs(tensors)
    torch.testing.assert_close(again(**inputs).logits, model(**inputs).logits)


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
@pytest.mark.parametrize("prefix", ["", "module.", "backbone."])
def test_files_and_wrapped_modules_are_read(suffix, prefix, tmp_path):
    state, tensors, family, arguments = load(FIXTURES[0])
    path = tmp_path / f"checkpoint{suffix}"
    wrapped = {f"{prefix}{key}": value for key, value in state.items()}
    if suffix == ".pt":
        torch.save(wrapped, path)
    else:
        save_file(wrapped, path)
    model = from_original(path, family, **arguments)
    torch.testing.assert_close(model(tensors["input"]).logits, tensors["logits"], **TOLERANCE)


def test_the_legacy_layouts_are_read():
    state, tensors, family, arguments = load(FIXTURES[0])
    for block, final in (("mixer.fc{}", "final"), ("mlp.network.{}", "final")):
        legacy = {}
        for key, value in state.items():
            key = key.replace("encoder.", "").replace("decoder.decoder", final)
            for number, place in ((1, 1 if "fc" in block else 0), (2, 2)):
                key = key.replace(f"mix.fc{number}", block.format(place))
            legacy[key] = value
        model = from_original(legacy, family, **arguments)
        torch.testing.assert_close(model(tensors["input"]).logits, tensors["logits"], **TOLERANCE)


def test_dropouts_are_carried_over():
    state, _, family, arguments = load(FIXTURES[0])
    given = {**arguments, "mlp_dropout": 0.1, "layer_dropout": 0.2}
    config = from_original(state, family, **given).config
    assert (config.hidden_dropout_prob, config.rotate_dropout_prob) == (0.1, 0.2)
    path = next(path for path in FIXTURES if "pretraining_equal" in path.name)
    state, _, family, arguments = load(path)
    given = {
        "encoder_mlp_dropout": 0.1,
        "encoder_layer_dropout": 0.2,
        "decoder_mlp_dropout": 0.3,
        "decoder_layer_dropout": 0.4,
    }
    config = from_original(state, family, **{**arguments, **given}).config
    assert (config.hidden_dropout_prob, config.rotate_dropout_prob) == (0.1, 0.2)
    assert config.decoder_hidden_dropout_prob == 0.3
    assert config.decoder_rotate_dropout_prob == 0.4


def test_group_norms_are_recognised():
    state, _, family, arguments = load(FIXTURES[0])
    width, size = state["embedding.weight"].shape[1], arguments["track_size"]
    for index in range(6):
        block = f"encoder.chordmixer_blocks.{index}.norm.gn"
        state[f"{block}.weight"], state[f"{block}.bias"] = torch.ones(width), torch.zeros(width)
    model = from_original(state, family, **{**arguments, "norm": "GN"})
    assert model.config.post_norm == "group"
    assert model.model.layers[0].norm_after.num_groups == size


def test_the_retrieval_model_becomes_a_pair_model():
    state, _, family, arguments = load(FIXTURES[0])
    width = state["embedding.weight"].shape[1]
    state = {f"backbone.model.{k}": v for k, v in state.items() if not k.startswith("decoder")}
    head = {
        "backbone.decoder.0.weight": torch.randn(width, 4 * width),
        "backbone.decoder.0.bias": torch.randn(width),
        "backbone.decoder.2.weight": torch.randn(2, width),
        "backbone.decoder.2.bias": torch.randn(2),
    }
    arguments.pop("output_size")
    model = from_original(state | head, family, **arguments)
    assert isinstance(model, ChordMixerForSequencePairClassification)
    assert torch.equal(model.dense.weight, head["backbone.decoder.0.weight"])
    assert torch.equal(model.classifier.bias, head["backbone.decoder.2.bias"])
    ids = torch.randint(0, 9, (2, 33))
    assert model(ids, input_ids_2=ids).logits.shape == (2, 2)


def test_what_does_not_fit_is_an_error(tmp_path):
    state, _, family, arguments = load(FIXTURES[0])
    with pytest.raises(ValueError, match="family must be one of chordmixer"):
        from_original(state, "gru", **arguments)
    with pytest.raises(ValueError, match=r"unexpected \['extra'\]"):
        from_original(state | {"extra": torch.zeros(1)}, family, **arguments)
    missing = {k: v for k, v in state.items() if k != "encoder.chordmixer_blocks.2.mix.fc2.bias"}
    with pytest.raises(ValueError, match=r"missing \['model.layers.2.mix.fc2.bias'\]"):
        from_original(missing, family, **arguments)
    with pytest.raises(ValueError, match="track_size must divide the width of the weights, 28"):
        from_original(state, family, **{**arguments, "track_size": 5})
    with pytest.raises(
        ValueError, match="6 blocks go with 6 or 7 tracks, but track_size=2 makes 14"
    ):
        from_original(state, family, **{**arguments, "track_size": 2})
    with pytest.raises(ValueError, match="decoder must be 'linear', got 'mlp'"):
        from_original(state, family, **{**arguments, "decoder": "mlp"})
    twice = state | {"final.weight": state["decoder.decoder.weight"]}
    with pytest.raises(ValueError, match="Two weights of the checkpoint are classifier"):
        from_original(twice, family, **arguments)
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(ValueError, match="holds a list, needed is a state dict"):
        from_original(tmp_path / "list.pt", family, **arguments)
    with pytest.raises(ValueError, match="hidden_size=21 was stated, but the weights say 20"):
        from_original(state, family, **{**arguments, "hidden_size": 21})
    with pytest.raises(ValueError, match="no argument n_heads"):
        from_original(state, family, **arguments, n_heads=2)
    with pytest.raises(ValueError, match="no blocks"):
        from_original({"embedding.weight": torch.zeros(3, 4)}, family, track_size=2)
    wrong = dict(state)
    wrong["decoder.decoder.bias"] = torch.zeros(5)
    with pytest.raises(ValueError, match=r"classifier.bias has shape \(5,\)"):
        from_original(wrong, family, **arguments)
    with pytest.raises(ValueError, match="is not a file"):
        from_original(tmp_path / "nothing.pt", family, **arguments)


def paramixer_case(protocol="chord"):
    return load(next(p for p in FIXTURES if p.name.startswith(f"paramixer_{protocol}")))


def test_paramixers_that_read_the_first_token_or_two_features_are_recognised():
    state, tensors, family, arguments = paramixer_case()
    arguments = {**arguments, "pos_embedding": "", "dropout1_p": 0.2, "dropout2_p": 0.4}
    state["final.weight"] = state["final.weight"][:, :8].contiguous()
    model = from_original(state, family, **{**arguments, "pooling_type": "CLS"})
    config = model.config
    assert (config.pooling, config.position_embedding_type) == ("first", "none")
    assert (config.embedding_dropout, config.hidden_dropout_prob) == (0.2, 0.4)
    first = model.model(tensors["input"]).last_hidden_state[:, 0]
    expected = first @ state["final.weight"].T + state["final.bias"]
    torch.testing.assert_close(model(tensors["input"]).logits, expected)

    state["embedding.weight"] = state["embedding.weight"][:1].clone()
    state |= {"init_linear.weight": torch.randn(8, 2), "init_linear.bias": torch.randn(8)}
    arguments = {**arguments, "pooling_type": "CLS", "vocab_size": 1, "residual_mode": "initial"}
    model = from_original(state, family, **arguments)
    assert torch.equal(model.model.embed_values.weight, state["init_linear.weight"])
    assert model.config.residual_mode == "initial"
    assert model(input_values=torch.randn(3, 24, 2)).logits.shape == (3, 3)


def test_what_does_not_fit_a_paramixer_is_an_error():
    state, _, family, arguments = paramixer_case()
    with pytest.raises(ValueError, match="protocol must be one of chord, dil, got 'cdil'"):
        from_original(state, family, **{**arguments, "protocol": "cdil"})
    with pytest.raises(Exception, match="num_links must be odd for link_protocol='cdil', got 6"):
        from_original(state, family, **{**arguments, "protocol": "dil"})
    with pytest.raises(ValueError, match="n_class=4 was stated, but the weights say 3"):
        from_original(state, family, **{**arguments, "n_class": 4})
    with pytest.raises(ValueError, match="no argument n_links"):
        from_original(state, family, **arguments, n_links=2)
    cut = {**state, "final.weight": state["final.weight"][:, :8]}
    with pytest.raises(ValueError, match=r"pooling_type='FLATTEN' was stated, .* say 'CLS'"):
        from_original(cut, family, **arguments)
    missing = {k: v for k, v in state.items() if k != "attention.1.g.network.2.bias"}
    with pytest.raises(ValueError, match=r"missing \['model.layers.1.values.fc2.bias'\]"):
        from_original(missing, family, **arguments)
    state, _, family, arguments = paramixer_case("dil")
    with pytest.raises(ValueError, match=r"6 factors of protocol='chord' go with 7 links, .* 9"):
        from_original(state, family, **{**arguments, "protocol": "chord"})


def test_files_that_would_run_code_are_refused(tmp_path):
    class Harm:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "harm",))

    path = tmp_path / "checkpoint.pt"
    torch.save({"weight": Harm()}, path)
    with pytest.raises(Exception, match=r"[Ww]eights"):
        from_original(path, "chordmixer", track_size=2)
    assert not (tmp_path / "harm").exists()
    torch.save({"state_dict": {"weight": 3}}, path)
    with pytest.raises(ValueError, match="holds more than the tensors"):
        from_original(path, "chordmixer", track_size=2)
