"""All families and heads on the device: the same numbers, one wait, operations counted."""

import csv
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from benchmarks.speed.commands import devices
from hf_mixers import CombinerForCausalLM, DnaTokenizer
from hf_mixers.data import FlatCollator, MaskedLMCollator, PaddedCollator
from hf_mixers.models import sharing_rotation
from hf_mixers.models.neighbours import MOST_BLOCKS
from hf_mixers.models.ops_chord import chord_offsets
from hf_mixers.models.packing import Boundaries, pack_ragged
from hf_mixers.models.sharing import share_pack
from hf_mixers.models.sharing_rotation import SharedRotation
from tests.accelerator import DEVICE, OnDevice, Watch, fetch, put
from tests.families import (
    ROWS,
    every_family,
    every_head_with_loss,
    every_own_variant,
    example_inputs,
    find_row,
    flatten,
    random_ids,
)


def step(model, inputs):
    """Loss and gradients, and what the device saw."""
    with Watch() as watch:
        loss = model(**inputs).loss
        loss.backward()
    grads = {name: fetch(weight.grad) for name, weight in model.named_parameters()}
    return fetch(loss).detach(), grads, watch


def check_step(row, head, inputs, **changes):
    """A step on the device and one on the processor give the same."""
    return compare(lambda: row.build(head, **changes), inputs)


def compare(build, inputs):
    on_host = build().train()
    expected = on_host(**inputs).loss
    expected.backward()
    grads = {name: weight.grad for name, weight in on_host.named_parameters()}
    loss, found, watch = step(put(build().train()), put(inputs))
    torch.testing.assert_close(loss, expected.detach())
    for name, grad in grads.items():
        torch.testing.assert_close(found[name], grad, rtol=1e-4, atol=1e-5, msg=name)
    return watch


@every_family
@every_head_with_loss
def test_heads_wait_once_and_give_the_same(row, head):
    watch = check_step(row, head, example_inputs(head))
    assert watch.waits == {"_to_copy": 1}
    assert not watch.uploads


@every_own_variant
def test_variants_wait_once_and_give_the_same(row, changes):
    inputs = example_inputs("sequence_classification", length=40)
    watch = check_step(row, "sequence_classification", inputs, **changes)
    assert watch.num_waits <= 1
    assert not watch.uploads


def build_causal():
    torch.manual_seed(0)
    return CombinerForCausalLM(find_row("combiner").config(causal=True))


def test_next_tokens_are_predicted_on_the_device():
    inputs = example_inputs("masked_lm")
    watch = compare(build_causal, {**inputs, "labels": inputs["input_ids"]})
    assert watch.num_waits == 1
    assert not watch.uploads


def test_images_wait_once_and_give_the_same():
    changes = {"image_size": 16, "patch_size": 4, "max_position_embeddings": None}
    inputs = {"pixel_values": torch.randn(2, 3, 16, 16), "labels": torch.tensor([0, 1])}
    watch = check_step(find_row("mrsformer"), "image_classification", inputs, **changes)
    assert watch.num_waits <= 1
    assert not watch.uploads


@every_family
def test_features_wait_once_and_give_the_same(row):
    inputs = example_inputs("sequence_classification")
    values = torch.randn(*inputs.pop("input_ids").shape, 3)
    inputs["input_values"] = values * inputs["attention_mask"][:, :, None]
    watch = check_step(row, "sequence_classification", inputs, input_features=3)
    assert watch.num_waits <= 1
    assert not watch.uploads


@pytest.mark.parametrize("pooling", ["mean", "max", "first", "cls", "attention"])
@every_family
def test_poolings_wait_once_and_give_the_same(row, pooling):
    sequences = [random_ids(n) for n in (600, 513, 258)]
    inputs = {**flatten(sequences), "labels": torch.tensor([0, 1, 1])}
    watch = check_step(row, "sequence_classification", inputs, pooling=pooling)
    assert watch.num_waits <= 1


