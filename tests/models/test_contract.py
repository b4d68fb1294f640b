"""What every Hugging Face model promises, for every family and every head."""

import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForImageClassification, AutoModelForPreTraining, BertConfig
from transformers.modeling_layers import GradientCheckpointingLayer

from hf_mixers import FAMILIES, AutoModelForSequencePairClassification
from tests.families import (
    AUTO_CLASSES,
    every_family,
    every_head,
    every_head_with_loss,
    every_variant,
    example_inputs,
    flatten,
    one_family,
    random_ids,
)

# the head that each Auto class loads
LOADED = {
    AutoModelForPreTraining: "masked_lm",
    **{auto: head for head, auto in AUTO_CLASSES.items()},
}


def result(output):
    return output[0] if "logits" not in output else output.logits


@every_family
@pytest.mark.parametrize("auto_class", LOADED)
def test_auto_classes_find_the_model(row, auto_class):
    model = auto_class.from_config(row.config())
    assert type(model) is row.model_class(LOADED[auto_class])


def test_a_head_that_a_family_does_not_have_is_refused():
    family = FAMILIES["chordmixer"]
    with pytest.raises(ValueError, match=r"chordmixer has models for .* got AutoModelForImage"):
        family.model_class(AutoModelForImageClassification)


@every_family
@every_head
def test_saved_models_give_the_same_numbers(row, head, tmp_path):
    model = row.build(head)
    inputs = example_inputs(head)
    model.save_pretrained(tmp_path)
    assert not list(tmp_path.glob("*.py")), "code is carried only when asked for"
    again, report = type(model).from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    for name, value in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], value)
    torch.testing.assert_close(result(again.eval()(**inputs)), result(model(**inputs)))


FRESH = """
import sys
import hf_mixers, transformers
from safetensors.torch import load_file, save_file
for case in sys.argv[1:]:
    folder, name = case.split("=")
    auto = getattr(transformers, name, None) or getattr(hf_mixers, name)
    model = auto.from_pretrained(folder).eval()
    output = model(**load_file(folder + "/inputs.st"))
    output = output["logits" if "logits" in output else "last_hidden_state"]
    save_file({"out": output.contiguous()}, folder + "/outputs.st")
"""


@pytest.mark.processes
@one_family
def test_a_fresh_process_gives_the_same_numbers_for_every_head(row, tmp_path):
    expected = {}
    cases = []
    for auto_class, head in LOADED.items():
        folder = tmp_path / auto_class.__name__
        model = row.build(head)
        model.save_pretrained(folder)
        inputs = {k: v for k, v in example_inputs(head).items() if k != "labels"}
        save_file(inputs, folder / "inputs.st")
        expected[folder] = result(model(**inputs))
        cases.append(f"{folder}={auto_class.__name__}")
    subprocess.run([sys.executable, "-c", FRESH, *cases], check=True, timeout=300)
    for folder, numbers in expected.items():
        torch.testing.assert_close(load_file(folder / "outputs.st")["out"], numbers)


@every_family
def test_a_head_takes_its_trunk_from_a_checkpoint_of_another_head(row, tmp_path):
    source = row.build("masked_lm")
    source.save_pretrained(tmp_path)
    model, report = row.model_class("sequence_classification").from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert set(report["missing_keys"]) == {"classifier.weight", "classifier.bias"}
    for name, value in source.model.state_dict().items():
        assert torch.equal(model.model.state_dict()[name], value)
    assert model.classifier.weight.any()


@every_family
def test_pair_models_are_found_and_changed_when_loaded(row, tmp_path):
    row.build("sequence_pair_classification").save_pretrained(tmp_path)
    model = AutoModelForSequencePairClassification.from_pretrained(
        tmp_path, num_labels=4, num_tasks=2, ignore_mismatched_sizes=True, dtype=torch.float64
    )
    assert type(model) is row.model_class("sequence_pair_classification")
    assert model.classifier.out_features == 8
    assert model.dtype == torch.float64
    with pytest.raises(ValueError, match="got model_type='bert'"):
        AutoModelForSequencePairClassification.from_config(BertConfig())


@every_variant
def test_models_built_on_the_meta_device_are_initialised_when_loaded(row, changes, tmp_path):
    # from_pretrained builds on the meta device; a trunk checkpoint leaves the head to initialise
    model = row.build(**changes)
    model.save_pretrained(tmp_path)
    head = row.model_class("sequence_classification").from_pretrained(tmp_path)
    for name, tensor in head.state_dict().items():
        assert tensor.device.type == "cpu"
        assert tensor.float().isfinite().all(), name
        assert tensor.float().abs().max() < 100, name
    bound = (6 / sum(head.classifier.weight.shape)) ** 0.5
    assert 0 < head.classifier.weight.abs().max() <= bound
    bound = 0 if row.starts_without_bias else head.classifier.in_features**-0.5
    assert head.classifier.bias.abs().max() <= bound


