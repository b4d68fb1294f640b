"""The static layout under torch.compile, torch.export and ONNX: one graph, the eager numbers."""

import numpy as np
import onnxruntime
import pytest
import torch
from torch.export import Dim
from transformers import Trainer, TrainingArguments

from hf_mixers.data import PaddedCollator
from tests.families import (
    HEADS,
    every_family,
    every_head_with_loss,
    every_own_variant,
    example_inputs,
    find_row,
    flatten,
    one_family,
    pad,
    random_ids,
)

pytestmark = pytest.mark.slow

EXHAUSTIVE = pytest.mark.exhaustive
# that the rows of a Combiner's grid divide evenly is checked as the program runs
EXPORT_OPTIONS = {"combiner": {"prefer_deferred_runtime_asserts_over_guards": True}}
# as few blocks as show all that blocks do, because every one is compiled
LENGTH = 16
BLOCKS = {"chordmixer": 2}


def build_small(row, head="model", **changes):
    blocks = {"num_hidden_layers": BLOCKS.get(row.name, 1)}
    return row.build(head, **{"max_position_embeddings": LENGTH, **blocks, **changes})


def result(output):
    return output[0] if "logits" not in output else output.logits


def unlabelled(head, **sizes):
    return {k: v for k, v in example_inputs(head, **sizes).items() if k != "labels"}


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


# one sequence and two; that the other heads compile is tested with their losses
@every_family
@pytest.mark.parametrize(
    "head", ["masked_lm", pytest.param("sequence_pair_classification", marks=EXHAUSTIVE)]
)
@torch.no_grad()
def test_one_graph_gives_the_eager_numbers_at_every_shape(row, head):
    model = build_small(row, head)
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    for batch, length in ((3, 12), (2, 40), (3, 17)):
        inputs = unlabelled(head, batch=batch, length=length)
        torch.testing.assert_close(
            result(compiled(**inputs)), result(model(**inputs)), atol=1e-5, rtol=1e-5
        )


@every_family
def test_inductor_compiles_it_too(row):
    model = build_small(row, "sequence_classification")
    compiled = torch.compile(model, fullgraph=True)
    inputs = unlabelled("sequence_classification")
    torch.testing.assert_close(
        compiled(**inputs).logits, model(**inputs).logits, atol=1e-5, rtol=1e-5
    )


@EXHAUSTIVE
@every_own_variant
def test_variants_compile(row, changes):
    model = build_small(row, **{"pooling": "max", **changes})
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    # learned positions end at the built length, other models go on
    longest = LENGTH if model.config.position_embedding_type == "absolute" else 20
    ids, mask = pad([random_ids(n) for n in (longest, 1, 9)], "left")
    expected = model(ids, attention_mask=mask)
    output = compiled(ids, attention_mask=mask)
    torch.testing.assert_close(output.to_tuple(), expected.to_tuple(), atol=1e-4, rtol=1e-4)


# one length with padding behind it and one that segments divide; the second graph is dynamic
@EXHAUSTIVE
@pytest.mark.parametrize(
    "changes", [{"pattern": "logsparse"}, {"pattern": "learnable", "causal": True}], ids=str
)
@torch.no_grad()
def test_patterns_of_combiner_compile_at_further_lengths(changes):
    model = build_small(find_row("combiner"), segment_length=4, num_clusters=3, **changes)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for length in (9, 22, 64):
        ids = random_ids(2, length)
        torch.testing.assert_close(
            compiled(ids).to_tuple(), model(ids).to_tuple(), atol=1e-5, rtol=1e-5
        )


@every_family
def test_flat_batches_compile_in_one_graph(row):
    model = build_small(row)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    inputs = flatten([random_ids(n) for n in (5, 17, 2)])
    torch.testing.assert_close(
        compiled(**inputs).to_tuple(), model(**inputs).to_tuple(), atol=1e-5, rtol=1e-5
    )


