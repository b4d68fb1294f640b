"""Bad input ends in one sentence that names what was given and what is accepted."""

import pytest
import torch

from tests.families import (
    HEADS,
    ROWS,
    every_family,
    every_head,
    example_inputs,
    find_row,
    flatten,
    random_ids,
)

IDS = torch.tensor([[5, 6, 7, 8, 5], [8, 7, 7, 6, 5]])
ONES = torch.ones(2, 5, dtype=torch.long)

# the width of embeddings below; it becomes that of the model at hand
WIDTH = 36

BAD = {
    "nothing": ({}, "Exactly one of input_ids, input_values, inputs_embeds is needed, got none"),
    "ids and embeddings": (
        {"input_ids": IDS, "inputs_embeds": torch.zeros(2, 5, WIDTH)},
        "got input_ids and inputs_embeds",
    ),
    "a vector of ids": ({"input_ids": IDS[0]}, r"shape \(B, L\), got \(5,\)"),
    "fractional ids": ({"input_ids": IDS.float()}, "must hold integers, got torch.float32"),
    "an id too large": ({"input_ids": IDS + 15}, r"must lie in 0\.\.19 .* to 23"),
    "a negative id": ({"input_ids": IDS - 10}, r"must lie in 0\.\.19 .* got -5"),
    "features for a token model": (
        {"input_values": torch.zeros(2, 5, 4)},
        "reads input_ids, got input_values: build it with config.input_features=4",
    ),
    "embeddings of wrong width": (
        {"inputs_embeds": torch.zeros(2, 5, 7)},
        r"must have 36 features .* got \(2, 5, 7\)",
    ),
    "integer embeddings": (
        {"inputs_embeds": torch.zeros(2, 5, WIDTH, dtype=torch.long)},
        "must hold floating-point numbers, got torch.int64",
    ),
    "an empty batch": ({"input_ids": IDS[:0]}, r"shape \(0, 5\): every sequence needs"),
    "empty sequences": ({"input_ids": IDS[:, :0]}, r"shape \(2, 0\): every sequence needs"),
    "a masked-out row": (
        {"input_ids": IDS, "attention_mask": ONES * torch.tensor([[1], [0]])},
        "row 1 of attention_mask is all 0",
    ),
    "a mask of wrong shape": (
        {"input_ids": IDS, "attention_mask": ONES[:, :4]},
        r"must have shape \(2, 5\) like the input, got \(2, 4\)",
    ),
    "an additive mask": (
        {"input_ids": IDS, "attention_mask": ONES * 2},
        "must hold only 0 and 1, got 2",
    ),
    "mask and boundaries": (
        {
            "input_ids": IDS[:1],
            "attention_mask": ONES[:1],
            "cu_seq_lens_q": torch.tensor([0, 5]),
        },
        "attention_mask and cu_seq_lens_q say the same thing twice",
    ),
    "boundaries of a padded batch": (
        {"input_ids": IDS, "cu_seq_lens_q": torch.tensor([0, 5])},
        r"flat input of shape \(1, T\), got input of shape \(2, 5\)",
    ),
    "boundaries that do not sum": (
        {"input_ids": IDS[:1], "cu_seq_lens_q": torch.tensor([0, 2, 4])},
        "must run from 0 to the number of tokens 5, got 0 to 4",
    ),
    "boundaries that do not start at 0": (
        {"input_ids": IDS[:1], "cu_seq_lens_q": torch.tensor([1, 5])},
        "got 1 to 5",
    ),
    "an empty sequence in a flat batch": (
        {"input_ids": IDS[:1], "cu_seq_lens_q": torch.tensor([0, 2, 2, 5])},
        "does not grow at sequence 1",
    ),
    "lengths instead of boundaries": (
        {"input_ids": IDS[:1], "cu_seq_lens_q": torch.tensor([[0, 5]])},
        "must be a vector of integers",
    ),
    "a longest length that is too short": (
        {"input_ids": IDS[:1], "cu_seq_lens_q": torch.tensor([0, 1, 5]), "max_length_q": 3},
        "max_length_q=3 is below the longest sequence of cu_seq_lens_q, 4 tokens",
    ),
    "a longest length without boundaries": (
        {"input_ids": IDS, "max_length_q": 5},
        "pass it together with cu_seq_lens_q",
    ),
    "positions without boundaries": (
        {"input_ids": IDS, "position_ids": torch.arange(5)[None]},
        "position_ids does not say where sequences end",
    ),
    "a misspelt argument": (
        {"input_ids": IDS, "attention_masks": ONES},
        "attention_masks is not an argument of this model, did you mean attention_mask",
    ),
    "a second sequence": (
        {"input_ids": IDS, "input_ids_2": IDS},
        "input_ids_2 is not an argument of this model: only models of sequence pairs read",
    ),
    "the mask of a second sequence": (
        {"input_ids": IDS, "attention_mask_2": ONES},
        "attention_mask_2 is not an argument of this model: only models of sequence pairs read",
    ),
    "labels for a model without a head": (
        {"input_ids": IDS, "labels": ONES},
        "labels is not an argument of this model: it has no head and no loss",
    ),
    "boundaries by another name": (
        {"input_ids": IDS[:1], "cu_seq_lens_k": torch.tensor([0, 5])},
        "cu_seq_lens_k does not say where sequences end",
    ),
    "boundaries of truth values": (
        {"input_ids": IDS[:1], "cu_seq_lens_q": torch.tensor([False, True])},
        "must be a vector of integers",
    ),
    "sequence numbers without boundaries": (
        {"input_ids": IDS, "seq_idx": ONES},
        "seq_idx does not say where sequences end",
    ),
}


