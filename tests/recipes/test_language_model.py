"""Language models: n-grams, windows, labels, and a run from file to report."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch

from hf_mixers import DnaTokenizer
from hf_mixers.baselines.ngrams import NgramBaseline
from hf_mixers.data import (
    CausalLMCollator,
    FlatCollator,
    PaddedCollator,
    TokenWindows,
    hold_out_ends,
)
from hf_mixers.recipes.language_model import (
    build_language_model,
    count_characters,
    encode_parts,
    load_texts,
    make_collator,
    make_tokenizer,
)
from tests.examples.example_runs import load


@pytest.mark.parametrize("order", [0, 1, 3])
def test_probabilities_of_n_grams_sum_to_one(order):
    generator = np.random.default_rng(0)
    model = NgramBaseline(order, 4).fit([generator.integers(4, size=60), np.array([1, 2])])
    context = generator.integers(4, size=6)
    chances = [model.predict(np.append(context, token))[-1] for token in range(4)]
    assert sum(chances) == pytest.approx(1)
    assert min(chances) > 0


def test_n_grams_learn_what_follows():
    text = np.tile([0, 1, 2, 1], 50)
    scores = [NgramBaseline(order, 3).fit([text]).score([text])["loss"] for order in (0, 1, 2)]
    assert scores[0] == pytest.approx(1.5 * np.log(2), rel=0.02)
    assert scores[1] == pytest.approx(0.5 * np.log(2), rel=0.1)
    assert scores[2] < 0.1


def test_n_grams_refuse_what_they_cannot_count():
    with pytest.raises(ValueError, match="got 8 and 256"):
        NgramBaseline(8, 256)
    with pytest.raises(ValueError, match="needs sequences with tokens"):
        NgramBaseline(1, 4).fit([])
    with pytest.raises(ValueError, match="after fit"):
        NgramBaseline(1, 4).predict(np.array([1, 2]))


def test_windows_in_order_hold_every_token_once():
    texts = [np.arange(10), np.arange(100, 105), np.array([7])]
    windows = TokenWindows(texts, 4)
    found = [windows[index]["input_ids"].tolist() for index in range(len(windows))]
    assert found == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [100, 101, 102, 103]]
    assert windows.lengths.tolist() == [4, 4, 2, 4]


def test_random_windows_follow_from_seed_epoch_and_index():
    texts = [np.arange(50), np.arange(100, 103)]
    first, again = (TokenWindows(texts, 8, num_windows=200, seed=1) for _ in range(2))
    rows = [first[index]["input_ids"].tolist() for index in range(200)]
    assert rows == [again[index]["input_ids"].tolist() for index in range(200)]
    starts = {row[0] for row in rows}
    assert starts <= {*range(43), 100}
    assert len(starts) > 35
    again.set_epoch(1)
    assert rows != [again[index]["input_ids"].tolist() for index in range(200)]


def test_the_ends_of_texts_are_held_out():
    parts = hold_out_ends([np.arange(100), np.arange(20)], 0.1)
    assert [len(part) for part in parts["train"]] == [80, 16]
    assert parts["test"][0].tolist() == list(range(90, 100))
    joined = np.concatenate([parts[name][0] for name in ("train", "validation", "test")])
    assert joined.tolist() == list(range(100))


def test_labels_count_what_is_predicted():
    examples = [{"input_ids": [5, 6, 7]}, {"input_ids": [8, 5]}]
    flat = CausalLMCollator(FlatCollator())(examples)
    assert flat["labels"].tolist() == [[-100, 6, 7, -100, 5]]
    padded = CausalLMCollator(PaddedCollator())(examples)
    assert padded["labels"].tolist() == [[-100, 6, 7], [-100, 5, -100]]
    model = build_language_model("combiner", "causal", DnaTokenizer(), 16, {"hidden_size": 16})
    losses = [model.eval()(**batch).loss for batch in (flat, padded)]
    torch.testing.assert_close(*losses)


def test_files_are_read_by_part(tmp_path):
    table = pa.table({"text": ["ab", "cd", "ef"], "split": ["train", "val", "test"]})
    parquet.write_table(table, tmp_path / "texts.parquet")
    texts = load_texts(tmp_path / "texts.parquet")
    assert texts == {"train": ["ab"], "validation": ["cd"], "test": ["ef"]}
    with pytest.raises(ValueError, match="has the columns text, split, not words"):
        load_texts(tmp_path / "texts.parquet", text_column="words")
    with gzip.open(tmp_path / "two.fa.gz", "wt") as file:
        file.write(">a x\nACG\nTT\n>b\nGG\n")
    assert load_texts(tmp_path / "two.fa.gz") == {"all": ["ACGTT", "GG"]}
    (tmp_path / "marked.ffn").write_bytes(b"\xef\xbb\xbf>a\nACG\n>b\nTT\n")
    assert load_texts(tmp_path / "marked.ffn") == {"all": ["ACG", "TT"]}
    (tmp_path / "reads.fq").write_text("@a\nACG\n+\nIII\n")
    assert load_texts(tmp_path / "reads.fq") == {"all": ["ACG"]}
    (tmp_path / "latin.txt").write_bytes("é".encode("latin-1"))
    with pytest.raises(ValueError, match="is not UTF-8 text"):
        load_texts(tmp_path / "latin.txt")
    (tmp_path / "plain.txt").write_text("héllo" * 20)
    texts = load_texts(tmp_path / "plain.txt")
    for kind, size in (("char", 100), ("byte", 120)):
        parts = encode_parts(texts, make_tokenizer(kind, texts["all"]))
        assert sum(len(parts[name][0]) for name in parts) == size


def test_bases_are_read_without_white_space_and_text_is_refused():
    tokenizer = DnaTokenizer()
    parts = encode_parts({"train": ["ACG\nTu N"]}, tokenizer)
    assert tokenizer.decode(parts["train"][0]) == tokenizer.decode(tokenizer("ACGTUN").input_ids)
    with pytest.raises(ValueError, match=r"The tokenizer dna reads .* got 'e'"):
        encode_parts({"all": ["ACGTe"]}, tokenizer)


@pytest.mark.parametrize(("kind", "expected"), [("byte", 5), ("char", 5), ("dna", 5)])
def test_bytes_of_one_character_are_counted_once(kind, expected):
    text = "ACGTNA" if kind == "dna" else "abcéde"
    tokenizer = make_tokenizer(kind, [text])
    ids = np.asarray(tokenizer(text)["input_ids"])
    assert count_characters([ids], tokenizer) == expected


def test_models_generate_no_special_tokens():
    tokenizer = DnaTokenizer()
    model = build_language_model("combiner", "causal", tokenizer, 32, {"hidden_size": 16})
    torch.nn.init.ones_(model.lm_head.bias[: len(tokenizer.all_special_ids)])
    ids = torch.tensor([tokenizer("ACGT")["input_ids"]])
    written = model.eval().generate(ids, max_new_tokens=20, do_sample=True)
    assert not set(written[0].tolist()) & set(tokenizer.all_special_ids)


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("report_on", "train", "report_on must be test or validation, got 'train'"),
        ("num_windows", "0", "num_windows must be at least 1, got 0"),
        ("ngram_orders", "-1", "order must be at least 0"),
        ("settings", "{bad", "settings must be JSON"),
    ],
)
def test_options_of_the_example_are_refused_before_training(option, value, sentence, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("the cat sat on the mat " * 40)
    example = load("train_language_model")
    arguments = ["--data", str(path), f"--{option}", value, "--use_cpu", "true"]
    with pytest.raises(ValueError, match=sentence):
        example.main([*arguments, "--output_dir", str(tmp_path / "run")])


def test_models_and_objectives_that_do_not_exist_are_refused():
    tokenizer = DnaTokenizer()
    with pytest.raises(ValueError, match="Objectives are causal, masked, got 'best'"):
        build_language_model("combiner", "best", tokenizer, 16, {})
    with pytest.raises(ValueError, match="or a model type of transformers, got 'nothing'"):
        build_language_model("nothing", "causal", tokenizer, 16, {})
    with pytest.raises(ValueError, match=r"chordmixer has models for .* got AutoModelForCausalLM"):
        build_language_model("chordmixer", "causal", tokenizer, 16, {})
    with pytest.raises(ValueError, match="Tokenizers are char, byte, dna, got 'word'"):
        make_tokenizer("word", ["a"])
    with pytest.raises(ValueError, match=r"'hiden_size' is not .* did you mean 'hidden_size'"):
        build_language_model("combiner", "causal", tokenizer, 16, {"hiden_size": 8})
    with pytest.raises(ValueError, match="'n_emb' is not a config field; did you mean 'n_embd'"):
        build_language_model("gpt2", "causal", tokenizer, 16, {"n_emb": 8})
    with pytest.raises(ValueError, match="'gpt2' of transformers has no masked language model"):
        build_language_model("gpt2", "masked", tokenizer, 16, {})
    with pytest.raises(ValueError, match="'pattern'"):
        build_language_model("combiner", "causal", tokenizer, 16, {"pattern": "diagonal"})
    assert type(make_collator("gpt2", "causal", tokenizer, 0.1, 0).collator) is PaddedCollator


@pytest.mark.parametrize(
    ("model", "objective", "settings"),
    [
        ("combiner", "causal", '{"hidden_size": 16}'),
        ("chordmixer", "masked", '{"track_size": 2}'),
        ("gpt2", "causal", '{"n_embd": 16, "n_layer": 1, "n_head": 2}'),
    ],
)
def test_the_example_trains_and_reports(model, objective, settings, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("the cat sat on the mat and the dog ran to the cat " * 60)
    example = load("train_language_model")
    results = example.main(
        [
            *("--data", str(path), "--smoke", "--model", model, "--objective", objective),
            *("--settings", settings, "--output_dir", str(tmp_path / "run")),
            *("--use_cpu", "true", "--disable_tqdm", "true"),
        ]
    )
    report = results["test"]["model"]
    assert 1 < report["perplexity"] < 100
    bits = np.log2(report["perplexity"])
    assert report["bits_per_token"] == report["bits_per_character"] == pytest.approx(bits)
    assert ("4-grams" in results["test"]) == (objective == "causal")
    assert (tmp_path / "run" / "metrics.json").exists()
