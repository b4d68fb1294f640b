"""Heads: what they compute, and losses that do not depend on how a step is cut into batches."""

import pytest
import torch
from huggingface_hub.errors import StrictDataclassClassValidationError
from torch.nn import functional

from hf_mixers.models.losses import sequence_loss, token_loss
from tests.families import HEADS, every_family, example_inputs, flatten, pad, random_ids
from tests.reference import chord as reference

PROBLEMS = {
    "single_label_classification": ({"num_labels": 3}, lambda n: torch.arange(n) % 3),
    "multi_label_classification": (
        {"num_labels": 3},
        lambda n: (torch.arange(3 * n).view(n, 3) % 2).float(),
    ),
    "regression": ({"num_labels": 2}, lambda n: torch.linspace(-1, 1, 2 * n).view(n, 2)),
    "regression of one number": ({"num_labels": 1}, lambda n: torch.linspace(-1, 1, n)),
}


def gradient_norm(model):
    return torch.stack([p.grad.norm() for p in model.parameters()]).norm()


@every_family
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("head", ["sequence_classification", "sequence_pair_classification"])
def test_accumulating_four_batches_gives_the_gradient_of_one(row, problem, head):
    changes, make_labels = PROBLEMS[problem]
    model = row.build(head, problem_type=problem.split(" of")[0], **changes).train()
    ids, labels = random_ids(8, 12), make_labels(8)
    extra = {"input_ids_2": ids.flip(0)} if head == "sequence_pair_classification" else {}

    model(ids, labels=labels, **extra).loss.backward()
    whole = gradient_norm(model)
    model.zero_grad()
    for part in range(4):
        rows = slice(2 * part, 2 * part + 2)
        inputs = {name: value[rows] for name, value in extra.items()}
        model(
            ids[rows], labels=labels[rows], num_items_in_batch=labels.numel(), **inputs
        ).loss.backward()
    torch.testing.assert_close(gradient_norm(model), whole)


@every_family
@pytest.mark.parametrize("head", ["masked_lm", "token_classification"])
def test_accumulating_tokens_of_unequal_batches_gives_the_gradient_of_one(row, head):
    model = row.build(head).train()
    ids, mask = pad([random_ids(n) for n in (12, 3, 7, 5)])
    labels = torch.where((mask == 1) & (torch.rand(ids.shape) < 0.5), ids % 2, -100)
    items = (labels != -100).sum()

    model(ids, attention_mask=mask, labels=labels).loss.backward()
    whole = gradient_norm(model)
    model.zero_grad()
    for i in range(4):
        rows = slice(i, i + 1)
        model(
            ids[rows], attention_mask=mask[rows], labels=labels[rows], num_items_in_batch=items
        ).loss.backward()
    torch.testing.assert_close(gradient_norm(model), whole)


def test_losses_equal_those_of_torch():
    logits, classes = torch.randn(6, 3), torch.tensor([0, 2, 1, -100, 2, 2])
    torch.testing.assert_close(
        sequence_loss(logits, classes), functional.cross_entropy(logits, classes)
    )
    torch.testing.assert_close(
        token_loss(logits, classes), functional.cross_entropy(logits, classes)
    )
    flags = torch.randint(0, 2, (6, 3)).float()
    torch.testing.assert_close(
        sequence_loss(logits, flags), functional.binary_cross_entropy_with_logits(logits, flags)
    )
    numbers = torch.randn(6)
    torch.testing.assert_close(
        sequence_loss(logits[:, :1], numbers), functional.mse_loss(logits[:, 0], numbers)
    )


def test_class_weights_weigh_examples_and_positives():
    logits, classes = torch.randn(6, 3), torch.tensor([0, 2, 1, 0, 2, 2])
    weights = [1.0, 2.0, 0.5]
    each = functional.cross_entropy(logits, classes, reduction="none")
    expected = (each * torch.tensor(weights)[classes]).mean()
    torch.testing.assert_close(sequence_loss(logits, classes, class_weights=weights), expected)
    torch.testing.assert_close(token_loss(logits, classes, class_weights=weights), expected)
    flags = functional.one_hot(classes, 3).float()
    torch.testing.assert_close(
        sequence_loss(logits, flags, class_weights=weights),
        functional.binary_cross_entropy_with_logits(
            logits, flags, pos_weight=torch.tensor(weights)
        ),
    )