@every_family
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_with_a_clear_message(row, case):
    inputs, message = BAD[case]
    width = row.config().hidden_size
    if "inputs_embeds" in inputs and inputs["inputs_embeds"].shape[-1] == WIDTH:
        embeddings = inputs["inputs_embeds"].new_zeros(2, 5, width)
        inputs = {**inputs, "inputs_embeds": embeddings}
    with pytest.raises(ValueError, match=message.replace(str(WIDTH), str(width))):
        row.build()(**inputs)


@every_family
def test_continuous_models_refuse_ids_and_wrong_widths(row):
    model = row.build(input_features=3)
    with pytest.raises(ValueError, match="reads input_values of 3 features"):
        model(input_ids=IDS)
    with pytest.raises(ValueError, match="must have 3 features"):
        model(input_values=torch.zeros(2, 5, 2))
    with pytest.raises(ValueError, match=r"shape \(B, L, F\), got \(2, 5\)"):
        model(input_values=torch.zeros(2, 5))


@every_family
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_learned_positions_end_at_the_built_length(row, pooling):
    assert row.build(pooling=pooling).config.length_limit is None
    model = row.build(pooling=pooling, position_embedding_type="absolute")
    longest = model.config.length_limit
    assert longest == model.config.max_position_embeddings
    assert model(random_ids(1, longest)).last_hidden_state.isfinite().all()
    with pytest.raises(ValueError, match=f"learned positions for {longest}"):
        model(random_ids(1, longest + 1))


@every_family
def test_a_longer_sequence_than_built_for_runs_and_warns_once(row, caplog):
    model = row.build(max_position_embeddings=8)
    model.config.max_position_embeddings = 8
    from transformers.utils import logging

    logging.get_logger("hf_mixers.models.modeling_mixer").warning_once.cache_clear()
    logging.enable_propagation()
    try:
        for length in (20, 21, 20):
            assert model(random_ids(1, length)).last_hidden_state.shape[1] == length
    finally:
        logging.disable_propagation()
    warnings = [r.message for r in caplog.records if "longer than the 8" in r.message]
    assert len(warnings) == 1
    # attention has no ends that are too far apart
    is_attention = row.name in ("mrsformer", "combiner")
    assert ("receptive field" in warnings[0]) != is_attention


@every_family
def test_labels_of_another_shape_are_refused(row):
    with pytest.raises(ValueError, match=r"labels must have shape \(2, 5\) like the input"):
        row.build("masked_lm")(IDS, labels=IDS[:, 1:])
    with pytest.raises(ValueError, match=r"single_label_classification must have shape \(2,\)"):
        row.build("sequence_classification")(IDS, labels=torch.tensor([0, 1, 1]))
    with pytest.raises(ValueError, match=r"multi_label_classification must have shape \(2, 3\)"):
        row.build("sequence_classification", num_labels=3)(IDS, labels=torch.zeros(2))
    classifier = row.build("sequence_classification", problem_type="single_label_classification")
    with pytest.raises(ValueError, match="labels of classes must be whole numbers"):
        classifier(IDS, labels=torch.tensor([0.9, 1.0]))
    with pytest.raises(ValueError, match=r"labels must lie in 0\.\.1, or be -100 .* got 0 to 2"):
        row.build("sequence_classification")(IDS, labels=torch.tensor([0, 2]))


