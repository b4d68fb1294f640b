"""Batches that several processes share: loss, gradients and steps are those of one process."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from hf_mixers.models.sharing import shared_over
from hf_mixers.parallel import average_gradients, context_parallel, make_mesh
from tests.families import find_row, flatten, pad, random_ids
from tests.parallel.ranks import run_ranks

pytestmark = pytest.mark.processes

PACK = [1, 777, 3, 258, 64, 65, 2, 500, 17]


def make_batch(head, lengths, layout="flat"):
    sequences = [random_ids(n) for n in lengths]
    if layout == "flat":
        batch = flatten(sequences)
    else:
        batch = dict(zip(("input_ids", "attention_mask"), pad(sequences, layout), strict=True))
    ids = batch["input_ids"]
    if head == "masked_lm":
        batch["labels"] = torch.where(torch.rand(ids.shape) < 0.3, ids, -100)
    elif head == "token_classification":
        batch["labels"] = ids % 2
    else:
        batch["labels"] = torch.arange(len(lengths)) % 2
    if head == "sequence_pair_classification":
        batch |= {f"{name}_2": batch[name] for name in ("input_ids", "attention_mask")}
    return batch


def step(model, batch):
    """Loss, gradients and weights of one step of training."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss = model(**batch).loss
    loss.backward()
    if dist.is_initialized():
        average_gradients(model)
    grads = [weight.grad.clone() for weight in model.parameters()]
    optimizer.step()
    return loss.detach(), grads, [weight.detach().clone() for weight in model.parameters()]


def shared_step(rank, model, batch):
    with shared_over(dist.group.WORLD):
        return step(model, batch)


TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-11}


def check(family, head, size, batch, dtype=torch.float32, **changes):
    """A step of `size` processes equals that of one; gradients above 1 relative to the largest."""
    build = lambda: find_row(family).build(head, **changes).train().to(dtype)  # noqa: E731
    loss, grads, weights = step(build(), batch)
    names = [name for name, _ in build().named_parameters()]
    scale = max(grad.abs().max() for grad in grads)
    near = {"rtol": 0, "atol": TOLERANCE[dtype] * max(1.0, float(scale))}
    for found in run_ranks(shared_step, size, build(), batch):
        torch.testing.assert_close(found[0], loss, rtol=TOLERANCE[dtype], atol=0)
        for name, own, grad in zip(names, found[1], grads, strict=True):
            torch.testing.assert_close(own, grad, **near, msg=lambda text, n=name: f"{n}: {text}")
        # AdamW divides by the gradient: where it is next to 0, its sign is all that counts
        for own, weight, grad in zip(found[2], weights, grads, strict=True):
            clear = grad.abs() > 1e-4 * scale
            torch.testing.assert_close(own[clear], weight[clear], rtol=0, atol=TOLERANCE[dtype])


FAMILIES = {
    "chordmixer": ("chordmixer", {}),
    "reversible": ("chordmixer", {"reversible": True}),
    "paramixer": ("paramixer", {}),
}
every_kind = pytest.mark.parametrize("kind", FAMILIES)


@every_kind
@pytest.mark.parametrize("size", [2, 4])
def test_one_long_sequence(kind, size):
    family, changes = FAMILIES[kind]
    if family == "paramixer":
        changes = {**changes, "num_factors": 4, "hidden_size": 4}
    batch = make_batch("masked_lm", [20_001])
    longest = {"max_position_embeddings": 20_001}
    check(family, "masked_lm", size, batch, **longest, **changes)


