"""Recorded trainings on tasks of the arena: all models with the same parameters, tokens and steps.

They are shortened: an hour at most on one core each. ListOps and Pathfinder are also trained after
self-pretraining.
"""

import json
from typing import Any

# parameters of every model, without tables of positions
PARAMETERS = 100_000
# tokens of a step and steps, by task; two documents of the longest length do not fit in a step
STEPS = {
    "listops_short": (8_192, 3_000),
    "listops_full": (8_192, 1_500),
    "pathfinder_easy": (8_192, 3_000),
    "pathfinder_hard": (8_192, 3_000),
    "mnist": (8_192, 3_000),
    "imdb": (16_384, 1_500),
    "longdoc": (32_768, 600),
}
TASKS: dict[str, tuple[str, str | None, dict[str, Any]]] = {
    "listops_short": (
        "listops",
        None,
        {"min_length": 100, "max_length": 500, "num_train": 20_000, "num_test": 2_000},
    ),
    "listops_full": ("listops", None, {"num_train": 20_000, "num_test": 2_000}),
    "pathfinder_easy": (
        "pathfinder",
        None,
        {"difficulty": "easy", "num_train": 20_000, "num_validation": 2_000, "num_test": 2_000},
    ),
    "pathfinder_hard": (
        "pathfinder",
        None,
        {"difficulty": "hard", "num_train": 20_000, "num_validation": 2_000, "num_test": 2_000},
    ),
    "mnist": ("image", "{data}/image_mnist/data.npz", {}),
    "imdb": ("text", "{data}/text_imdb", {"max_length": 4_096}),
    "longdoc": ("longdoc", "{data}/longdoc_linux4", {"max_length": None}),
}
# learning rate by model; a Paramixer learns nothing at that of a ChordMixer
MODELS = {
    "chordmixer": "3e-3",
    "paramixer": "1e-3",
    "mrsformer": "1e-3",
    "combiner": "1e-3",
    "bert": "1e-3",
    "longformer": "1e-3",
}
# a full attention over 124,000 tokens does not fit in memory
TOO_LONG = {"longdoc": ("bert", "mrsformer")}
SELF_PRETRAINED = ("listops_short", "pathfinder_easy", "pathfinder_hard")


def _arguments(task: str, model: str, rate: str, pretrained: bool) -> tuple[str, ...]:
    name, path, options = TASKS[task]
    tokens, steps = STEPS[task]
    found = [
        *("--task", name, "--family", model, "--parameters", str(PARAMETERS)),
        *("--max_steps", str(steps), "--train_token_budget", str(tokens)),
        *("--learning_rate", rate, "--warmup_steps", "0.1", "--weight_decay", "0.01"),
    ]
    if path is not None:
        found += ["--path", path]
    if options:
        found += ["--options", json.dumps(options)]
    if pretrained:
        found += ["--self_pretrain", "true", "--pretrain_steps", str(steps)]
    return tuple(found)


# arguments of `examples/run_arena.py` by name of the training
ARENA: dict[str, tuple[str, ...]] = {
    f"arena_{task}_{model}": _arguments(task, model, rate, False)
    for task in TASKS
    for model, rate in MODELS.items()
    if model not in TOO_LONG.get(task, ())
}
ARENA |= {
    f"arena_{task}_{model}_pretrained": _arguments(task, model, rate, True)
    for task in SELF_PRETRAINED
    for model, rate in MODELS.items()
}
