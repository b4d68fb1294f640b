"""Fine-tuning of pre-trained models adapts to the size of the data, and to nothing that was set."""

import sys

import numpy as np
import pytest
import torch
from datasets import Dataset, DatasetDict
from transformers import HfArgumentParser

from hf_mixers import (
    ChordMixerConfig,
    ChordMixerForMaskedLM,
    ChordMixerForSequenceClassification,
    DnaTokenizer,
)
from hf_mixers.data import SplitOptions, load_embedded
from hf_mixers.models.dna import reverse_complement
from hf_mixers.recipes import FinetuneArguments, FinetuneOptions, finetune
from hf_mixers.recipes.adapt import (
    FIELDS,
    PIECES,
    TRAINING,
    WITHOUT_FRAME,
    adapt_arguments,
    adapt_fields,
    adapt_parts,
    choose_epochs,
    warn_of_head_alone,
)
from hf_mixers.recipes.configuration import Configuration, save_run
from hf_mixers.recipes.finetune import FinetuneEvaluation
from hf_mixers.recipes.head_start import find_resume
from hf_mixers.recipes.labelled_dna import DataOptions
from hf_mixers.recipes.models import load_checkpoint
from hf_mixers.recipes.options import CheckpointOptions, settle


def arguments(tmp_path, **changes):
    return FinetuneArguments(output_dir=str(tmp_path), use_cpu=True, **changes)


def test_smaller_data_are_read_more_often():
    epochs = [choose_epochs(tokens) for tokens in (10**5, 10**6, 10**7, 10**8)]
    assert epochs == sorted(epochs, reverse=True)
    assert epochs[0] == 12
    assert epochs[-1] == 1


def test_checkpoints_get_their_own_defaults_and_new_models_keep_theirs(tmp_path):
    given = arguments(tmp_path)
    adapted = adapt_arguments(given, CheckpointOptions(checkpoint="some"), 5_000_000)
    assert {name: getattr(adapted, name) for name in TRAINING} == TRAINING
    assert adapted.num_train_epochs == 2.8
    for model in (CheckpointOptions(), CheckpointOptions(checkpoint="some", frozen=True)):
        assert adapt_arguments(given, model, 5_000_000) is given


def test_models_that_have_learned_classes_get_a_head_and_no_epochs(tmp_path):
    stored = {"pooled_norm": "running"}
    options = CheckpointOptions(checkpoint="some")
    assert adapt_arguments(arguments(tmp_path), options, 100, stored).num_train_epochs == 0
    asked = arguments(tmp_path, num_train_epochs=2)
    assert adapt_arguments(asked, options, 100, stored).num_train_epochs == 2
    without = CheckpointOptions(checkpoint="some", head_start=False)
    assert adapt_arguments(arguments(tmp_path), without, 100, stored).num_train_epochs == 12
    plain = {"pooled_norm": "none"}
    assert adapt_arguments(arguments(tmp_path), options, 100, plain).num_train_epochs == 12


def test_what_is_set_stays(tmp_path):
    given = arguments(tmp_path, learning_rate=5e-4, num_train_epochs=2)
    adapted = adapt_arguments(given, CheckpointOptions(checkpoint="some"), 100)
    assert (adapted.learning_rate, adapted.num_train_epochs) == (5e-4, 2)
    assert adapted.muon_learning_rate == TRAINING["muon_learning_rate"]
    options = CheckpointOptions(checkpoint="some", settings='{"token_dropout": 0.3}')
    assert adapt_fields(options, {"mask_token_id": 4}) == {"classifier_dropout": 0.2}


def test_what_is_set_stays_also_where_it_is_the_default_of_new_models(tmp_path):
    defaults = {name: getattr(arguments(tmp_path), name) for name in TRAINING}
    given = arguments(tmp_path, **{name: v + 0 for name, v in defaults.items()}, num_train_epochs=6)
    options = CheckpointOptions(checkpoint="some")
    adapted = adapt_arguments(given, options, 100, {"pooled_norm": "running"})
    assert {name: getattr(adapted, name) for name in TRAINING} == defaults
    assert adapted.num_train_epochs == 6
    # as a script and as a file of the run give them
    parser = HfArgumentParser(FinetuneArguments)
    words = ["--output_dir", str(tmp_path), "--use_cpu", "--weight_decay", "0"]
    (parsed,) = parser.parse_args_into_dataclasses(words)
    save_run(tmp_path / "run.yaml", FinetuneOptions(), parsed)
    read = Configuration(FinetuneOptions, FinetuneArguments)
    read.read(tmp_path / "run.yaml")
    read.put("training.output_dir", str(tmp_path))
    plain = settle(parsed)
    assert {type(getattr(plain, name)) for name in TRAINING} == {int, float}
    assert all(getattr(plain, name) == value for name, value in defaults.items())
    for found in (parsed, read.build()[1]):
        adapted = adapt_arguments(found, options, 100)
        assert adapted.weight_decay == 0
        assert adapted.learning_rate == TRAINING["learning_rate"]