@every_family
def test_class_weights_of_the_config_reach_the_loss(row):
    ids, labels = random_ids(4, 6), torch.tensor([0, 1, 1, 1])
    for head in ("sequence_classification", "token_classification"):
        plain = row.build(head)
        weighted = row.build(head, class_weights=[1.0, 3.0])
        targets = labels if head.startswith("sequence") else labels[:, None].expand(4, 6)
        assert plain(ids, labels=targets).loss != weighted(ids, labels=targets).loss
        none = row.build(head, class_weights=[1.0, 1.0])
        assert torch.equal(plain(ids, labels=targets).loss, none(ids, labels=targets).loss)


def test_unknown_labels_are_left_out_and_no_label_at_all_costs_nothing():
    logits = torch.randn(4, 3)
    flags = torch.tensor([[1.0, 0, -100]] * 4)
    torch.testing.assert_close(
        sequence_loss(logits, flags),
        functional.binary_cross_entropy_with_logits(logits[:, :2], flags[:, :2]),
    )
    assert token_loss(logits, torch.full((4,), -100)) == 0


@every_family
def test_the_problem_is_read_from_the_labels_and_never_written_to_the_config(row):
    model = row.build("sequence_classification", num_labels=3)
    ids = random_ids(2, 5)
    logits = model(ids).logits
    single = model(ids, labels=torch.tensor([0, 2])).loss
    torch.testing.assert_close(single, functional.cross_entropy(logits, torch.tensor([0, 2])))
    flags = torch.tensor([[1.0, 0, 1], [0, 1, 0]])
    torch.testing.assert_close(
        model(ids, labels=flags).loss, functional.binary_cross_entropy_with_logits(logits, flags)
    )
    assert model.config.problem_type is None


@every_family
def test_a_users_own_loss_is_used(row):
    model = row.build("sequence_classification")
    model.loss_function = lambda logits, labels, **_: logits.sum() * 0 + 7
    assert model(random_ids(1, 4), labels=torch.tensor([1])).loss == 7


@every_family
@pytest.mark.parametrize("decoder", ["first", "other"])
def test_masked_lm_logits_are_sparse_in_training_and_full_otherwise(row, decoder):
    changes = {"decoder_type": "chordmixer"} if decoder == "other" else {}
    if decoder == "other" and "decoder_type" not in row.config().to_dict():
        changes = {}
    model = row.build("masked_lm", **changes)
    ids, mask = pad([random_ids(n) for n in (4, 9)], "left")
    labels = torch.full_like(ids, -100)
    labels[0, -1], labels[1, 2], labels[1, 7] = 5, 6, 7
    full = model(ids, attention_mask=mask, labels=labels)
    assert full.logits.shape == (2, 9, 20)
    sparse = model.train()(ids, attention_mask=mask, labels=labels)
    assert sparse.logits.shape == (3, 20)
    torch.testing.assert_close(sparse.loss, full.loss)
    torch.testing.assert_close(sparse.logits, full.logits[labels != -100])
    assert model(ids, attention_mask=mask).logits.shape == (2, 9, 20)


@every_family
def test_pairs_read_both_sequences_and_their_order(row):
    model = row.build("sequence_pair_classification")
    first, second = random_ids(3, 7), random_ids(3, 12)
    logits = model(first, input_ids_2=second).logits
    u, v = model.model(first).pooler_output, model.model(second).pooler_output
    features = torch.cat([u, v, u * v, u - v], 1)
    expected = model.classifier(functional.gelu(model.dense(features)))
    torch.testing.assert_close(logits, expected)
    assert not torch.allclose(model(second, input_ids_2=first).logits, logits)


@every_family
def test_pairs_may_be_flat(row):
    model = row.build("sequence_pair_classification")
    firsts, seconds = [random_ids(n) for n in (4, 9)], [random_ids(n) for n in (6, 2)]
    inputs = flatten(firsts) | {f"{k}_2": v for k, v in flatten(seconds).items()}
    (a, mask), (b, mask_2) = pad(firsts), pad(seconds, "left")
    torch.testing.assert_close(
        model(**inputs).logits,
        model(a, attention_mask=mask, input_ids_2=b, attention_mask_2=mask_2).logits,
    )


@every_family
def test_tasks_choose_their_own_output(row):
    model = row.build(
        "sequence_pair_classification",
        num_tasks=4,
        num_labels=1,
        problem_type="multi_label_classification",
    )
    first, second = random_ids(1, 7).expand(4, 7), random_ids(1, 7).expand(4, 7)
    tasks = torch.tensor([3, 0, 2, 1])
    output = model(first, input_ids_2=second, task_ids=tasks, labels=torch.ones(4))
    assert output.logits.shape == (4, 1)
    assert len(set(output.logits.flatten().tolist())) == 4
    again = model(first[:1], input_ids_2=second[:1], task_ids=torch.tensor([2]))
    torch.testing.assert_close(again.logits[0], output.logits[2])
    output.loss.backward()
    assert model.classifier.weight.grad.any(1).all()


