"""Cards say what the reports say, and their code runs."""

import re

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    ViTForImageClassification,
)

from hf_mixers import (
    DnaTokenizer,
    MrsFormerConfig,
    MrsFormerForImageClassification,
    MrsFormerForSequenceClassification,
)
from hf_mixers.baselines.peer_configs import peer_config
from hf_mixers.baselines.peers import (
    PeerForSequenceClassification,
    PeerForSequencePairClassification,
)
from hf_mixers.metrics import classification_report, regression_report
from hf_mixers.reporting.card import make_card
from hf_mixers.reporting.environment import run_environment
from hf_mixers.reporting.markup import escape, format_number
from tests.families import HEADS, ROWS, every_family, every_head, find_row

ARGUMENTS = {"dataset_name": "someone/two_genera", "task": "text-classification"}


def make_report(seed=0):
    chance = np.random.default_rng(seed)
    labels, lengths = chance.integers(2, size=200), chance.integers(9, 2000, size=200)
    scores = labels + chance.normal(size=200)
    return classification_report(
        scores, labels, lengths, num_bootstrap=50, class_names=["Mus", "Rattus"]
    )


@pytest.fixture
def model():
    return ROWS[0].build("sequence_classification")


def run_code(card, monkeypatch, folder, is_ours=True):
    (code,) = re.findall(r"```python\n(.*?)```", card.text, re.S)
    assert ("import hf_mixers" in code) == is_ours
    monkeypatch.chdir(folder)
    names = {}
    exec(code, names)
    return names["output"]


def shown(metric):
    return f"{metric['value']:.3f} [{metric['low']:.3f}, {metric['high']:.3f}]"


def row_of(card, start):
    """The cells of the one row of a table that starts in this way."""
    (row,) = (line for line in card.text.splitlines() if line.startswith(f"| {start} |"))
    return [cell.strip() for cell in row.strip("|").split("|")][1:]


def test_results_are_exactly_those_of_the_reports(model):
    report, baseline = make_report(0), make_report(1)
    card = make_card(model, report=report, baselines={"6-mers": baseline}, **ARGUMENTS)
    assert row_of(card, "this model") == [shown(m) for m in report["overall"].values()]
    assert row_of(card, "6-mers") == [shown(m) for m in baseline["overall"].values()]
    results = {result.metric_type: result for result in card.data.eval_results}
    assert set(results) == {
        "accuracy",
        "balanced_accuracy",
        "f1",
        "matthews_correlation",
        "roc_auc",
    }
    assert results["roc_auc"].metric_value == report["overall"]["roc_auc"]["value"]
    assert results["matthews_correlation"].metric_value == report["overall"]["mcc"]["value"]


def test_every_bin_has_its_row(model):
    report = make_report()
    card = make_card(model, report=report, **ARGUMENTS)
    for part in report["by_length"]:
        cells = row_of(card, f"{part['from_percentile']:g} to {part['to_percentile']:g}")
        assert cells[:2] == [
            f"{part['min_length']:,} to {part['max_length']:,}",
            f"{part['count']}",
        ]
        value = part["roc_auc"]["value"]
        # an interval of fewer than ten rows says nothing
        end = " [" if part["count"] >= 10 else ""
        assert cells[-1].startswith("undefined" if value is None else f"{value:.3f}{end}")
        assert ("[" in cells[-1]) == (part["count"] >= 10 and value is not None)
    assert {part["count"] < 10 for part in report["by_length"]} == {True, False}
    assert "Bins of fewer than 10 rows have no interval." in card.text


def test_numbers_of_the_card_come_from_its_arguments(model):
    """All decimals but the versions are in the reports."""
    report, baseline = make_report(0), make_report(1)
    card = make_card(
        model, report=report, baselines={"other": baseline}, versions={}, training={}, **ARGUMENTS
    )
    known = set()
    for given in (report, baseline):
        for metrics in (given["overall"], *given["by_length"]):
            for metric in metrics.values():
                if isinstance(metric, dict):
                    known |= {format_number(number) for number in metric.values()}
                else:
                    known.add(f"{metric:g}")
        for one in given["by_class"]:
            known |= {format_number(one[name]) for name in ("precision", "recall", "f1")}
    assert set(re.findall(r"-?\d+\.\d+", card.text)) <= known


