"""Pre-train a model of DNA by masked language modelling on genomes in FASTA files.

    python examples/pretrain_mlm.py --genomes genomes.fa.gz --held_out NC_000962.3 \
        --output_dir runs/mlm

Windows of random length are cut from random places, 30% of their bases are chosen, and the model
predicts them. Held-out records are never trained on; the model is scored on windows of them, next
to the frequency of bases and a Markov model that looks at bases on both sides. Without --genomes,
the genes that come with the package are used, with the test species held out.
`finetune_classification.py --checkpoint` takes the result. The command `hf-mixers pretrain` is the
same recipe with fewer options.
"""

from transformers import HfArgumentParser

from hf_mixers.cli import run_as_script
from hf_mixers.recipes import PretrainArguments, PretrainOptions, pretrain
from hf_mixers.recipes.options import StartOptions
from hf_mixers.recipes.pretrain import GenomeOptions


def main(arguments: list[str] | None = None) -> dict:
    parser = HfArgumentParser((StartOptions, GenomeOptions, PretrainArguments))
    *sections, training = parser.parse_args_into_dataclasses(arguments)
    return pretrain(PretrainOptions(*sections), training)


if __name__ == "__main__":
    run_as_script(main)