@pytest.mark.slow
@every_family
def test_dropouts_act_in_training_only(row):
    names = [
        name for name in row.config().to_dict() if name.endswith(("_dropout", "_dropout_prob"))
    ]
    ids = random_ids(2, 9)
    for name in names:
        if name.startswith("decoder"):
            cases = {"masked_lm": {name: 0.5, "decoder_type": "chordmixer"}}
        elif name == "kmer_dropout":
            # there is a profile only where heads pool
            changes = {name: 0.5, "kmer_size": 2}
            cases = {head: changes for head in HEADS[2:] if head.startswith("sequence")}
        else:
            cases = {head: {name: 0.5} for head in HEADS[2:]}
        for head, changes in cases.items():
            model = row.build(head, **changes)
            inputs = {"input_ids": ids} | ({"input_ids_2": ids} if "pair" in head else {})
            assert torch.equal(model(**inputs).logits, model(**inputs).logits), (name, head)
            model.train()
            assert not torch.equal(model(**inputs).logits, model(**inputs).logits), (name, head)


@every_family
def test_class_weights_must_fit_the_classes_of_a_head(row, tmp_path):
    with pytest.raises(ValueError, match=r"one weight per label \(2\), got 1"):
        row.build("sequence_classification", class_weights=[1.0])
    for changes in ({"problem_type": "regression"}, {}):
        with pytest.raises(ValueError, match="class_weights have no meaning for a regression"):
            row.build("sequence_classification", class_weights=[1.0], num_labels=1, **changes)
    row.build("sequence_classification", class_weights=[1.0, 2.0]).save_pretrained(tmp_path)
    again = row.model_class("sequence_classification").from_pretrained(
        tmp_path, num_labels=3, class_weights=[1.0, 2.0, 3.0], ignore_mismatched_sizes=True
    )
    assert again.classifier.out_features == 3


def test_the_chordmixer_decoder_equals_its_slow_twin():
    from tests.families import ROWS

    model = ROWS[0].build("masked_lm", decoder_type="chordmixer", decoder_track_size=2)
    ids = random_ids(13)
    config, state = model.config, model.state_dict()
    hidden = reference.run_blocks(
        state["model.embed_tokens.weight"][ids], state, config, "model.layers"
    )
    hidden = reference.finish(hidden, config, state, "model.final_norm")
    hidden = hidden @ state["decoder.project.weight"].T + state["decoder.project.bias"]
    decoder = row_config(config, track_size=config.decoder_track_size)
    hidden = reference.run_blocks(hidden, state, decoder, "decoder.layers")
    hidden = reference.finish(hidden, config, state, "decoder.final_norm")
    expected = hidden @ state["lm_head.weight"].T + state["lm_head.bias"]
    torch.testing.assert_close(model(ids[None]).logits[0], expected, atol=1e-5, rtol=1e-5)


def row_config(config, **changes):
    return type(config)(**{**config.to_diff_dict(), **changes})


@every_family
@pytest.mark.parametrize("weight", [0, -1.0, float("nan"), float("inf")])
def test_class_weights_must_be_positive_and_finite(row, weight):
    message = f"class_weights must be positive and finite, got {weight}"
    with pytest.raises(StrictDataclassClassValidationError, match=message):
        row.config(class_weights=[1.0, weight])
    config = row.config()
    config.class_weights = [1.0, weight]
    for head in ("sequence_classification", "token_classification"):
        with pytest.raises(StrictDataclassClassValidationError, match=message):
            row.model_class(head)(config)


@every_family
@pytest.mark.parametrize("head", ["sequence_classification", "sequence_pair_classification"])
@pytest.mark.parametrize("target", [1.5, -0.1, 2, -1, float("nan")])
def test_targets_of_several_labels_must_lie_between_0_and_1(row, head, target):
    model = row.build(head, num_labels=3, problem_type="multi_label_classification")
    inputs = example_inputs(head, batch=2)
    inputs["labels"] = torch.tensor([[0, 1, -100], [0.3, 1, 0]])
    assert model(**inputs).loss.isfinite()
    inputs["labels"][1, 2] = target
    with pytest.raises(ValueError, match=rf"must lie in \[0, 1\], or be -100 .*got {target}"):
        model(**inputs)
