"""New models start near a uniform guess; old checkpoints and presets stay as they were."""

import json
import math

import pytest
import torch

from hf_mixers import FAMILIES, ChordMixerConfig, ChordMixerModel
from tests.families import ROWS, every_family, flatten, random_ids

CLASSES = 4
LENGTHS = {"short": [1, 2, 3, 9], "long": [2000, 700, 33]}
POOLINGS = ("mean", "max", "first", "cls", "attention")
DEPTHS = ("as built", "one block", "24 blocks")


def first_loss(model, head, lengths):
    """Loss of a new model over random targets, and that of a uniform guess."""
    torch.manual_seed(1)
    sequences = [random_ids(length) for length in lengths for _ in range(8)]
    inputs = flatten(sequences)
    if head == "masked_lm":
        inputs["labels"] = inputs["input_ids"].clone()
        # nothing can be known of what is hidden
        inputs["input_ids"] = torch.full_like(inputs["input_ids"], 4)
        return model(**inputs).loss, math.log(model.config.vocab_size)
    if head == "token_classification":
        inputs["labels"] = torch.randint(CLASSES, inputs["input_ids"].shape)
    else:
        inputs["labels"] = torch.arange(len(sequences)) % CLASSES
    if head == "sequence_pair_classification":
        others = flatten(sequences[::-1])
        inputs |= {f"{name}_2": value for name, value in others.items()}
    return model(**inputs).loss, math.log(CLASSES)


def check(model, head, lengths):
    model.train()
    with torch.no_grad():
        loss, uniform = first_loss(model, head, lengths)
    assert float(loss) == pytest.approx(uniform, rel=0.1)


HEADS = ("masked_lm", "sequence_classification", "token_classification")
HEADS += ("sequence_pair_classification",)


@every_family
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize(
    "depth", [None, 1, pytest.param(24, marks=pytest.mark.exhaustive)], ids=DEPTHS
)
def test_the_first_loss_is_that_of_a_uniform_guess(row, head, lengths, depth):
    changes = {} if depth is None else {"num_hidden_layers": depth}
    check(row.build(head, num_labels=CLASSES, **changes), head, lengths)


@every_family
@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("head", ["sequence_classification", "sequence_pair_classification"])
def test_so_it_is_with_every_pooling(row, pooling, head):
    check(row.build(head, num_labels=CLASSES, pooling=pooling), head, [600, 40, 5])


@every_family
def test_so_it_is_with_flat_pooling(row):
    model = row.build(
        "sequence_classification",
        num_labels=CLASSES,
        pooling="flat",
        max_position_embeddings=512,
    )
    check(model, "sequence_classification", [512] * 2)


@pytest.mark.parametrize(
    ("row", "changes"),
    [
        pytest.param(row, changes, id=f"{row.name}-{name}")
        for row in ROWS
        for name, changes in row.variants.items()
    ],
)
def test_so_it_is_for_every_variant(row, changes):
    check(row.build("masked_lm", **changes), "masked_lm", [300, 40, 5])


def test_so_it_is_with_a_second_chordmixer_as_decoder():
    row = ROWS[0]
    model = row.build("masked_lm", decoder_type="chordmixer", decoder_track_size=4)
    assert model.decoder.final_norm is not None
    check(model, "masked_lm", [300, 40])


def test_the_end_of_a_branch_starts_smaller_the_deeper_the_model():
    def spread(**changes):
        torch.manual_seed(0)
        config = ChordMixerConfig(track_size=8, **changes)
        return ChordMixerModel(config).layers[0].mix.fc2.weight.abs().max().item()

    published = spread(num_hidden_layers=8, weight_init="published")
    assert spread(num_hidden_layers=8) == pytest.approx(published / 4, rel=1e-2)
    assert spread(num_hidden_layers=2) == pytest.approx(published / 2, rel=1e-2)