def test_metadata_survives_the_way_to_the_hub(model, tmp_path):
    card = make_card(model, report=make_report(), base_model="org/base", license="mit", **ARGUMENTS)
    card.save(tmp_path / "README.md")
    data = ModelCard.load(tmp_path / "README.md").data
    assert data.library_name == "transformers"
    assert data.pipeline_tag == "text-classification"
    assert data.license == "mit"
    assert data.base_model == "org/base"
    assert "chordmixer" in data.tags
    assert data.datasets == ["someone/two_genera"]
    assert data.eval_results == card.data.eval_results
    assert "model-index" in data.to_dict()


@every_family
@every_head
def test_code_runs_beside_the_checkpoint(row, head, monkeypatch, tmp_path):
    model = row.build(head)
    model.save_pretrained(tmp_path)
    DnaTokenizer().save_pretrained(tmp_path)
    card = make_card(model, report={"accuracy": 0.5}, **ARGUMENTS)
    assert len(run_code(card, monkeypatch, tmp_path)) == 2


@pytest.mark.parametrize(
    ("head", "settings"),
    [
        ("sequence_classification", {"input_features": 3}),
        ("sequence_pair_classification", {"input_features": 3}),
        ("sequence_pair_classification", {"num_tasks": 4}),
    ],
)
def test_code_runs_for_other_inputs(head, settings, monkeypatch, tmp_path):
    assert head in HEADS
    model = ROWS[0].build(head, **settings)
    model.save_pretrained(tmp_path)
    DnaTokenizer().save_pretrained(tmp_path)
    card = make_card(model, report={"accuracy": 0.5}, **ARGUMENTS)
    assert len(run_code(card, monkeypatch, tmp_path)) == 2


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({}, "Built for up to 2,048 tokens"),
        ({"position_embedding_type": "absolute"}, "Reads up to 2,048 tokens; longer sequences are"),
        (
            {"pooling": "flat", "max_position_embeddings": 64},
            "Reads sequences of exactly 64 tokens",
        ),
        ({"pooling": "flat", "max_position_embeddings": 64, "input_features": 2}, "exactly 64"),
    ],
)
@pytest.mark.parametrize("has_tokenizer", [True, False])
def test_code_and_limits_follow_the_settings(settings, limit, has_tokenizer, monkeypatch, tmp_path):
    model = ROWS[1].build("sequence_classification", **settings)
    model.save_pretrained(tmp_path)
    if has_tokenizer:
        DnaTokenizer().save_pretrained(tmp_path)
    card = make_card(model, report={"accuracy": 0.5}, has_tokenizer=has_tokenizer, **ARGUMENTS)
    assert limit in card.text
    assert ("AutoTokenizer" in card.text) == (has_tokenizer and "input_features" not in settings)
    assert len(run_code(card, monkeypatch, tmp_path)) == 2


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({}, "Built for up to 2,048 tokens; longer sequences are read as well."),
        ({"attention_type": "linformer"}, "Reads up to 2,048 tokens; longer sequences are refused"),
    ],
)
def test_limits_of_attention_are_those_of_its_kind(settings, limit):
    model = find_row("mrsformer").build("sequence_classification", **settings)
    assert limit in make_card(model, report={"accuracy": 0.5}, **ARGUMENTS).text


def test_folders_and_files_are_not_taken_for_names_on_the_hub(model, monkeypatch, tmp_path):
    (tmp_path / "runs" / "mlm").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    names = {**ARGUMENTS, "dataset_name": "genes.fa in mine"}
    for base in ("runs/mlm", str(tmp_path)):
        data = make_card(model, report=make_report(), base_model=base, **names).data.to_dict()
        assert "base_model" not in data
        assert "datasets" not in data


@pytest.mark.parametrize(
    ("head", "settings", "built_for"),
    [
        (
            MrsFormerForImageClassification,
            {"image_size": 8, "patch_size": 2, "num_channels": 1},
            "images of 8 x 8 pixels in 1 channels",
        ),
        (
            MrsFormerForSequenceClassification,
            {"num_numeric_features": 2, "category_sizes": [3, 4, 5]},
            "tables with 2 columns of numbers and 3 of categories",
        ),
        (
            MrsFormerForSequenceClassification,
            {"category_sizes": [3]},
            "tables with 0 columns of numbers and 1 of categories",
        ),
    ],
)
def test_code_runs_for_images_and_tables(head, settings, built_for, monkeypatch, tmp_path):
    model = head(MrsFormerConfig(**settings))
    model.save_pretrained(tmp_path)
    notes = ["Wash your hands."]
    card = make_card(model, report={"accuracy": 0.5}, notes=notes, **ARGUMENTS)
    assert built_for in card.text
    assert "tokens; in longer" not in card.text
    assert notes[0] in card.text
    assert len(run_code(card, monkeypatch, tmp_path)) == 2


