"""Language models of texts and of DNA: data, tokenizer, model and evaluation."""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
from huggingface_hub.errors import StrictDataclassError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from .._compat import has_model
from ..auto import FAMILIES
from ..data import CausalLMCollator, FlatCollator, MaskedLMCollator, PaddedCollator, hold_out_ends
from ..data.checks import DNA_LETTERS
from ..data.fasta import explain_encoding
from ..data.records import find_kind, open_plain_or_gzip, open_streams, read_rows
from ..models.dna import find_other_letter
from ..models.tokenization_byte import ByteTokenizer
from ..models.tokenization_char import CharTokenizer
from ..models.tokenization_dna import DnaTokenizer
from .models import known_fields_of, name_closest

logger = logging.get_logger(__name__)

OBJECTIVES = {"causal": AutoModelForCausalLM, "masked": AutoModelForMaskedLM}
TOKENIZERS = ("char", "byte", "dna")
# names of parts in columns of tables
_PARTS = {"train": "train", "val": "validation", "validation": "validation", "test": "test"}


def load_texts(
    path: str | Path, text_column: str = "text", split_column: str = "split"
) -> dict[str, list[str]]:
    """Texts of a file, by part: sequences, plain text (also gzip), or a table with parts.

    Records of FASTA, FASTQ and GenBank and whole text files have one part, `all`.
    """
    kind = find_kind(str(path))
    if kind == "parquet":
        return _load_table(Path(path), text_column, split_column)
    if kind in ("fasta", "fastq", "genbank"):
        (stream,) = open_streams([str(path)], kind)
        return {"all": [row["sequence"] for row in read_rows(str(path), kind, stream)]}
    with open_plain_or_gzip(str(path)) as file:
        try:
            return {"all": [file.read().decode()]}
        except UnicodeDecodeError as error:
            raise ValueError(explain_encoding(str(path), error)) from None


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
    """Token ids of each text, by part; one part `all` is divided, the ends of texts held out.

    White space does not count as bases, and other letters are refused.
    """
    if isinstance(tokenizer, DnaTokenizer):
        texts = {
            part: ["".join(text.split()) for text in members] for part, members in texts.items()
        }
        for text in chain.from_iterable(texts.values()):
            place = find_other_letter(text, DNA_LETTERS)
            if place >= 0:
                raise ValueError(
                    f"The tokenizer dna reads {DNA_LETTERS} in upper or lower case, got "
                    f"{text[place]!r}."
                )
    ids = {
        part: [
            np.asarray(tokenizer(text, return_attention_mask=False)["input_ids"])
            for text in members
        ]
        for part, members in texts.items()
    }
    return hold_out_ends(ids["all"]) if "all" in ids else ids


def count_characters(rows: Sequence[np.ndarray], tokenizer: PreTrainedTokenizerBase) -> int:
    """Characters of windows that are predicted: all but the first token's.

    A byte is a part of a character, which counts where it begins.
    """
    if isinstance(tokenizer, ByteTokenizer):
        text = [tokenizer.decode_bytes(ids[1:]) for ids in rows]
        return sum(byte & 0xC0 != 0x80 for part in text for byte in part)
    return sum(len(ids) - 1 for ids in rows)


def build_language_model(
    name: str, objective: str, tokenizer: PreTrainedTokenizerBase, length: int, settings: Mapping
) -> PreTrainedModel:
    """A new model of a family, or of a model type of transformers, for an objective."""
    if objective not in OBJECTIVES:
        raise ValueError(f"Objectives are {', '.join(OBJECTIVES)}, got {objective!r}.")
    known = known_fields_of(name)
    unknown = [field for field in settings if field not in known]
    if known and unknown:
        raise ValueError(name_closest(unknown[0], known, "config field"))
    fields: dict[str, Any] = {"vocab_size": len(tokenizer), "max_position_embeddings": length}
    if name in FAMILIES:
        family = FAMILIES[name]
        model_class = family.model_class(OBJECTIVES[objective])
        if objective == "causal":
            fields["causal"] = True
        try:
            return _without_special(model_class(family.config(**fields, **settings)), tokenizer)
        except StrictDataclassError as error:
            # in several lines for a value of the wrong type
            raise ValueError(" ".join(str(error).split())) from error
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
    auto_class: Any = OBJECTIVES[objective]
    if not has_model(auto_class, config):
        raise ValueError(
            f"The model type {name!r} of transformers has no {objective} language model."
        )
    return _without_special(auto_class.from_config(config), tokenizer)


def _without_special(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    """A model that generates none of the special tokens, of which texts have none."""
    if model.can_generate() and model.generation_config is not None:
        model.generation_config.suppress_tokens = sorted(tokenizer.all_special_ids)
    return model


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