@every_family
def test_pairs_must_match(row):
    model = row.build("sequence_pair_classification")
    with pytest.raises(ValueError, match="input_ids_2, input_values_2, inputs_embeds_2 is needed"):
        model(IDS)
    with pytest.raises(ValueError, match="as many first as second sequences, got 2 and 1"):
        model(IDS, input_ids_2=IDS[:1])
    width = model.config.hidden_size
    with pytest.raises(
        ValueError, match="given in the same way, got input_ids and inputs_embeds_2"
    ):
        model(IDS, inputs_embeds_2=torch.zeros(2, 5, width))
    with pytest.raises(ValueError, match="row 0 of attention_mask_2 is all 0"):
        model(IDS, input_ids_2=IDS, attention_mask_2=ONES * 0)
    with pytest.raises(ValueError, match=r"input_ids_2 must lie in 0\.\.19"):
        model(IDS, input_ids_2=IDS + 15)
    with pytest.raises(ValueError, match="attention_mask2 is not an argument of this model"):
        model(IDS, input_ids_2=IDS, attention_mask2=ONES)
    with pytest.raises(ValueError, match="position_ids_2 does not say where sequences end"):
        model(IDS, input_ids_2=IDS, position_ids_2=ONES)
    with pytest.raises(ValueError, match="num_tasks=None takes no task_ids"):
        model(IDS, input_ids_2=IDS, task_ids=torch.tensor([0, 1]))


def test_tasks_are_needed_when_there_are_several():
    model = ROWS[0].build("sequence_pair_classification", num_tasks=3)
    with pytest.raises(ValueError, match=r"takes task_ids in 0\.\.2, got none"):
        model(IDS, input_ids_2=IDS)
    with pytest.raises(ValueError, match=r"one task per pair, shape \(2,\), got \(3,\)"):
        model(IDS, input_ids_2=IDS, task_ids=torch.tensor([0, 1, 2]))
    with pytest.raises(ValueError, match=r"task_ids must lie in 0\.\.2, got 0 to 3"):
        model(IDS, input_ids_2=IDS, task_ids=torch.tensor([0, 3]))


@every_family
@pytest.mark.parametrize("training", [False, True])
def test_sequences_of_one_token_give_finite_numbers_and_gradients(row, training):
    for name, changes in {"plain": {}, **row.variants}.items():
        model = row.build("sequence_classification", **changes).train(training)
        output = model(random_ids(1, 1), labels=torch.tensor([1]))
        output.loss.backward()
        assert output.logits.isfinite().all(), name
        assert all(p.grad.isfinite().all() for p in model.parameters()), name


@pytest.mark.parametrize(("pooling", "warns"), [("mean", True), ("flat", False)])
def test_padding_without_a_mask_is_warned_of_unless_it_must_be_read(caplog, pooling, warns):
    from transformers.utils import logging

    model = ROWS[0].build(pooling=pooling, max_position_embeddings=4)
    logging.get_logger("transformers.modeling_utils").warning_once.cache_clear()
    logging.enable_propagation()
    try:
        model(torch.tensor([[5, 6, 0, 0]]))
    finally:
        logging.disable_propagation()
    assert any("attention_mask" in record.message for record in caplog.records) == warns


NOT_TENSORS = {
    "a list": (lambda tensor: tensor.tolist(), "a list"),
    "an array": (lambda tensor: tensor.numpy(), "a numpy.ndarray"),
}


@every_family
@every_head
@pytest.mark.parametrize("kind", NOT_TENSORS)
def test_lists_and_arrays_are_refused(row, head, kind):
    change, called = NOT_TENSORS[kind]
    model, inputs = row.build(head), example_inputs(head)
    for name in inputs:
        with pytest.raises(ValueError, match=f"^{name} must be a torch tensor, got {called}: "):
            model(**{**inputs, name: change(inputs[name])})
    flat = flatten([IDS[0], IDS[1]])
    flat |= {f"{name}_2": value for name, value in flat.items() if head == HEADS[-1]}
    for name in flat:
        if not name.startswith("max_length"):
            with pytest.raises(ValueError, match=f"^{name} must be a torch tensor, got {called}: "):
                model(**{**flat, name: change(flat[name])})


@pytest.mark.parametrize("kind", NOT_TENSORS)
def test_lists_and_arrays_of_tasks_images_and_columns_are_refused(kind):
    change, called = NOT_TENSORS[kind]
    row = find_row("mrsformer")
    pairs = row.build("sequence_pair_classification", num_tasks=2)
    with pytest.raises(ValueError, match=f"task_ids must be a torch tensor, got {called}"):
        pairs(IDS, input_ids_2=IDS, task_ids=change(torch.tensor([0, 1])))
    images = row.build("image_classification", image_size=8, patch_size=4)
    with pytest.raises(ValueError, match=f"pixel_values must be a torch tensor, got {called}"):
        images(change(torch.zeros(1, 3, 8, 8)))
    table = {"numeric_values": torch.zeros(1, 2), "category_ids": torch.tensor([[4]])}
    rows = row.build("sequence_classification", num_numeric_features=2, category_sizes=[5])
    for name in table:
        with pytest.raises(ValueError, match=f"{name} must be a torch tensor, got {called}"):
            rows(**{**table, name: change(table[name])})
