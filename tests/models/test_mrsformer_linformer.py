"""Linformer heads: learned mixtures of keys, which end at the length that a model is built for."""

import copy

import onnxruntime
import pytest
import torch

from tests.families import find_row, pad, random_ids
from tests.models.test_compile_export import Plain, shapes, unlabelled

ROW = find_row("mrsformer")


@pytest.mark.slow
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


def test_layers_share_projections_that_the_model_owns(tmp_path):
    settings = {"attention_type": "linformer", "linformer_shared": True}
    model = ROW.build("sequence_classification", **settings)
    names = [name for name, _ in model.named_parameters() if "projection_" in name]
    assert names == [f"model.shared_heads.projection_{number}" for number in (0, 1)]
    assert 0.3 < model.model.shared_heads.projection_0.std() < 0.4
    ids = random_ids(2, 20)
    logits = model(ids).logits
    model.save_pretrained(tmp_path)
    for other in (type(model).from_pretrained(tmp_path), copy.deepcopy(model)):
        assert torch.equal(other(ids).logits, logits)
        with torch.no_grad():
            other.model.shared_heads.projection_0.zero_()
        assert not torch.allclose(other(ids).logits, logits)
    assert torch.equal(model(ids).logits, logits)
    gradients = []
    for is_checkpointed in (False, True):
        model.zero_grad()
        if is_checkpointed:
            model.gradient_checkpointing_enable()
        model.train()(ids, labels=torch.tensor([0, 1])).loss.backward()
        gradients.append(model.model.shared_heads.projection_0.grad.clone())
    torch.testing.assert_close(*gradients)


@pytest.fixture(scope="module")
def exported():
    """A model for 33 tokens and its program for any length."""
    model = Plain(
        ROW.build(
            "sequence_classification",
            attention_type="linformer",
            pooling="cls",
            linformer_shared=True,
            max_position_embeddings=33,
            num_hidden_layers=1,
        )
    )
    inputs = unlabelled("sequence_classification")
    return model, torch.export.export(model, (), inputs, dynamic_shapes=shapes(inputs))


def padded(*lengths, width=None):
    ids, mask = pad([random_ids(n) for n in lengths], width=width)
    return {"input_ids": ids, "attention_mask": mask}


@pytest.mark.slow
def test_exported_programs_read_any_length_with_weights_and_refuse_longer_ones(exported):
    model, program = exported
    run = program.module()
    for inputs in (padded(12, 1), padded(33, 4), padded(33, 32, width=50)):
        torch.testing.assert_close(run(**inputs), model(**inputs), atol=1e-5, rtol=1e-5)
    with pytest.raises(IndexError, match="out of range"):
        run(**padded(34, 2))


@pytest.mark.slow
def test_onnx_programs_refuse_longer_sequences_too(exported, tmp_path):
    model, program = exported
    path = tmp_path / "model.onnx"
    torch.onnx.export(program, (), path, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(inputs):
        return session.run(None, {name: value.numpy() for name, value in inputs.items()})[0]

    inputs = padded(33, 2)
    torch.testing.assert_close(torch.tensor(run(inputs)), model(**inputs), atol=1e-5, rtol=1e-5)
    with pytest.raises(Exception, match="out of data bounds"):
        run(padded(34, 2))
