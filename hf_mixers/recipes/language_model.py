"""Language models of texts and of DNA: data, tokenizer, model and evaluation."""

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from ..auto import FAMILIES
from ..data import CausalLMCollator, FlatCollator, MaskedLMCollator, PaddedCollator, hold_out_ends
from ..models.tokenization_byte import ByteTokenizer
from ..models.tokenization_char import CharTokenizer
from ..models.tokenization_dna import DnaTokenizer

logger = logging.get_logger(__name__)

OBJECTIVES = {"causal": AutoModelForCausalLM, "masked": AutoModelForMaskedLM}
TOKENIZERS = ("char", "byte", "dna")
# names of parts in columns of tables
_PARTS = {"train": "train", "val": "validation", "validation": "validation", "test": "test"}
_FASTA = (".fa", ".fasta", ".fna")


def load_texts(
    path: str | Path, text_column: str = "text", split_column: str = "split"
) -> dict[str, list[str]]:
    """Texts of a file, by part: FASTA or plain text (also gzip), or a table with parts (parquet).

    Records of FASTA and whole text files have one part, `all`.
    """
    path = Path(path)
    if path.suffix == ".parquet":
        return _load_table(path, text_column, split_column)
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        if Path(path.name.removesuffix(".gz")).suffix not in _FASTA:
            return {"all": [file.read()]}
        records: list[list[str]] = []
        for line in file:
            if line.startswith(">"):
                records.append([])
            elif records:
                records[-1].append(line.strip())
    if not records:
        raise ValueError(f"{path} has no FASTA records: lines that begin with '>' are accepted.")
    return {"all": ["".join(lines) for lines in records]}


def _load_table(path: Path, text_column: str, split_column: str) -> dict[str, list[str]]:
    table = parquet.read_table(path)
    for name in (text_column, split_column):
        if name not in table.column_names:
            raise ValueError(f"{path} has the columns {', '.join(table.column_names)}, not {name}.")
    texts: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
    pairs = zip(table[text_column].to_pylist(), table[split_column].to_pylist(), strict=True)
    for text, part in pairs:
        if part not in _PARTS:
            raise ValueError(f"Parts are called {', '.join(_PARTS)}, got {part!r} in {path}.")
        texts[_PARTS[part]].append(text)
    return texts


def make_tokenizer(kind: str, texts: Sequence[str]) -> PreTrainedTokenizerBase:
    """A tokenizer of characters (those of the texts), bytes or bases."""
    if kind not in TOKENIZERS:
        raise ValueError(f"Tokenizers are {', '.join(TOKENIZERS)}, got {kind!r}.")
    if kind == "char":
        return CharTokenizer.train(texts)
    return ByteTokenizer() if kind == "byte" else DnaTokenizer()


def encode_parts(
    texts: Mapping[str, Sequence[str]], tokenizer: PreTrainedTokenizerBase
) -> dict[str, list[np.ndarray]]:
    """Token ids of each text, by part; one part `all` is divided, the ends of texts held out."""
    ids = {
        part: [
            np.asarray(tokenizer(text, return_attention_mask=False)["input_ids"])
            for text in members
        ]
        for part, members in texts.items()
    }
    return hold_out_ends(ids["all"]) if "all" in ids else ids


def build_language_model(
    name: str, objective: str, tokenizer: PreTrainedTokenizerBase, length: int, settings: Mapping
) -> PreTrainedModel:
    """A new model of a family, or of a model type of transformers, for an objective."""
    if objective not in OBJECTIVES:
        raise ValueError(f"Objectives are {', '.join(OBJECTIVES)}, got {objective!r}.")
    fields: dict[str, Any] = {"vocab_size": len(tokenizer), "max_position_embeddings": length}
    if name in FAMILIES:
        family = FAMILIES[name]
        model_class = family.model_class(OBJECTIVES[objective])
        if objective == "causal":
            fields["causal"] = True
        return model_class(family.config(**fields, **settings))
    try:
        config = AutoConfig.for_model(
            name,
            **fields,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
            eos_token_id=None,
            **settings,
        )
    except ValueError:
        raise ValueError(
            f"Models are those of {', '.join(FAMILIES)} or a model type of transformers, got "
            f"{name!r}."
        ) from None
    return OBJECTIVES[objective].from_config(config)


def make_collator(
    name: str,
    objective: str,
    tokenizer: PreTrainedTokenizerBase,
    mask_probability: float,
    seed: int,
) -> CausalLMCollator | MaskedLMCollator:
    """Flat batches for our families, padded ones for models of transformers."""
    rows = FlatCollator() if name in FAMILIES else PaddedCollator()
    if objective == "causal":
        return CausalLMCollator(rows)
    return MaskedLMCollator(rows, tokenizer, mask_probability, seed=seed)
