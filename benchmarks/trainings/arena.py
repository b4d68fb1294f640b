"""Recorded trainings on tasks of the arena: all models with the same parameters, tokens and steps.

They are much shortened: minutes on one core for most of them. ListOps and Pathfinder are also
trained after self-pretraining. Matrices learn by Muon, which needs far fewer steps than AdamW.
"""

import json
from typing import Any

# parameters of every model, without tables of positions
PARAMETERS = 100_000
# tokens of a step and steps, by task; two documents of the longest length do not fit in a step
STEPS = {
    "listops_short": (8_192, 1_500),
    "listops_full": (8_192, 750),
    "pathfinder_easy": (8_192, 200),
    "pathfinder_hard": (8_192, 200),
    "mnist": (8_192, 1_000),
    "imdb": (8_192, 1_200),
    "longdoc": (32_768, 300),
}
# evaluations cost as much as steps: of short trainings there are two, on few examples
EVALUATED = ("--eval_strategy", "steps", "--eval_steps", "0.5")
EVALUATED += ("--save_strategy", "steps", "--save_steps", "0.5")
FEW = {"num_validation": 500, "num_test": 1_000}
TASKS: dict[str, tuple[str, str | None, dict[str, Any]]] = {
    "listops_short": (
        "listops",
        None,
        {"min_length": 100, "max_length": 500, "num_train": 20_000, **FEW},
    ),
    "listops_full": ("listops", None, {"num_train": 20_000, **FEW}),
    "pathfinder_easy": (
        "pathfinder",
        None,
        {"difficulty": "easy", "num_train": 20_000, **FEW},
    ),
    "pathfinder_hard": (
        "pathfinder",
        None,
        {"difficulty": "hard", "num_train": 20_000, **FEW},
    ),
    "mnist": ("image", "{data}/image_mnist/data.npz", {}),
    "imdb": ("text", "{data}/text_imdb", {"max_length": 4_096}),
    "longdoc": ("longdoc", "{data}/longdoc_linux4", {"max_length": None}),
}
# learning rates on digits by model, of Muon and of AdamW; a Paramixer learns nothing at that of a
# ChordMixer. On all other tasks they are half of these
MODELS = {
    "chordmixer": ("2e-2", "3e-3"),
    "paramixer": ("1e-2", "1e-3"),
    "mrsformer": ("2e-2", "3e-3"),
    "combiner": ("2e-2", "3e-3"),
    "bert": ("2e-2", "3e-3"),
    "nystromformer": ("2e-2", "3e-3"),
}
# without dropout, with which a BERT would hold all scores in memory
SETTINGS = {"bert": {"attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0}}
# a full attention over 124,000 tokens does not fit in memory
TOO_LONG = {"longdoc": ("bert", "mrsformer")}
SELF_PRETRAINED = ("listops_short", "pathfinder_easy", "pathfinder_hard")


def _arguments(task: str, model: str, pretrained: bool) -> tuple[str, ...]:
    name, path, options = TASKS[task]
    tokens, steps = STEPS[task]
    rates = [f"{float(rate) / (1 if task == 'mnist' else 2):g}" for rate in MODELS[model]]
    found = [
        *("--task", name, "--family", model, "--parameters", str(PARAMETERS)),
        *("--max_steps", str(steps), "--train_token_budget", str(tokens)),
        *("--muon_learning_rate", rates[0], "--learning_rate", rates[1]),
        *("--warmup_steps", "0.1", "--weight_decay", "0.01"),
    ]
    if task != "mnist":
        found += EVALUATED
    if model in SETTINGS:
        found += ["--settings", json.dumps(SETTINGS[model])]
    if path is not None:
        found += ["--path", path]
    if options:
        found += ["--options", json.dumps(options)]
    if pretrained:
        found += ["--self_pretrain", "true", "--pretrain_steps", str(steps // 2)]
    return tuple(found)


# whether Pathfinder is learned in 25 times the steps, with new images in each
LONG = ("--max_steps", "5000", "--eval_strategy", "steps", "--eval_steps", "2500")
LONG += ("--save_strategy", "steps", "--save_steps", "2500", "--learning_rate", "1e-3")
LONG += ("--muon_learning_rate", "5e-3")
LONG += ("--options", json.dumps({"difficulty": "easy", "num_train": 40_000, **FEW}))
# arguments of `examples/run_arena.py` by name of the training
ARENA: dict[str, tuple[str, ...]] = {
    f"arena_{task}_{model}": _arguments(task, model, False)
    for task in TASKS
    for model in MODELS
    if model not in TOO_LONG.get(task, ())
}
ARENA |= {
    f"arena_{task}_{model}_pretrained": _arguments(task, model, True)
    for task in SELF_PRETRAINED
    for model in MODELS
}
ARENA["arena_pathfinder_easy_chordmixer_long"] = (
    *_arguments("pathfinder_easy", "chordmixer", False),
    *LONG,
)
