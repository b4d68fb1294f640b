"""Pre-training with masked tokens and taxonomy: batches, losses, stages, and a whole run."""

import numpy as np
import pytest
import torch
from datasets import Dataset

from examples import pretrain_taxonomy
from hf_mixers import DnaTokenizer
from hf_mixers.recipes.head_start import regress
from hf_mixers.recipes.taxonomy import (
    RankedSequences,
    TaxonomyCollator,
    TaxonomyPretraining,
    list_classes,
    set_learning_rate,
    train_profiles,
)
from tests.families import every_family, find_row

KMERS = {"kmer_size": 2, "kmer_hidden_size": 6, "kmer_dropout": 0.0, "pooled_norm": "running"}


def make_table(count=60):
    """Two genera that differ in their letters."""
    generator = np.random.default_rng(0)
    rows = []
    for number in range(count):
        genus = number % 2
        letters = generator.choice(list("AACGT" if genus else "GGCAT"), generator.integers(20, 80))
        species = f"{'AB'[genus]} {number % 4}"
        rows.append({"sequence": "".join(letters), "genus": "AB"[genus], "species": species})
    return Dataset.from_list(rows)


def make_data(table=None, **changes):
    table = table or make_table()
    classes = {rank: list_classes(table[rank][:]) for rank in ("genus", "species")}
    return RankedSequences(table, DnaTokenizer(), classes, **{"max_length": 50, **changes})


def make_model(row, **changes):
    masked_lm = row.build("masked_lm", **{**KMERS, **changes})
    return TaxonomyPretraining(masked_lm, {"genus": 2, "species": 4}, {"genus": 1, "species": 0.5})


def test_long_sequences_are_cut_anew_in_every_epoch():
    data = make_data()
    assert data.lengths.max() == 50
    longest = int(np.argmax(np.asarray(data.tokens["length"][:])))
    assert len(data[longest]["input_ids"]) == 50
    before = data[longest]["input_ids"].tolist()
    assert data[longest]["input_ids"].tolist() == before
    others = []
    for epoch in range(1, 6):
        data.set_epoch(epoch)
        others.append(data[longest]["input_ids"].tolist())
    assert any(other != before for other in others)


def test_the_other_strand_is_read_as_often_as_asked_for():
    plain, turned = make_data(max_length=100), make_data(max_length=100, strand_probability=1.0)
    table = {5: 8, 6: 7, 7: 6, 8: 5}
    expected = [table[i] for i in plain[3]["input_ids"].tolist()[::-1]]
    assert turned[3]["input_ids"].tolist() == expected


def test_names_that_are_no_class_have_no_label():
    table = make_table()
    assert list_classes(table["genus"][:], unknown=["B"]) == ["A"]
    data = RankedSequences(table, DnaTokenizer(), {"genus": ["A"]}, max_length=50)
    assert set(data.labels["genus"].tolist()) == {0, -100}


def test_batches_hold_hidden_and_original_tokens_and_ranks():
    data = make_data()
    collator = TaxonomyCollator(DnaTokenizer(), ["genus", "species"], mask_probability=(0.1, 0.6))
    batch = collator([data[i] for i in range(5)])
    assert batch["rank_labels"].shape == (5, 2)
    hidden = batch["labels"] != -100
    assert hidden.any()
    assert torch.equal(batch["labels"][hidden], batch["original_ids"][hidden])
    assert torch.equal(batch["input_ids"][~hidden], batch["original_ids"][~hidden])
    collator.set_epoch(3)
    assert not torch.equal(collator([data[0]])["labels"], batch["labels"][:, : data.lengths[0]])
    evaluated = collator.for_evaluation()([data[i] for i in range(5)])
    assert torch.equal(evaluated["input_ids"], batch["input_ids"])


@every_family
def test_the_loss_is_the_weighted_sum_of_its_parts_and_reaches_everything(row):
    model = make_model(row).train()
    data = make_data()
    collator = TaxonomyCollator(DnaTokenizer(), ["genus", "species"], mask_probability=0.3)
    output = model(**collator([data[i] for i in range(8)]))
    expected = output.masked_loss + output.genus_loss + 0.5 * output.species_loss
    torch.testing.assert_close(output.loss.detach(), expected)
    output.loss.backward()
    for name, parameter in model.named_parameters():
        if "layers" not in name:
            assert parameter.grad is not None, name


def test_profiles_are_counted_before_tokens_are_hidden():
    model = make_model(find_row("chordmixer")).eval()
    data = make_data()
    profiles = data.profiles(model.config)
    assert profiles.shape == (60, 16)
    seen = []
    model.masked_lm.model.kmers.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    whole = make_data(max_length=100)
    collator = TaxonomyCollator(DnaTokenizer(), ["genus", "species"], mask_probability=0.5)
    batch = collator([whole[7], whole[8]])
    model(**batch)
    found = seen[0][torch.tensor(whole.lengths[7:9]).argsort(descending=True).argsort()]
    torch.testing.assert_close(found.half(), profiles[7:9])