def test_a_part_that_is_new_is_trained(tmp_path):
    stored = {"pooled_norm": "running", "pooling": "mean"}
    for pooling, epochs in (("mean", 0), ("attention", 12)):
        options = CheckpointOptions(checkpoint="some", settings={"pooling": pooling})
        assert adapt_arguments(arguments(tmp_path), options, 9, stored).num_train_epochs == epochs


def test_settings_without_effect_are_named(tmp_path, caplog):
    adapted = adapt_arguments(
        arguments(tmp_path, learning_rate=5e-4, layer_learning_rate_decay=0.8),
        CheckpointOptions(checkpoint="some"),
        100,
        {"pooled_norm": "running"},
    )
    warn_of_head_alone(adapted, DataOptions(token_dropout=0.1))
    assert "a new head, fitted to its vectors: --epochs 1 trains all" in caplog.text
    assert "no use for learning_rate, layer_learning_rate_decay, token_dropout." in caplog.text
    caplog.clear()
    warn_of_head_alone(arguments(tmp_path), DataOptions(token_dropout=0.1))
    assert not caplog.text


def test_smoothing_gives_way_to_class_weights_and_hiding_to_models_without_a_mask(tmp_path):
    options = CheckpointOptions(checkpoint="some", class_weights=True)
    assert adapt_arguments(arguments(tmp_path), options, 100).label_smoothing_factor == 0
    assert "token_dropout" not in adapt_fields(options, {"mask_token_id": None})
    frozen = CheckpointOptions(checkpoint="some", frozen=True)
    assert adapt_fields(frozen, {"mask_token_id": 4}) == {}


PHASED = {"mask_token_id": 4, "kmer_size": 4, "kmer_phases": 3}


def test_sequences_without_a_reading_frame_get_words_of_both_strands():
    genes = load_embedded().select(range(0, 9000, 90))["sequence"][:]
    turned = [reverse_complement(gene) for gene in genes]
    options = CheckpointOptions(checkpoint="some")
    assert adapt_fields(options, PHASED, genes) == FIELDS
    assert adapt_fields(options, PHASED, turned) == {**FIELDS, **WITHOUT_FRAME}
    # what is set stays, and models that do not count by codon position know no frame
    for name, value in (("kmer_encoders", 2), ("kmer_phases", 3)):
        chosen = CheckpointOptions(checkpoint="some", settings={name: value})
        assert adapt_fields(chosen, PHASED, turned) == FIELDS
    for stored in ({}, {"kmer_phases": 1, "kmer_size": 4}, {"kmer_phases": 3, "kmer_size": None}):
        assert adapt_fields(options, {"mask_token_id": 4, **stored}, turned) == FIELDS


def test_long_sequences_without_a_reading_frame_are_learned_from_in_a_few_pieces(caplog):
    longest, most = PIECES
    chance = np.random.default_rng(0)
    texts = ["".join(chance.choice(list("ACGT"), length)) for length in (50_000, 30_000, 900)]
    rows = Dataset.from_dict({"id": list("abc"), "sequence": texts})
    rows = rows.add_column("length", list(map(len, texts)))
    parts = DatasetDict(train=rows, test=rows)
    adapted = adapt_fields(CheckpointOptions(checkpoint="some"), PHASED, texts)
    made = adapt_parts(DataOptions(), adapted, parts, seed=0)
    assert made["test"][:] == rows[:], "others are read whole"
    assert [name[0] for name in made["train"]["id"]] == ["a"] * most + ["b"] * most + ["c"]
    assert max(made["train"]["length"]) <= longest + 100
    assert "are cut into pieces, of which at most 5 of each" in caplog.text
    known = {"kmer_size": 5, "kmer_strands": "both"}
    assert adapt_parts(DataOptions(), known, parts, seed=0)["train"][:] == made["train"][:]
    short = DatasetDict(train=rows.select([2]))
    cut = DataOptions(data=["x"], cut_training=60_000)
    for kept in (
        adapt_parts(DataOptions(), FIELDS, parts, seed=0),
        adapt_parts(DataOptions(), adapted, short, seed=0),
        adapt_parts(cut, adapted, parts, seed=0),
    ):
        assert kept in (parts, short)


def write_reads(file):
    """Random sequences of two classes, which differ in their letters."""
    chance = np.random.default_rng(0)
    weights = [0.2, 0.3, 0.3, 0.2], [0.3, 0.2, 0.2, 0.3]
    rows = [
        f">r{number} class={'AT' if number % 2 else 'GC'}\n"
        + "".join(chance.choice(list("ACGT"), 90, p=weights[number % 2]))
        for number in range(120)
    ]
    file.write_text("\n".join(rows) + "\n")
    return str(file)