@every_family
def test_a_checkpoint_without_the_new_fields_is_read_in_the_papers_form(row, tmp_path):
    model = row.build(final_norm="none", weight_init="published")
    model.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    stored = json.loads(path.read_text())
    assert stored.pop("final_norm") == "none"
    assert stored.pop("weight_init") == "published"
    path.write_text(json.dumps(stored))
    loaded, notes = row.model_class("model").from_pretrained(tmp_path, output_loading_info=True)
    assert not notes["missing_keys"]
    assert loaded.config.final_norm == "none"
    ids = random_ids(1, 40)
    torch.testing.assert_close(loaded.eval()(ids).to_tuple(), model(ids).to_tuple())


@every_family
def test_new_fields_are_kept_by_saving(row, tmp_path):
    model = row.build(final_norm="layer")
    model.save_pretrained(tmp_path)
    loaded = row.model_class("model").from_pretrained(tmp_path).eval()
    assert loaded.config.final_norm == "layer"
    assert loaded.config.weight_init == "scaled"
    ids = random_ids(1, 40)
    torch.testing.assert_close(loaded(ids).to_tuple(), model(ids).to_tuple())


@pytest.mark.parametrize("name", FAMILIES)
def test_presets_have_the_papers_form(name):
    config = FAMILIES[name].config
    for preset in config.presets:
        made = config.preset(preset)
        assert (made.final_norm, made.weight_init) == ("none", "published")


@every_family
def test_the_last_hidden_state_is_the_normalised_one(row):
    model = row.build(final_norm="layer", pooling="cls")
    output = model(random_ids(2, 20), output_hidden_states=True)
    torch.testing.assert_close(output.hidden_states[-1], output.last_hidden_state)
    torch.testing.assert_close(
        output.last_hidden_state.mean(-1), torch.zeros(2, 20), atol=1e-5, rtol=0
    )
    output.hidden_states[-1].retain_grad()
    output.last_hidden_state.square().sum().backward()
    assert output.hidden_states[-1].grad is not None


@every_family
def test_attention_pooling_starts_as_the_mean_and_is_a_softmax_over_tokens(row):
    model = row.build(pooling="attention")
    inputs = flatten([random_ids(n) for n in (7, 30, 1)])
    output = model(**inputs)
    hidden = output.last_hidden_state[0].split([7, 30, 1])
    means = torch.stack([part.mean(0) for part in hidden])
    torch.testing.assert_close(output.pooler_output, means, atol=1e-5, rtol=1e-5)
    torch.nn.init.normal_(model.pool_scores.weight)
    output = model(**inputs)
    hidden = output.last_hidden_state[0].split([7, 30, 1])
    expected = torch.stack([model.pool_scores(part).softmax(0).T @ part for part in hidden])
    torch.testing.assert_close(output.pooler_output, expected[:, 0], atol=1e-5, rtol=1e-5)
    output.pooler_output.sum().backward()
    assert model.pool_scores.weight.grad.abs().sum() > 0


@pytest.mark.slow
@every_family
def test_running_norm_centres_and_scales_pooled_vectors(row):
    model = row.build(pooled_norm="running")
    inputs = flatten([random_ids(n) for n in (7, 30, 12, 90)])
    torch.testing.assert_close(model(**inputs).pooler_output, row.build()(**inputs).pooler_output)
    model.train()
    for _ in range(300):
        model(**inputs)
    pooled = model.eval()(**inputs).pooler_output
    torch.testing.assert_close(pooled.mean(0), torch.zeros_like(pooled[0]), atol=0.1, rtol=0)
    assert 0.8 < float(pooled.std(0, correction=0).median()) < 1.05


def test_a_batch_of_one_sequence_does_not_blow_up_the_running_norm():
    model = ROWS[0].build(pooled_norm="running").train()
    pooled = model(random_ids(1, 50)).pooler_output
    assert pooled.abs().max() < 10


@every_family
def test_tokens_are_hidden_in_training_only(row):
    model = row.build(token_dropout=0.5)
    ids = random_ids(1, 200)
    assert torch.equal(model(ids).pooler_output, model(ids).pooler_output)
    seen = []
    model.embed_tokens.register_forward_hook(lambda _, given, out: seen.append(given[0]))
    model.train()(ids)
    share = float((seen[0] == model.config.mask_token_id).float().mean())
    assert 0.35 < share < 0.65
    with pytest.raises(Exception, match="token_dropout needs token input"):
        row.config(token_dropout=0.1, mask_token_id=None)