@every_family
def test_no_model_has_buffers_that_a_checkpoint_does_not_hold(row):
    for head in ("model", "masked_lm"):
        for changes in ({}, *row.variants.values()):
            model = row.build(head, **changes)
            assert {name for name, _ in model.named_buffers()} <= set(model.state_dict())


@every_family
@pytest.mark.parametrize("tied", [True, False])
def test_tied_and_untied_embeddings_survive_saving(row, tied, tmp_path):
    model = row.build("masked_lm", tie_word_embeddings=tied)
    same = model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    assert same == tied
    model.save_pretrained(tmp_path)
    again = row.model_class("masked_lm").from_pretrained(tmp_path).eval()
    same = again.lm_head.weight.data_ptr() == again.model.embed_tokens.weight.data_ptr()
    assert same == tied
    ids = random_ids(2, 7)
    torch.testing.assert_close(again(ids).logits, model(ids).logits)


@every_family
@pytest.mark.parametrize("tied", [True, False])
def test_resizing_embeddings_keeps_old_tokens_and_adds_new_ones(row, tied):
    model = row.build("masked_lm", tie_word_embeddings=tied)
    ids = random_ids(2, 7)
    before = model(ids).logits
    model.resize_token_embeddings(27)
    after = model(ids).logits
    assert model.config.vocab_size == 27
    assert after.shape[-1] == 27
    torch.testing.assert_close(after[..., :20], before)
    assert model(torch.tensor([[26, 5]])).logits.isfinite().all()


@every_family
@every_head
def test_embeddings_may_be_given_instead_of_ids(row, head):
    model = row.build(head)
    inputs = example_inputs(head)
    expected = result(model(**inputs))
    for suffix in ("", "_2"):
        if f"input_ids{suffix}" in inputs:
            ids = inputs.pop(f"input_ids{suffix}")
            inputs[f"inputs_embeds{suffix}"] = model.get_input_embeddings()(ids)
    torch.testing.assert_close(result(model(**inputs)), expected)


@every_family
@every_head
def test_continuous_input_works_in_every_head(row, head):
    model = row.build(head, input_features=3).train()
    assert model.main_input_name == "input_values"
    inputs = example_inputs(head)
    for suffix in ("", "_2"):
        if f"input_ids{suffix}" in inputs:
            ids = inputs.pop(f"input_ids{suffix}")
            inputs[f"input_values{suffix}"] = torch.randn(*ids.shape, 3)
    output = model(**inputs)
    (output[0] if head == "model" else output.loss).sum().backward()
    assert model.base_model.embed_values.weight.grad.any()


@every_variant
def test_hidden_states_come_in_the_callers_layout_and_take_gradients(row, changes):
    model = row.build(**changes)
    inputs = example_inputs("model")
    inputs["attention_mask"] = inputs["attention_mask"].flip(1)
    inputs["input_ids"] = inputs["input_ids"].flip(1)
    plain = model(**inputs)
    output = model(**inputs, output_hidden_states=True)
    states = output.hidden_states
    assert len(states) == model.config.num_hidden_layers + 1
    torch.testing.assert_close(output.last_hidden_state, plain.last_hidden_state)
    torch.testing.assert_close(states[-1], output.last_hidden_state)
    mask = inputs["attention_mask"]
    for state in states:
        assert state.shape == (*mask.shape, model.config.hidden_size)
        assert not state[mask == 0].any()
        state.retain_grad()
    output.last_hidden_state.sum().backward()
    assert all(state.grad is not None and state.grad.any() for state in states)


@every_family
def test_hidden_states_of_flat_batches_and_pairs(row):
    sequences = [random_ids(n) for n in (3, 9, 1)]
    model = row.build("masked_lm")
    states = model(**flatten(sequences), output_hidden_states=True).hidden_states
    alone = [model(s[None], output_hidden_states=True).hidden_states for s in sequences]
    for k, state in enumerate(states):
        torch.testing.assert_close(state[0], torch.cat([a[k][0] for a in alone]))
    pair = row.build("sequence_pair_classification")
    output = pair(random_ids(2, 4), input_ids_2=random_ids(2, 6), output_hidden_states=True)
    assert output.hidden_states[0].shape[:2] == (2, 4)
    assert output.hidden_states_2[-1].shape[:2] == (2, 6)


