"""Train or fine-tune a classifier of DNA sequences of any lengths, and compare it with baselines.

Without arguments it trains a ChordMixer on the genes that come with the package:

    python examples/finetune_classification.py --output_dir runs/genes

Your own data (FASTA, FASTQ, GenBank, parquet or CSV; files, globs or folders):

    python examples/finetune_classification.py --output_dir runs/mine --data genomes/ \
        --label_from folder --family chordmixer --num_train_epochs 10

Species in the header of FASTA records, none of them in two parts:

    python examples/finetune_classification.py --output_dir runs/species --data genes.fa \
        --label_pattern 'genus=(\\w+)' --group_pattern '\\[(.*?)\\]'

A published configuration, such as the genome classifier of the Paramixer paper, which reads exactly
16,384 bases (flat pooling; sequences are cut or padded to that length, and counted) and knows A, G,
C and T only (with others, `--bad_records drop` or `--preset genome_with_n`):

    python examples/finetune_classification.py --output_dir runs/genome --data genomes/ \
        --label_from folder --family paramixer --preset genome --min_length 5001 \
        --learning_rate 1e-4 --lr_scheduler_type constant --train_token_budget 262144

It writes the model and its card, metrics.json, predictions.csv and plots to the output folder.
Results are of the test part; with `--report_on validation` the test part is not read. The command
`hf-mixers finetune` is the same recipe with fewer options.
"""

from transformers import HfArgumentParser

from hf_mixers.cli import run_as_script
from hf_mixers.data import SplitOptions
from hf_mixers.recipes import FinetuneArguments, FinetuneOptions, finetune
from hf_mixers.recipes.finetune import FinetuneEvaluation
from hf_mixers.recipes.labelled_dna import DataOptions
from hf_mixers.recipes.options import CheckpointOptions

SECTIONS = (CheckpointOptions, DataOptions, SplitOptions, FinetuneEvaluation)


def main(arguments: list[str] | None = None) -> dict:
    parser = HfArgumentParser((*SECTIONS, FinetuneArguments))
    *sections, training = parser.parse_args_into_dataclasses(arguments)
    return finetune(FinetuneOptions(*sections), training)


if __name__ == "__main__":
    run_as_script(main)
