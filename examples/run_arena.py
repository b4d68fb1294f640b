"""One task of the Long Range Arena, one model: what `hf-mixers arena run` does, as a script.

    python examples/run_arena.py
    python examples/run_arena.py --task text --path aclImdb --model bert --steps 2000

Without a path, ListOps and Pathfinder are made from a seed.
"""

import argparse

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


def main(arguments: list[str] | None = None) -> dict:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="listops")
    parser.add_argument("--path")
    parser.add_argument("--model", default="chordmixer")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--self_pretrain", action="store_true")
    parser.add_argument("--output_dir", default="runs/arena")
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args(arguments)
    options = ArenaOptions(
        model=ArenaModelOptions(family=given.model, parameters=200_000),
        task=ArenaTaskOptions(task=given.task, path=given.path),
        pretraining=SelfPretrainOptions(self_pretrain=given.self_pretrain),
        evaluation=ArenaEvaluation(smoke=given.smoke),
    )
    training = ArenaArguments(
        output_dir=given.output_dir,
        max_steps=given.steps,
        eval_strategy="steps",
        eval_steps=0.25,
        save_strategy="steps",
        save_steps=0.25,
    )
    return run_arena(options, training)


if __name__ == "__main__":
    run_as_script(main)