@every_family
@every_head
def test_tuples_hold_what_dictionaries_hold(row, head):
    model = row.build(head)
    inputs = example_inputs(head)
    named = model(**inputs, output_hidden_states=True)
    plain = model(**inputs, output_hidden_states=True, return_dict=False)
    assert isinstance(plain, tuple)
    torch.testing.assert_close(plain, named.to_tuple())
    model.config.return_dict = False
    assert isinstance(model(**inputs), tuple)


@every_family
@every_head
def test_output_hidden_states_may_be_set_in_the_config(row, head):
    model = row.build(head, output_hidden_states=True)
    assert model(**example_inputs(head)).hidden_states is not None


@every_variant
@pytest.mark.parametrize("reentrant", [True, False])
def test_gradient_checkpointing_changes_no_gradient(row, changes, reentrant):
    gradients = []
    calls = []
    for checkpointing in (False, True):
        model = row.build("masked_lm", **changes).train()
        if checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        # the smallest part that is computed again: a block, or a part that says so itself
        layer = model.model.layers[0]
        finer = [m for m in layer.modules() if isinstance(m, GradientCheckpointingLayer)]
        layer = finer[0] if finer else layer
        layer.register_forward_pre_hook(lambda *_, c=checkpointing: calls.append(c))
        inputs = {**flatten([random_ids(n) for n in (9, 1, 33)])}
        inputs["labels"] = inputs["input_ids"].clone()
        torch.manual_seed(0)
        model(**inputs).loss.backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    assert calls == [False, True, True], "the layer runs again in the backward pass"
    torch.testing.assert_close(gradients[1], gradients[0])


@every_variant
@every_head_with_loss
def test_every_parameter_gets_a_gradient(row, changes, head):
    model = row.build(head, **changes).train()
    length = model.config.max_position_embeddings
    inputs = example_inputs(head, batch=2, length=length)
    model(**inputs).loss.backward()
    missing = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    if head in ("masked_lm", "token_classification"):
        # heads of tokens pool nothing
        missing = [name for name in missing if not name.startswith("model.pool_")]
    assert not missing


@every_family
@every_head_with_loss
def test_parameters_have_gradients_even_when_sequences_are_too_short_for_them(row, head):
    # what distributed training needs: the same parameters take part in every process
    model = row.build(head).train()
    model(**example_inputs(head, batch=1, length=3)).loss.backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.slow
@every_family
@every_head
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_trains_and_stays_close(row, head, dtype):
    for changes in ({}, *row.variants.values()):
        if changes.get("pattern") == "learnable":
            # which cluster a token is in may change with the precision
            continue
        model = row.build(head, **changes).train()
        inputs = example_inputs(head)
        expected = result(model(**inputs))
        with torch.autocast("cpu", dtype=dtype):
            output = model(**inputs)
        loss = output[0].float().sum() if head == "model" else output.loss
        loss.backward()
        assert loss.dtype == torch.float32
        scale = expected.abs().max().item()
        torch.testing.assert_close(
            result(output).float(), expected, atol=0.1 * scale, rtol=0.1, msg=str(changes)
        )
        assert all(p.grad.isfinite().all() for p in model.parameters())


@every_family
@every_head
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_models_run_in_other_precisions(row, head, dtype, tmp_path):
    model = row.build(head)
    model.save_pretrained(tmp_path)
    other = type(model).from_pretrained(tmp_path, dtype=dtype).eval()
    output = result(other(**example_inputs(head)))
    assert output.dtype == dtype
    assert output.isfinite().all()


@every_family
def test_models_can_be_spread_over_devices_with_parts_on_disk(row, tmp_path):
    model = row.build("sequence_classification", pooling="cls")
    model.save_pretrained(tmp_path / "model", max_shard_size="20KB")
    names = {name.split(".layers")[0] for name, _ in model.model.named_children()}
    device_map = {f"model.{name}": "cpu" for name in names if name != "layers"}
    device_map |= {f"model.layers.{k}": "cpu" for k in range(len(model.model.layers))}
    device_map |= {"model.layers.0": "disk", "classifier": "cpu", "dropout": "cpu"}
    spread = type(model).from_pretrained(
        tmp_path / "model", device_map=device_map, offload_folder=tmp_path / "disk"
    )
    inputs = example_inputs("sequence_classification")
    torch.testing.assert_close(spread.eval()(**inputs).logits, model(**inputs).logits)


@every_family
@every_head
def test_context_parallelism_of_transformers_is_refused(row, head):
    # it shards sequences as causal attention of all to all
    assert not row.build(head).supports_context_parallel
    assert not row.model_class(head)._supports_context_parallel
