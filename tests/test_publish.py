"""Saving with code: what is carried, what is refused, and no pointers to code left behind."""

import json

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoModel, BertConfig, BertModel, PreTrainedTokenizerFast

from hf_mixers import DnaTokenizer, save_with_code
from tests.families import every_family


@every_family
def test_only_the_files_that_are_needed_are_carried(row, tmp_path):
    save_with_code(tmp_path, row.build(), DnaTokenizer())
    names = {path.name for path in tmp_path.glob("*.py")}
    assert {f"modeling_{row.name}.py", f"configuration_{row.name}.py", "packing.py"} <= names
    assert {"tokenization_dna.py", "tokenization_table.py", "dna.py"} <= names
    assert "tokenization_byte.py" not in names
    for path in tmp_path.glob("*.py"):
        assert "import hf_mixers" not in path.read_text().replace(">>> import hf_mixers", "")


@every_family
def test_a_copy_saved_without_code_does_not_point_to_code(row, tmp_path):
    save_with_code(tmp_path / "code", row.build())
    assert "auto_map" in json.loads((tmp_path / "code" / "config.json").read_text())
    model = AutoModel.from_pretrained(tmp_path / "code")
    model.save_pretrained(tmp_path / "plain")
    assert "auto_map" not in json.loads((tmp_path / "plain" / "config.json").read_text())


@every_family
def test_tokenizers_of_transformers_need_no_code(row, tmp_path):
    backend = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    save_with_code(tmp_path, row.build(), tokenizer)
    assert "auto_map" not in json.loads((tmp_path / "tokenizer_config.json").read_text())


@every_family
def test_other_models_are_refused_before_anything_is_written(row, tmp_path):
    class Mine(row.model_class("model")):
        pass

    tiny = BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, vocab_size=9)
    for model in (BertModel(tiny), Mine(row.config())):
        with pytest.raises(ValueError, match=f"got {type(model).__name__}"):
            save_with_code(tmp_path / "folder", model)
    assert not (tmp_path / "folder").exists()
