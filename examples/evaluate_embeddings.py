"""What the vectors of a frozen model tell of classes, next to vectors of k-mers.

    python examples/evaluate_embeddings.py --checkpoint model_cards/chordmixer-microbes \
        --split_column split_species --output_dir runs/frozen

Accuracy of five nearest neighbours (cosine) and of a linear probe, and how well clusters made
without labels fit the classes. Neighbours and probe learn from the training part.
"""

from dataclasses import dataclass, field
from pathlib import Path

from transformers import HfArgumentParser, set_seed

from hf_mixers.cli import run_as_script
from hf_mixers.data import SplitOptions
from hf_mixers.recipes.frozen import FrozenOptions, evaluate_frozen
from hf_mixers.recipes.labelled_dna import DataOptions
from hf_mixers.reporting.environment import run_environment
from hf_mixers.reporting.files import write_json


@dataclass
class Output:
    """Where results go."""

    output_dir: str = field(default="runs/frozen", metadata={"help": "Folder of the results."})


def begin_run(options: FrozenOptions) -> None:
    set_seed(options.seed)


def main(arguments: list[str] | None = None) -> dict:
    parser = HfArgumentParser((FrozenOptions, DataOptions, SplitOptions, Output))
    options, data, split, output = parser.parse_args_into_dataclasses(arguments)
    begin_run(options)
    results = evaluate_frozen(options, data, split)
    results["environment"] = run_environment(options.seed)
    write_json(Path(output.output_dir) / "metrics.json", results)
    return results


if __name__ == "__main__":
    run_as_script(main)