def test_pictures_lie_beside_the_card(model, tmp_path):
    plots = {"by length": tmp_path / "by_length.png", "course": "figures/course.png"}
    card = make_card(model, report=make_report(), plots=plots, **ARGUMENTS)
    assert "![by length](by_length.png)" in card.text
    assert "![course](figures/course.png)" in card.text
    card = make_card(model, report=make_report(), plots=[tmp_path / "by_length.png"], **ARGUMENTS)
    assert "![by length](by_length.png)" in card.text


def test_settings_of_the_run_are_in_the_card(model):
    training = {"learning_rate": 5e-4, "seed": 11, "note": "a|b"}
    card = make_card(model, report=make_report(), training=training, **ARGUMENTS)
    assert row_of(card, "learning rate") == ["0.0005"]
    assert row_of(card, "seed") == ["11"]
    assert "| a\\|b |" in card.text
    assert row_of(card, "parameters") == [f"{model.num_parameters():,}"]
    assert row_of(card, "torch") == [str(torch.__version__)]
    assert row_of(card, "threads") == [str(torch.get_num_threads())]


def test_environment_of_another_machine_is_kept(model):
    versions = run_environment(seed=4)
    versions["machine"]["cpu"] = "another one"
    card = make_card(model, report=make_report(), versions=versions, **ARGUMENTS)
    assert row_of(card, "cpu") == ["another one"]
    assert row_of(card, "seed") == ["4"]


def test_regression_and_plain_numbers_make_cards_too(model):
    report = regression_report([0.5, 1.0, 0.2], [0.52, 1.1, 0.2], [5, 6, 7], num_bootstrap=9)
    card = make_card(model, report=report, **ARGUMENTS)
    assert {result.metric_type for result in card.data.eval_results} >= {"mse", "r_squared"}
    flat = {"accuracy": 0.5123, "perplexity": 3.25, "count": 1000}
    card = make_card(model, report=flat, baselines={"order 0": flat}, **ARGUMENTS)
    assert row_of(card, "this model") == row_of(card, "order 0") == ["0.512", "3.250"]
    assert "Rows: test 1,000." in card.text


def test_report_without_metrics_is_refused(model):
    with pytest.raises(ValueError, match=r"report with metrics, got the keys \['count'\]\.$"):
        make_card(model, report={"count": 3}, **ARGUMENTS)


# models of transformers, whether they lie next to a tokenizer, and what the card says about them
OTHERS = [
    (BertForSequenceClassification, True, "sequences of up to 64 tokens", "AutoModelForSequence"),
    (BertForMaskedLM, False, "sequences of up to 64 tokens", "AutoModelForMaskedLM"),
    (BertModel, False, "sequences of up to 64 tokens", "AutoModel."),
    (ViTForImageClassification, False, "images of 8 x 8 pixels", "AutoModelForImageClass"),
]


@pytest.mark.parametrize(("kind", "has_tokenizer", "built_for", "auto"), OTHERS)
def test_any_model_of_transformers_has_a_card(
    kind, has_tokenizer, built_for, auto, monkeypatch, tmp_path
):
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    places = (
        {"max_position_embeddings": 64}
        if "Bert" in kind.__name__
        else {"image_size": 8, "patch_size": 4}
    )
    model = kind(kind.config_class(**sizes, **places))
    model.save_pretrained(tmp_path)
    if has_tokenizer:
        DnaTokenizer().save_pretrained(tmp_path)
    card = make_card(
        model, report=make_report(), has_tokenizer=has_tokenizer, examples=["AC", "G"], **ARGUMENTS
    )
    assert built_for in card.text
    assert auto in card.text
    assert "package hf_mixers" not in card.text
    assert "long-sequences" not in card.data.tags
    assert len(run_code(card, monkeypatch, tmp_path, is_ours=False)) == 2


def test_a_model_without_auto_class_is_loaded_by_its_own(monkeypatch, tmp_path):
    model = BertForMaskedLM(
        BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, vocab_size=9)
    )

    class Mine(BertForMaskedLM):
        pass

    card = make_card(Mine(model.config), report={"accuracy": 0.5}, **ARGUMENTS)
    assert "model = Mine.from_pretrained(checkpoint)" in card.text


