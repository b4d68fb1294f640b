"""One task of the Long Range Arena, one model: what `hf-mixers arena run` does, as a script.

    python examples/run_arena.py --task listops --max_steps 2000 --parameters 100000
    python examples/run_arena.py --task text --path aclImdb --family bert --self_pretrain true

`--family` is a family of hf_mixers or a model type of transformers. Without a path, ListOps and
Pathfinder are made from a seed; `--options` takes options of the task as JSON.
"""

from transformers import HfArgumentParser

from hf_mixers.cli import run_as_script
from hf_mixers.recipes.arena import (
    ArenaArguments,
    ArenaEvaluation,
    ArenaModelOptions,
    ArenaOptions,
    ArenaTaskOptions,
    run_arena,
)
from hf_mixers.recipes.self_pretrain import SelfPretrainOptions

SECTIONS = (ArenaModelOptions, ArenaTaskOptions, SelfPretrainOptions, ArenaEvaluation)


def main(arguments: list[str] | None = None) -> dict:
    *sections, training = HfArgumentParser((*SECTIONS, ArenaArguments)).parse_args_into_dataclasses(
        arguments
    )
    return run_arena(ArenaOptions(*sections), training)


if __name__ == "__main__":
    run_as_script(main)