def assert_compiled_steps_are_eager(build, inputs):
    """Loss and gradients of training, and loss of evaluation, compiled and not."""
    gradients, losses = [], []
    for compiled in (False, True):
        model = build().train()
        call = torch.compile(model, fullgraph=True, backend="aot_eager") if compiled else model
        loss = call(**inputs).loss
        loss.backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
        model.eval()
        with torch.no_grad():
            losses.append((loss.detach(), call(**inputs).loss))
    torch.testing.assert_close(losses[1], losses[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(gradients[1], gradients[0], atol=1e-5, rtol=1e-4)


@every_family
@every_head_with_loss
def test_compiled_training_and_evaluation_are_those_of_eager_mode(row, head):
    assert_compiled_steps_are_eager(lambda: build_small(row, head), example_inputs(head))


def test_compiled_training_and_evaluation_of_images_are_those_of_eager_mode():
    inputs = {"pixel_values": torch.randn(3, 3, 16, 16), "labels": torch.tensor([0, 1, 1])}
    assert_compiled_steps_are_eager(build_images, inputs)


@one_family
def test_the_trainer_compiles_training_and_evaluation(row, tmp_path):
    data = [{"input_ids": random_ids(8 + n % 3), "labels": n % 2} for n in range(12)]
    trainer = Trainer(
        build_small(row, "sequence_classification"),
        TrainingArguments(
            str(tmp_path),
            torch_compile=True,
            torch_compile_backend="aot_eager",
            max_steps=3,
            learning_rate=1e-2,
            report_to="none",
            save_strategy="no",
            use_cpu=True,
        ),
        train_dataset=data,
        eval_dataset=data,
        data_collator=PaddedCollator(),
    )
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    after = trainer.evaluate()
    assert after["eval_loss"] < before
    # the weights are those of the model without the compiler's wrapper
    plain = build_small(row, "sequence_classification")
    plain.load_state_dict(trainer.model.state_dict())
    batch = PaddedCollator()(data)
    assert float(plain(**batch).loss) == pytest.approx(after["eval_loss"], rel=1e-3)


def build_images():
    return find_row("mrsformer").build(
        "image_classification", image_size=16, patch_size=4, pooling="cls"
    )


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


class PlainImages(Plain):
    def forward(self, pixel_values):
        return self.model(pixel_values=pixel_values).logits


def shapes(inputs) -> dict:
    """Any number of sequences of any length, also for the second sequences of pairs."""
    batch = Dim("batch", min=2, max=64)
    lengths = {False: Dim("length", min=2, max=4096), True: Dim("length_2", min=2, max=4096)}
    return {name: {0: batch, 1: lengths[name.endswith("_2")]} for name in inputs}


# pairs hold what the others do
every_export = pytest.mark.parametrize(
    "case",
    [
        case if case == "sequence_pair_classification" else pytest.param(case, marks=EXHAUSTIVE)
        for case in (*HEADS, "cls pooling")
    ],
)


def build_export(row, case):
    """A model for exporters, and the head that says which inputs it takes."""
    if case == "cls pooling":
        return Plain(build_small(row, "sequence_classification", pooling="cls")), "model"
    wrapper = PlainPair if case == "sequence_pair_classification" else Plain
    return wrapper(build_small(row, case)), case


@every_family
@every_export
def test_exported_programs_run_at_other_shapes(row, case):
    model, head = build_export(row, case)
    inputs = unlabelled(head)
    program = torch.export.export(
        model, (), inputs, dynamic_shapes=shapes(inputs), **EXPORT_OPTIONS.get(row.name, {})
    )
    for batch, length in ((3, 12), (2, 33)):
        inputs = unlabelled(head, batch=batch, length=length)
        torch.testing.assert_close(
            program.module()(**inputs), model(**inputs), atol=1e-5, rtol=1e-5
        )


@every_family
@every_export
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


def test_image_models_are_exported_for_any_number_of_images(tmp_path):
    model = PlainImages(build_images())
    shape = {"pixel_values": {0: Dim("batch", min=2, max=64)}}
    inputs = {"pixel_values": torch.randn(3, 3, 16, 16)}
    program = torch.export.export(model, (), inputs, dynamic_shapes=shape)
    path = tmp_path / "model.onnx"
    torch.onnx.export(
        model, (), path, kwargs=inputs, dynamo=True, dynamic_shapes=shape, verbose=False
    )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for batch in (3, 5):
        pixels = torch.randn(batch, 3, 16, 16)
        expected = model(pixels).detach()
        output = program.module()(pixel_values=pixels)
        torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)
        (output,) = session.run(None, {"pixel_values": pixels.numpy()})
        np.testing.assert_allclose(output, expected.numpy(), atol=1e-4, rtol=1e-4)