@pytest.mark.parametrize(
    ("kind", "fields", "registered"),
    [
        (PeerForSequenceClassification, {"vocab_size": 12}, True),
        (PeerForSequenceClassification, {"input_features": 3}, True),
        (PeerForSequencePairClassification, {"vocab_size": 12, "num_tasks": 2}, False),
    ],
)
def test_peers_of_the_arena_have_cards(kind, fields, registered, monkeypatch, tmp_path):
    peer = kind(peer_config("bert", max_length=64, num_labels=2, **fields))
    peer.save_pretrained(tmp_path)
    card = make_card(peer, report=make_report(), has_tokenizer=False, **ARGUMENTS)
    assert "Its trunk is a `bert` of transformers" in card.text
    assert "sequences of up to 64 " + ("steps" if "input_features" in fields else "tokens") in (
        card.text
    )
    assert "long-sequences" not in card.data.tags
    assert run_code(card, monkeypatch, tmp_path, is_ours=registered).shape == (2, 2)


def test_no_licence_is_claimed_unless_given(model):
    card = make_card(model, report=make_report(), **ARGUMENTS)
    assert "license" not in card.data.to_dict()
    assert "apache" not in str(card)
    assert make_card(model, report=make_report(), license="mit", **ARGUMENTS).data.license == "mit"


def test_a_smoke_run_says_so_and_has_no_results_for_the_hub(model):
    plain = make_card(model, report=make_report(), **ARGUMENTS)
    card = make_card(model, report=make_report(), smoke=True, **ARGUMENTS)
    assert "Smoke run" in card.text
    assert "Smoke run" not in plain.text
    assert "model-index" not in card.data.to_dict()
    assert "metrics" not in card.data.to_dict()
    assert "model-index" in plain.data.to_dict()


def test_names_with_markup_and_newlines_stay_names(model, tmp_path):
    evil = "x\n---\nlicense: mit\n# Title <script>alert(1)</script> | a [link](http://bad) `c` *b*"
    report = make_report()
    report["by_class"][0]["name"] = evil
    report["f1_of"] = evil
    card = make_card(
        model,
        report=report,
        dataset_name=evil,
        task="text-classification",
        baselines={evil: make_report(1)},
        base_model=evil,
        training={evil: evil},
        plots={evil: "history.png"},
    )
    card.save(tmp_path / "README.md")
    loaded = ModelCard.load(tmp_path / "README.md")
    assert "license" not in loaded.data.to_dict()
    assert not re.search(r"(?<!\\)<script", card.text)
    assert not re.search(r"(?<!\\)\[link", card.text)
    titles = [line for line in card.text.splitlines() if line.startswith("# ")]
    assert titles == [f"# {type(model).__name__} on {escape(evil)}"]
    # no bar of a name ends a cell
    for line in card.text.splitlines():
        if line.startswith("| ") and "Title" in line and "x " in line[:6]:
            head = card.text.splitlines().index(line)
            bars = len(re.findall(r"(?<!\\)\|", line))
            before = card.text.splitlines()[head - 1]
            assert bars == len(re.findall(r"(?<!\\)\|", before))


def test_paths_of_the_machine_are_base_names(model, tmp_path):
    base = tmp_path / "runs" / "mlm"
    base.mkdir(parents=True)
    names = {**ARGUMENTS, "dataset_name": f"{tmp_path}/secret place/genes.fa"}
    card = make_card(model, report=make_report(), base_model=str(base), **names)
    assert str(tmp_path) not in str(card)
    assert "secret place" not in str(card)
    assert "on genes.fa" in card.text
    assert "It started from mlm." in card.text


def test_f1_says_of_which_class(model):
    card = make_card(model, report=make_report(), **ARGUMENTS)
    assert "F1 (Rattus)" in row_of(card, "")
    results = {result.metric_type: result for result in card.data.eval_results}
    assert results["f1"].metric_name == "F1 (Rattus)"
    scores = np.random.default_rng(0).normal(size=(30, 3))
    three = classification_report(scores, np.arange(30) % 3, num_bootstrap=0)
    assert "F1 (macro)" in row_of(make_card(model, report=three, **ARGUMENTS), "")


def test_classes_and_parts_are_in_the_card(model):
    report = make_report()
    sizes = {"train": 1200, "validation": 100, "test": 200}
    card = make_card(model, report=report, sizes=sizes, **ARGUMENTS)
    assert "Rows: train 1,200, validation 100, test 200." in card.text
    for one in report["by_class"]:
        shown_numbers = [f"{one[name]:.3f}" for name in ("precision", "recall", "f1")]
        assert row_of(card, one["name"]) == [str(one["count"]), *shown_numbers]
