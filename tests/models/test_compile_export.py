"""The static layout under torch.compile, torch.export and ONNX: one graph, the eager numbers."""

import numpy as np
import onnxruntime
import pytest
import torch
from torch.export import Dim

from tests.families import (
    HEADS,
    every_family,
    every_head,
    every_own_variant,
    example_inputs,
    flatten,
    pad,
    random_ids,
)

# four blocks say as much as eleven, and compile in a third of the time
SMALL = {"max_position_embeddings": 16}


def result(output):
    return output[0] if "logits" not in output else output.logits


def unlabelled(head, **sizes):
    return {k: v for k, v in example_inputs(head, **sizes).items() if k != "labels"}


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@every_family
@every_head
@torch.no_grad()
def test_one_graph_gives_the_eager_numbers_at_every_shape(row, head):
    model = row.build(head, **SMALL)
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    for batch, length in ((3, 12), (2, 40), (3, 17)):
        inputs = unlabelled(head, batch=batch, length=length)
        torch.testing.assert_close(
            result(compiled(**inputs)), result(model(**inputs)), atol=1e-5, rtol=1e-5
        )


@every_family
def test_inductor_compiles_it_too(row):
    model = row.build("sequence_classification", **SMALL)
    compiled = torch.compile(model, fullgraph=True)
    inputs = unlabelled("sequence_classification")
    torch.testing.assert_close(
        compiled(**inputs).logits, model(**inputs).logits, atol=1e-5, rtol=1e-5
    )


@every_own_variant
def test_variants_compile(row, changes):
    model = row.build(**{"pooling": "max", **SMALL, **changes})
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    # learned positions end at the built length, other models go on
    longest = 16 if model.config.position_embedding_type == "absolute" else 20
    ids, mask = pad([random_ids(n) for n in (longest, 1, 9)], "left")
    expected = model(ids, attention_mask=mask)
    output = compiled(ids, attention_mask=mask)
    torch.testing.assert_close(output.to_tuple(), expected.to_tuple(), atol=1e-4, rtol=1e-4)


@every_family
def test_flat_batches_compile_in_one_graph(row):
    model = row.build(**SMALL)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    inputs = flatten([random_ids(n) for n in (5, 17, 2)])
    torch.testing.assert_close(
        compiled(**inputs).to_tuple(), model(**inputs).to_tuple(), atol=1e-5, rtol=1e-5
    )


@every_family
@pytest.mark.parametrize("head", ["masked_lm", "sequence_classification"])
def test_compiled_training_has_the_eager_gradients(row, head):
    inputs = example_inputs(head)
    gradients = []
    for compiled in (False, True):
        model = row.build(head, **SMALL).train()
        call = torch.compile(model, fullgraph=True, backend="aot_eager") if compiled else model
        call(**inputs).loss.backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    torch.testing.assert_close(gradients[1], gradients[0], atol=1e-5, rtol=1e-4)


class Plain(torch.nn.Module):
    """Named tensors in, one tensor out: what exporters want."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return result(self.model(input_ids=input_ids, attention_mask=attention_mask))


class PlainPair(Plain):
    def forward(self, input_ids, attention_mask, input_ids_2, attention_mask_2):
        return self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            input_ids_2=input_ids_2,
            attention_mask_2=attention_mask_2,
        ).logits


def shapes(inputs) -> dict:
    """Any number of sequences of any length, also for the second sequences of pairs."""
    batch = Dim("batch", min=2, max=64)
    lengths = {False: Dim("length", min=2, max=4096), True: Dim("length_2", min=2, max=4096)}
    return {name: {0: batch, 1: lengths[name.endswith("_2")]} for name in inputs}


EXPORTS = [*HEADS, "cls pooling"]
# the trunk and the head of tokens are parts of these, and ONNX takes long
ONNX_EXPORTS = [case for case in EXPORTS if case not in ("model", "token_classification")]


def build_export(row, case):
    """A model for exporters, and the head that says which inputs it takes."""
    if case == "cls pooling":
        return Plain(row.build("sequence_classification", **SMALL, pooling="cls")), "model"
    wrapper = PlainPair if case == "sequence_pair_classification" else Plain
    return wrapper(row.build(case, **SMALL)), case


@every_family
@pytest.mark.parametrize("case", EXPORTS)
def test_exported_programs_run_at_other_shapes(row, case):
    model, head = build_export(row, case)
    inputs = unlabelled(head)
    program = torch.export.export(model, (), inputs, dynamic_shapes=shapes(inputs))
    for batch, length in ((3, 12), (2, 33)):
        inputs = unlabelled(head, batch=batch, length=length)
        torch.testing.assert_close(
            program.module()(**inputs), model(**inputs), atol=1e-5, rtol=1e-5
        )


@every_family
@pytest.mark.parametrize("case", ONNX_EXPORTS)
def test_onnx_programs_give_the_same_numbers(row, case, tmp_path):
    model, head = build_export(row, case)
    path = tmp_path / "model.onnx"
    torch.onnx.export(
        model,
        (),
        path,
        kwargs=unlabelled(head),
        dynamo=True,
        dynamic_shapes=shapes(unlabelled(head)),
        verbose=False,
    )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for batch, length in ((3, 12), (2, 33)):
        inputs = unlabelled(head, batch=batch, length=length)
        (output,) = session.run(None, {name: value.numpy() for name, value in inputs.items()})
        expected = model(**inputs).detach().numpy()
        np.testing.assert_allclose(output, expected, atol=1e-4, rtol=1e-4)