@every_kind
@pytest.mark.parametrize("size", [2, 4])
def test_packs_of_odd_lengths(kind, size):
    family, changes = FAMILIES[kind]
    batch = make_batch("sequence_classification", PACK)
    check(family, "sequence_classification", size, batch, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"block_order": "mix_rotate"},
        {"pre_norm": "layer", "fused": False},
        {"pre_norm": "layer", "pooling": "attention", "rotation": "alternating"},
        {"pre_norm": "group", "post_norm": "group", "pooling": "first"},
        {"pooling": "max", "pooling_size": 5},
        {"reversible": True, "block_order": "mix_rotate", "pre_norm": "layer"},
    ],
    ids=str,
)
def test_settings_of_chordmixer(changes):
    batch = make_batch("sequence_classification", PACK, "left")
    check("chordmixer", "sequence_classification", 2, batch, torch.float64, **changes)


@pytest.mark.parametrize("changes", [{"link_protocol": "cdil"}, {"residual_mode": "none"}], ids=str)
def test_settings_of_paramixer(changes):
    batch = make_batch("token_classification", PACK, "right")
    check("paramixer", "token_classification", 2, batch, torch.float64, **changes)


@pytest.mark.parametrize("head", ["token_classification", "sequence_pair_classification"])
def test_heads(head):
    check("chordmixer", head, 2, make_batch(head, PACK, "right"), torch.float64)


def outputs(rank, model, batch):
    with shared_over(dist.group.WORLD), torch.no_grad():
        found = model(**batch, output_hidden_states=True)
    return found.last_hidden_state, found.pooler_output, found.hidden_states[1]


def test_every_process_has_all_outputs():
    model, batch = find_row("chordmixer").build(), make_batch("model", PACK, "left")
    del batch["labels"]
    whole = model(**batch, output_hidden_states=True)
    expected = whole.last_hidden_state, whole.pooler_output, whole.hidden_states[1]
    for found in run_ranks(outputs, 2, model, batch):
        torch.testing.assert_close(found, expected)


def ddp_step(rank, model, batches):
    mesh = make_mesh(2, "cpu")
    wrapped = DistributedDataParallel(model)
    with context_parallel(mesh):
        loss = wrapped(**batches[mesh["data"].get_local_rank()]).loss
    loss.backward()
    return loss.detach(), [weight.grad.clone() for weight in model.parameters()]


def fsdp_step(rank, model, batches):
    mesh = make_mesh(2, "cpu")
    # weights are sharded over the processes that share a batch and replicated over the others
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    with context_parallel(mesh):
        loss = model(**batches[mesh["data"].get_local_rank()]).loss
    loss.backward()
    return loss.detach(), [weight.grad.full_tensor() for weight in model.parameters()]


@pytest.mark.parametrize("shared_step", [ddp_step, fsdp_step], ids=["ddp", "fsdp"])
def test_combines_with_processes_that_have_other_batches(shared_step):
    build = lambda: find_row("chordmixer").build("masked_lm").train()  # noqa: E731
    batches = [make_batch("masked_lm", lengths) for lengths in (PACK, [130, 900])]
    model = build()
    losses = [model(**batch).loss for batch in batches]
    (sum(losses) / 2).backward()
    for rank, (loss, grads) in enumerate(run_ranks(shared_step, 4, build(), batches)):
        torch.testing.assert_close(loss, losses[rank // 2].detach())
        for grad, weight in zip(grads, model.parameters(), strict=True):
            torch.testing.assert_close(grad, weight.grad, rtol=1e-4, atol=1e-6)


def refuse(rank, model, batch):
    with shared_over(dist.group.WORLD):
        try:
            model(**batch)
        except ValueError as error:
            return f"refused: {error}".split()
    return []


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("combiner", {}),
        ("mrsformer", {}),
        ("chordmixer", {"pooling": "cls"}),
        ("chordmixer", {"post_norm": "batch"}),
        ("chordmixer", {"kmer_size": 2}),
    ],
    ids=str,
)
def test_what_cannot_be_shared_is_refused(family, changes):
    model = find_row(family).build("sequence_classification", **changes)
    batch = make_batch("sequence_classification", [9, 5])
    for words in run_ranks(refuse, 2, model, batch):
        assert words[:4] == ["refused:", "Sequences", "cannot", "be"]
