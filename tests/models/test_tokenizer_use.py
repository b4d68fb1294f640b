"""Tokenizers saved, copied, loaded and used by the rest of the Hugging Face libraries."""

import copy
import json
import os
import pickle
import subprocess
import sys

import pytest
import torch
from datasets import Dataset
from datasets.fingerprint import Hasher
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    DataCollatorForLanguageModeling,
    DataCollatorWithPadding,
    TokenizersBackend,
    pipeline,
)

import hf_mixers
from hf_mixers.models.tokenization_char import CharTokenizer
from tests.models.tokenizer_cases import (
    build_char_tokenizer,
    every_tokenizer,
    outcome,
    was_looked_up,
)

# --- keeping, copying, loading ---


@every_tokenizer
@pytest.mark.parametrize("copier", [copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_copies_behave_alike(build, copier):
    tokenizer = build(add_cls=True)
    tokenizer.add_tokens(["<x>"])
    again = copier(tokenizer)
    for text in ("ACGT", "A<x>C", "[MASK]"):
        assert again(text).input_ids == tokenizer(text).input_ids
    again.add_sep = True
    assert again("A").tokens() != tokenizer("A").tokens()


@every_tokenizer
def test_saved_tokenizer_comes_back(build, tmp_path):
    tokenizer = build(add_cls=True, add_sep=True, model_max_length=77)
    tokenizer.add_special_tokens({"eos_token": "<eos>"})
    tokenizer("A[MASK]", padding="max_length", max_length=9, truncation=True, padding_side="left")
    tokenizer.save_pretrained(tmp_path)
    again = type(tokenizer).from_pretrained(tmp_path)
    assert (again.add_cls, again.add_sep, again.model_max_length) == (True, True, 77)
    assert again.get_vocab() == tokenizer.get_vocab()
    assert again.padding_side == "right"
    assert was_looked_up(again("ACGT"))
    for text in ("ACGT", "A<eos>C[MASK]", "中é"):
        assert outcome(again, text) == outcome(tokenizer, text)
    plain = type(tokenizer).from_pretrained(tmp_path, add_cls=False, add_sep=False)
    assert plain("A").tokens() == ["A"]


@every_tokenizer
def test_saved_vocabulary_is_a_tokenizer_file(build, tmp_path):
    tokenizer = build()
    (path,) = tokenizer.save_vocabulary(str(tmp_path), filename_prefix="my")
    assert path.endswith("my-tokenizer.json")
    again = type(tokenizer)(tokenizer_file=path)
    assert again("ACGT é").input_ids == tokenizer("ACGT é").input_ids


@every_tokenizer
def test_plain_transformers_reads_the_same_ids(build, tmp_path):
    tokenizer = build(add_cls=True)
    tokenizer.save_pretrained(tmp_path)
    plain = TokenizersBackend.from_pretrained(tmp_path)
    assert outcome(plain, ["acgu é", "A[MASK]"]) == outcome(tokenizer, ["acgu é", "A[MASK]"])


@every_tokenizer
def test_auto_tokenizer_finds_the_class(build, tmp_path):
    tokenizer = build(add_sep=True)
    tokenizer.save_pretrained(tmp_path / "alone")
    tokenizer.save_pretrained(tmp_path / "beside")
    hf_mixers.ChordMixerConfig().save_pretrained(tmp_path / "beside")
    for folder in ("alone", "beside"):
        again = AutoTokenizer.from_pretrained(tmp_path / folder)
        assert type(again) is type(tokenizer)
        assert again("ACGT").input_ids == tokenizer("ACGT").input_ids


@pytest.mark.processes
@every_tokenizer
def test_tokenizer_with_code_loads_without_the_package(build, tmp_path):
    tokenizer = build(add_cls=True)
    carrier = copy.copy(tokenizer)
    carrier._auto_class = "AutoTokenizer"
    carrier.save_pretrained(tmp_path / "code")
    program = (
        "import sys\n"
        "from transformers import AutoTokenizer\n"
        "tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], trust_remote_code=True)\n"
        "assert 'hf_mixers' not in sys.modules\n"
        "assert type(tokenizer('A').encodings).__name__ == 'LazyEncodings'\n"
        "print(type(tokenizer).__name__, tokenizer('ACGT').input_ids)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "code"],
        cwd=tmp_path,
        env={**os.environ, "HF_MODULES_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split("\n")[0] == f"{type(tokenizer).__name__} {tokenizer('ACGT').input_ids}"
    # carrying code is no lasting state: neither of the class nor of what is loaded from the folder
    again = AutoTokenizer.from_pretrained(tmp_path / "code", trust_remote_code=False)
    for index, saver in enumerate((tokenizer, build(), again)):
        saver.save_pretrained(tmp_path / f"plain{index}")
        names = sorted(path.name for path in (tmp_path / f"plain{index}").iterdir())
        assert names == ["tokenizer.json", "tokenizer_config.json"]
        saved = json.loads((tmp_path / f"plain{index}" / "tokenizer_config.json").read_text())
        assert "auto_map" not in saved


# --- with the rest of the library ---


@every_tokenizer
def test_collators_pad_and_mask(build):
    tokenizer = build(add_cls=True)
    rows = [tokenizer(text) for text in ("ACGT" * 8, "ACG")]
    batch = DataCollatorWithPadding(tokenizer)(rows)
    expected = tokenizer(["ACGT" * 8, "ACG"], padding=True, return_tensors="pt")
    assert torch.equal(batch["input_ids"], expected["input_ids"])
    assert torch.equal(batch["attention_mask"], expected["attention_mask"])

    collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.9, seed=0)
    masked = collator(rows)
    chosen = masked["labels"] != -100
    assert chosen.any()
    special = (expected["input_ids"] == 2) | (expected["input_ids"] == 0)
    assert not (chosen & special).any()
    assert (masked["input_ids"] == tokenizer.mask_token_id).any()


@every_tokenizer
def test_decoding_joins_tokens_without_spaces(build):
    tokenizer = build(add_cls=True, add_sep=True)
    encoding = tokenizer(["ACGT", "GT"], padding=True, return_tensors="pt")
    assert tokenizer.decode(encoding["input_ids"][0]) == "[CLS]ACGT[SEP]"
    assert tokenizer.batch_decode(encoding["input_ids"], skip_special_tokens=True) == ["ACGT", "GT"]
    tokens = tokenizer.convert_ids_to_tokens(encoding["input_ids"][0])
    assert tokens == tokenizer.tokenize("ACGT", add_special_tokens=True)
    assert tokenizer.convert_tokens_to_string(["G", "A", "T"]) == "GAT"


@every_tokenizer
def test_pipelines_run(build):
    tokenizer = build(add_cls=True)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
    )
    fill = pipeline("fill-mask", model=BertForMaskedLM(config), tokenizer=tokenizer)
    assert len(fill("ACG[MASK]T", top_k=2)) == 2
    classify = pipeline(
        "text-classification", model=BertForSequenceClassification(config), tokenizer=tokenizer
    )
    assert len(classify(["ACGT", "AC"], batch_size=2)) == 2
    label = pipeline(
        "token-classification", model=BertForTokenClassification(config), tokenizer=tokenizer
    )
    found = label("ACGT")
    assert [(item["word"], item["start"]) for item in found] == list(
        zip("ACGT", range(4), strict=True)
    )


@every_tokenizer
def test_datasets_map_and_keep_their_fingerprint(build):
    tokenizer = build()
    fingerprint = Hasher.hash(tokenizer)
    data = Dataset.from_dict({"text": ["ACGT", "AC", "A[MASK]"]})
    for tensors in (None, "np"):
        mapped = data.map(
            lambda rows, t=tensors: tokenizer(rows["text"], return_tensors=t), batched=True
        )
        assert mapped["input_ids"][1] == tokenizer("AC").input_ids
    assert Hasher.hash(tokenizer) == fingerprint


@every_tokenizer
def test_training_that_would_merge_characters_is_refused(build):
    with pytest.raises(ValueError, match=r"use CharTokenizer\.train"):
        build().train_new_from_iterator([["ACGT"]], vocab_size=50)


def test_backend_that_merges_characters_is_refused(tmp_path):
    tokenizer = build_char_tokenizer()
    tokenizer.save_pretrained(tmp_path)
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_text())
    content["model"]["vocab"]["xy"] = len(content["model"]["vocab"])
    content["model"]["vocab"] |= {"x": 90, "y": 91}
    content["model"]["merges"] = [["x", "y"]]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="it accepts one token for each character"):
        CharTokenizer.from_pretrained(tmp_path)
