"""Draw the vectors of `hf-mixers embed`, coloured by the classes that `hf-mixers predict` found.

    hf-mixers predict MODEL genes.fa --output answers.tsv
    hf-mixers embed MODEL genes.fa --pooling cls --output vectors.parquet
    python examples/draw_embedding.py --vectors vectors.parquet --answers answers.tsv \
        --output embedding.png
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from transformers import HfArgumentParser

from hf_mixers.cli import run_as_script
from hf_mixers.reporting.embedding_plot import plot_embedding


@dataclass
class Options:
    """Files that are read and written."""

    vectors: str = field(metadata={"help": "Parquet file of hf-mixers embed."})
    answers: str = field(metadata={"help": "TSV file of hf-mixers predict."})
    output: str = field(default="embedding.png", metadata={"help": "PNG file to write."})


def main(arguments: list[str] | None = None) -> Path:
    (options,) = HfArgumentParser(Options).parse_args_into_dataclasses(arguments)
    vectors = pd.read_parquet(options.vectors)
    answers = pd.read_csv(options.answers, sep="\t")
    table = vectors.merge(answers[["id", "label"]], on="id", validate="one_to_one")
    # records that could not be read have neither
    table = table.dropna(subset=["vector", "label"])
    path = plot_embedding(np.stack(table["vector"]), table["label"].tolist(), options.output)
    print(f"{len(table)} sequences are drawn in {path}")
    return path


if __name__ == "__main__":
    run_as_script(main)