@every_family
@every_head_with_loss
def test_nothing_waits_for_boundaries_of_the_host_without_checks(row, head):
    examples = [{"input_ids": random_ids(n), "labels": n % 2} for n in (30, 7, 19)]
    per_token = head in ("masked_lm", "token_classification")
    for example in examples:
        if per_token:
            example["labels"] = example["input_ids"] % 2
        if head == "sequence_pair_classification":
            example["input_ids_2"] = example["input_ids"].flip(0)
    batch = FlatCollator(token_labels=per_token)(examples)
    kept = {name: value for name, value in batch.items() if "seq_len" in name}
    expected, grads, _ = step(row.build(head).train(), batch)
    model = put(row.build(head, check_inputs=False).train())
    loss, found, watch = step(model, {**put(batch), **kept})
    assert not watch.waits
    assert not watch.uploads
    torch.testing.assert_close(loss, expected)
    for name, grad in grads.items():
        torch.testing.assert_close(found[name], grad, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("collator", [PaddedCollator, FlatCollator])
def test_batches_of_collators_are_read(collator):
    examples = [{"input_ids": random_ids(n)} for n in (30, 7)]
    batch = MaskedLMCollator(collator(), DnaTokenizer())(examples)
    watch = check_step(find_row("chordmixer"), "masked_lm", batch)
    assert watch.num_waits == 1


@pytest.mark.parametrize("lengths", [[600], [300, 7, 250, 40, 3]], ids=len)
def test_rotations_of_shared_packs_wait_for_nothing(monkeypatch, lengths):
    monkeypatch.setattr(dist, "get_world_size", lambda group: 2)
    monkeypatch.setattr(dist, "get_rank", lambda group: 1)
    offsets = chord_offsets(9)

    def pack_on(device):
        ends = torch.tensor([0, *lengths]).cumsum(0).to(device)
        boundaries = Boundaries((1, sum(lengths)), device, cu_seq_lens=ends, sizes=tuple(lengths))
        return share_pack(pack_ragged([boundaries]), None)

    # whatever comes, both get the same
    comes = lambda rows, sent, received, group: rows.new_ones(sum(received), rows.shape[1])  # noqa: E731
    monkeypatch.setattr(sharing_rotation, "exchange", comes)
    on_host = pack_on(torch.device("cpu"))
    hidden = torch.randn(on_host.num_rows, 18)
    expected = SharedRotation(on_host, offsets).rotate(hidden)
    with Watch():
        pack = pack_on(DEVICE)
        hidden = put(hidden)
    with Watch() as watch:
        found = SharedRotation(pack, offsets).rotate(hidden)
    assert not watch.waits
    torch.testing.assert_close(fetch(found), expected)


def test_wrong_values_are_refused_on_the_device_too():
    model = put(find_row("chordmixer").build("sequence_classification"))
    ids = random_ids(2, 5)
    with Watch():
        for wrong, message in (
            ({"input_ids": ids + 90}, r"input_ids must lie in 0..19 .*got 9\d to 9\d"),
            ({"input_ids": ids, "labels": torch.tensor([0, 7])}, "labels must lie in 0..1"),
            ({"input_ids": ids, "attention_mask": ids}, "attention_mask must hold only 0 and 1"),
            ({"input_ids": ids, "attention_mask": ids * 0}, "row 0 of attention_mask is all 0"),
        ):
            with pytest.raises(ValueError, match=message):
                model(**put(wrong))


def test_the_device_refuses_to_mix():
    a = put(torch.ones(3))
    with Watch(), pytest.raises(RuntimeError, match="same device"):
        a + torch.ones(3)
    with Watch() as watch:
        assert (a + torch.tensor(1.0)).device == DEVICE
        assert isinstance(torch.zeros(2, device=DEVICE), OnDevice)
        a.sum().item(), a[a > 0], torch.tensor([1], device=DEVICE)
    assert watch.waits == {"_local_scalar_dense": 1, "index by a mask": 1}
    assert watch.uploads == {"tensor": 1}


LENGTHS = [400, 300, 250, 200, 150, 120, 90, 60, 40, 20]


def count(row, lengths=LENGTHS, **changes):
    """Operations of a training step."""
    model = put(row.build("sequence_classification", **changes).train())
    inputs = flatten([random_ids(n) for n in lengths])
    inputs["labels"] = torch.arange(len(lengths)) % 2
    return step(model, put(inputs))[2].num_operations


def per_part(row, name, few, many, **changes):
    found = [count(row, **{name: number}, **changes) for number in (few, many)]
    return (found[1] - found[0]) / (many - few)


@pytest.mark.parametrize(
    "changes",
    [{}, {"pre_norm": "layer"}, {"block_order": "mix_rotate"}, {"reversible": True}],
    ids=["plain", "norm", "mix_rotate", "reversible"],
)
def test_a_block_of_chordmixer_is_few_operations(changes):
    row = find_row("chordmixer")
    assert per_part(row, "num_hidden_layers", 3, 9, **changes) <= 30


@pytest.mark.parametrize("protocol", ["chord", "cdil"])
def test_a_factor_of_paramixer_is_few_operations(protocol):
    row = find_row("paramixer")
    links = {"num_links": 13} if protocol == "chord" else {}
    assert per_part(row, "num_factors", 3, 9, link_protocol=protocol, **links) <= 40


@pytest.mark.parametrize(
    ("family", "changes"),
    [("mrsformer", {}), ("combiner", {}), ("combiner", {"pattern": "axial_mixture"})],
    ids=str,
)
def test_operations_do_not_depend_on_the_number_of_sequences(family, changes):
    row = find_row(family)
    # the same shortest and longest of similar lengths, so the same blocks need a mask
    few, many = ([n + k for n in LENGTHS for k in steps] for steps in ((0, 7), (0, 3, 5, 7)))
    assert len(few) > MOST_BLOCKS
    assert count(row, few, **changes) == count(row, many, **changes)


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("mrsformer", {}),
        ("combiner", {}),
        ("combiner", {"pattern": "logsparse"}),
        ("combiner", {"pattern": "axial_rowmajor", "causal": True}),
        ("combiner", {"pattern": "axial_mixture"}),
        ("combiner", {"pattern": "learnable", "num_clusters": 5}),
    ],
    ids=str,
)
def test_blocks_of_very_different_lengths_give_the_same(family, changes):
    inputs = {**flatten([random_ids(n) for n in LENGTHS]), "labels": torch.arange(10) % 2}
    check_step(find_row(family), "sequence_classification", inputs, **changes)


@pytest.mark.parametrize("row", ROWS[1:3], ids=lambda row: row.name)
def test_operations_do_not_depend_on_lengths(row):
    assert count(row) == count(row, [2 * n for n in LENGTHS])


RECORDED = Path(__file__).parents[2] / "benchmarks/results/devices.csv"


# the other families take half a minute
@pytest.mark.parametrize("name", ["chordmixer", "paramixer"])
def test_counts_of_ten_sequences_are_those_on_record(name):
    with open(RECORDED) as file:
        (row,) = [row for row in csv.DictReader(file) if row["network"] == name]
    facts = devices.build(name, int(row["length"]), seed=0).facts
    assert facts["tokens"] == 16_300
    assert {fact: str(value) for fact, value in facts.items()} == {
        fact: row[fact] for fact in facts
    }