def test_a_phased_checkpoint_is_fine_tuned_on_sequences_without_a_frame(tmp_path):
    kmers = {"kmer_size": 2, "kmer_phases": 3, "kmer_hidden_size": 8}
    config = ChordMixerConfig(vocab_size=20, track_size=4, intermediate_size=8, **kmers)
    ChordMixerForMaskedLM(config).save_pretrained(tmp_path / "start")
    DnaTokenizer().save_pretrained(tmp_path / "start")
    file = write_reads(tmp_path / "reads.fa")
    finetune(
        FinetuneOptions(
            CheckpointOptions(checkpoint=str(tmp_path / "start")),
            DataOptions(data=[file], label_pattern=r"class=(\w+)"),
            evaluation=FinetuneEvaluation(baselines=["none"]),
        ),
        arguments(tmp_path / "run", num_train_epochs=0.1),
    )
    made = ChordMixerForSequenceClassification.from_pretrained(tmp_path / "run").config
    assert {name: getattr(made, name) for name in WITHOUT_FRAME} == WITHOUT_FRAME


@pytest.fixture
def start(tmp_path):
    """A checkpoint whose pooled vectors have learned classes, as it says."""
    kmers = {"kmer_size": 3, "kmer_hidden_size": 8, "pooled_norm": "running"}
    config = ChordMixerConfig(vocab_size=20, track_size=4, intermediate_size=8, **kmers)
    ChordMixerForMaskedLM(config).save_pretrained(tmp_path / "start")
    DnaTokenizer().save_pretrained(tmp_path / "start")
    return tmp_path / "start"


def test_the_better_stage_is_kept_by_a_run_that_goes_on_too(start, tmp_path):
    def run(folder, **changes):
        # rates that harm what the head has learned
        given = {"num_train_epochs": 2, "learning_rate": 0.5, "muon_learning_rate": 0.5}
        results = finetune(
            FinetuneOptions(
                CheckpointOptions(checkpoint=str(start)),
                DataOptions(train_fraction=0.02),
                evaluation=FinetuneEvaluation(baselines=["none"], report_on="validation"),
            ),
            arguments(folder, **given, **changes),
        )
        weights = ChordMixerForSequenceClassification.from_pretrained(folder).state_dict()
        return results["validation"]["model"]["overall"]["accuracy"]["value"], weights

    def stop(*args):
        raise KeyboardInterrupt

    whole, weights = run(tmp_path / "whole")
    assert not (tmp_path / "whole" / "head_start").exists()
    with pytest.MonkeyPatch.context() as patch:
        # after the last epoch, before the stages are compared
        patch.setattr(sys.modules["hf_mixers.recipes.finetune"], "keep_better", stop)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "stopped")
    again, others = run(tmp_path / "stopped", resume_from_checkpoint="true")
    assert again == whole
    for name, value in weights.items():
        torch.testing.assert_close(value, others[name])
    with pytest.raises(ValueError, match="holds the results of a finished run"):
        run(tmp_path / "stopped")


def test_a_run_that_was_stopped_in_its_first_stage_begins_anew(tmp_path, caplog):
    given, goes_on = find_resume(arguments(tmp_path, resume_from_checkpoint="true"), tmp_path / "x")
    assert not goes_on
    assert given.resume_from_checkpoint is None
    assert "no complete checkpoint: the run begins anew" in caplog.text
    with pytest.raises(ValueError, match="x is missing"):
        find_resume(arguments(tmp_path, resume_from_checkpoint="somewhere"), tmp_path / "x")


def test_a_head_alone_needs_no_validation_rows(start, tmp_path):
    results = finetune(
        FinetuneOptions(
            CheckpointOptions(checkpoint=str(start)),
            DataOptions(data=[write_reads(tmp_path / "reads.fa")], label_pattern=r"class=(\w+)"),
            SplitOptions(validation_fraction=0),
            FinetuneEvaluation(baselines=["none"]),
        ),
        arguments(tmp_path / "run"),
    )
    assert "loss" not in results["history"][-1]
    assert results["test"]["model"]["overall"]["accuracy"]["value"] > 0.5
    assert not (tmp_path / "run" / "history.png").exists()


def test_none_is_no_number_of_a_checkpoint(start):
    options = CheckpointOptions(checkpoint=str(start), settings={"kmer_size": "none"})
    assert load_checkpoint(options, {"num_labels": 2}).config.kmer_size is None
    options = CheckpointOptions(checkpoint=str(start), settings={"kmer_size": "many"})
    with pytest.raises(ValueError, match="kmer_size"):
        load_checkpoint(options, {"num_labels": 2})