def test_profiles_learn_alone_and_the_norm_knows_them():
    model = make_model(find_row("chordmixer"))
    data = make_data()
    before = model.masked_lm.model.layers[0].mix.fc1.weight.clone()
    history = train_profiles(model, data, epochs=30, batch_size=20, learning_rate=2e-2)
    assert history[-1]["genus_accuracy"] > 0.95 > history[0]["genus_accuracy"]
    assert torch.equal(model.masked_lm.model.layers[0].mix.fc1.weight, before)
    encoder, norm = model.masked_lm.model.kmers.eval(), model.masked_lm.model.pooled_norm
    made = encoder(data.profiles(model.config).float())
    torch.testing.assert_close(norm.running_mean[-6:], made.mean(0))
    plain = make_model(find_row("chordmixer"), kmer_size=None, pooled_norm="none")
    with pytest.raises(ValueError, match=r"models with config\.kmer_size"):
        train_profiles(plain, data, epochs=1)


def test_encoders_side_by_side_learn_alone():
    model = make_model(find_row("chordmixer"), kmer_encoders=2)
    data = make_data()
    history = train_profiles(model, data, epochs=30, batch_size=20, learning_rate=2e-2)
    assert history[-1]["genus_accuracy"] > 0.95
    encoder, norm = model.masked_lm.model.kmers.eval(), model.masked_lm.model.pooled_norm
    made = encoder(data.profiles(model.config).float())
    torch.testing.assert_close(norm.running_mean[-12:], made.mean(0))
    first, second = made.chunk(2, 1)
    assert not torch.allclose(first, second, atol=0.1)
    genera = torch.from_numpy(data.labels["genus"])
    for vectors in (first, second):
        matrix, bias = regress(vectors.detach(), genera, 2, 1e-4)
        right = (vectors @ matrix.T + bias).argmax(1) == genera
        assert right.float().mean() > 0.9


def test_a_module_can_have_a_learning_rate_of_its_own():
    layers = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)])
    optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-3, weight_decay=0.1)
    set_learning_rate(optimizer, layers[1], 1e-5)
    rates = {id(p): g["lr"] for g in optimizer.param_groups for p in g["params"]}
    assert [rates[id(p)] for p in layers.parameters()] == [1e-3, 1e-3, 1e-5, 1e-5]
    assert optimizer.param_groups[1]["weight_decay"] == 0.1


def test_ranks_and_weights_must_agree():
    with pytest.raises(ValueError, match="Ranks are"):
        TaxonomyPretraining(find_row("chordmixer").build("masked_lm"), {"genus": 2}, {})


def test_a_whole_run_leaves_a_masked_language_model(tmp_path, quiet):
    table = make_table(80)
    table.to_parquet(tmp_path / "genes.parquet")
    common = ["--data", str(tmp_path / "genes.parquet"), "--held_out_share", "0.2"]
    settings = '{"track_size": 3, "max_position_embeddings": 64, "kmer_size": 2}'
    results = pretrain_taxonomy.main(
        [
            *(*common, "--output_dir", str(tmp_path / "run"), "--settings", settings),
            *("--max_steps", "4", "--train_token_budget", "512", "--profile_epochs", "2"),
            *("--use_cpu", "true", "--save_steps", "2", "--logging_steps", "1"),
        ]
    )
    assert len(results["profile_history"]) == 2
    assert np.isfinite(results["validation"]["loss"])
    assert any("genus_loss" in entry for entry in results["history"])
    again = pretrain_taxonomy.main(
        [
            *(*common, "--output_dir", str(tmp_path / "second"), "--profiles_only", "true"),
            *("--checkpoint", str(tmp_path / "run"), "--profile_epochs", "1", "--use_cpu", "true"),
            *("--settings", '{"kmer_phases": 3}'),
        ]
    )
    # two thirds of three times as many words are new
    width = 2 * again["config"].get("kmer_hidden_size", 128)
    assert again["parameters"] == results["parameters"] + 2 * 4**2 * width
    assert again["validation"] == {}


def test_the_k_mer_part_learns_from_pieces_of_either_strand():
    data = make_data(max_length=100)
    model = make_model(find_row("chordmixer"), kmer_strands="both", kmer_phases=1)
    whole = data.profiles(model.config)
    pieces = [data.profiles(model.config, (10, 20), epoch) for epoch in (0, 0, 1)]
    assert torch.equal(pieces[0], pieces[1])
    assert not torch.equal(pieces[0], pieces[2])
    # of fewer words, more are missing
    assert (pieces[0] == 0).sum() > (whole == 0).sum()
    # pieces as long as any sequence are sequences, whose strands have the same words
    torch.testing.assert_close(data.profiles(model.config, (100, 100)), whole)
    history = train_profiles(model, data, epochs=6, batch_size=20, lengths=(15, 60))
    assert history[-1]["genus_loss"] < history[0]["genus_loss"]


def test_bounds_of_pieces_are_checked(tmp_path):
    make_table().to_csv(str(tmp_path / "genes.csv"))
    with pytest.raises(ValueError, match="profile_lengths are the shortest and the longest"):
        pretrain_taxonomy.main(
            [
                *("--data", str(tmp_path / "genes.csv"), "--output_dir", str(tmp_path / "run")),
                *("--settings", '{"kmer_size": 2, "track_size": 4, "intermediate_size": 8}'),
                *("--profile_epochs", "1", "--profile_lengths", "50", "20", "--use_cpu", "true"),
            ]
        )
