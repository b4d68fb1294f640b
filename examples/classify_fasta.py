"""Classify the sequences of a FASTA file with a trained model, through the standard pipeline.

python examples/classify_fasta.py --model runs/genes --fasta examples/genes.fa --output answers.csv
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tqdm.auto import tqdm
from transformers import HfArgumentParser, pipeline

import hf_mixers  # noqa: F401  (registers the Auto classes)
from hf_mixers.data import filter_letters, load_sequences
from hf_mixers.recipes.labelled_dna import RecordOptions
from hf_mixers.reporting.files import write_table


@dataclass
class Options:
    """Model, sequences and where the answers go."""

    model: str = field(metadata={"help": "Folder or Hub name of a sequence classifier."})
    fasta: list[str] = field(metadata={"help": "FASTA files, folders or globs, plain or gzip."})
    output: str | None = field(default=None, metadata={"help": "CSV file for all answers."})
    batch_size: int = field(default=8, metadata={"help": "Sequences of a batch."})
    show: int = field(default=10, metadata={"help": "Answers to print."})


def main(arguments: list[str] | None = None) -> list[dict]:
    options, rules = HfArgumentParser((Options, RecordOptions)).parse_args_into_dataclasses(
        arguments
    )
    classify = pipeline("text-classification", options.model)
    config = classify.model.config
    is_flat = getattr(config, "pooling", None) == "flat"
    limit = None if is_flat else getattr(config, "length_limit", None)
    if limit is not None:
        limit -= classify.tokenizer.num_special_tokens_to_add()
    records = load_sequences(options.fasta, max_length=limit, **asdict(rules))
    if letters := getattr(classify.tokenizer, "letters", None):
        records = filter_letters(records, letters + "U", rules.bad_records)
    sequences = (record["sequence"] for record in records)
    changes = {}
    if is_flat:
        changes = pad_and_cut(records["length"], config.max_position_embeddings)
    answers = classify(sequences, batch_size=options.batch_size, **changes)
    answers = list(tqdm(answers, "classify", total=len(records)))
    for record, answer in zip(records, answers[: options.show], strict=False):
        print(f"{record['id']}\t{record['length']}\t{answer['label']}\t{answer['score']:.4f}")
    if options.output:
        columns = {
            "id": records["id"],
            "length": records["length"],
            "label": [answer["label"] for answer in answers],
            "score": [round(answer["score"], 6) for answer in answers],
        }
        write_table(Path(options.output), columns)
        print(f"All {len(answers)} answers are in {options.output}")
    return answers


def pad_and_cut(lengths: Sequence[int], length: int) -> dict:
    """Options of the tokenizer for a model that reads one length, padding included."""
    cut, padded = (sum(n > length for n in lengths), sum(n < length for n in lengths))
    print(f"Of {len(lengths)} sequences {cut} are cut and {padded} padded to {length} tokens.")
    options = {"padding": "max_length", "truncation": True, "max_length": length}
    return {**options, "return_attention_mask": False}


if __name__ == "__main__":
    main(sys.argv[1:])
