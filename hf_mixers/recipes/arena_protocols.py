"""Published settings of arena trainings, task by task: sizes, optimiser, steps, batches.

A protocol gives values by `section.name`, as `Configuration.put` takes them. Where publications
differ from their code, the code counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..baselines.peers import PeerSizes

Values = dict[str, Any]

# the base Transformer of the arena's configs: width, layers, heads, width of the MLPs
BASE_SIZES: dict[str, PeerSizes] = {
    "listops": PeerSizes(512, 4, 8, 1024),
    "text": PeerSizes(256, 4, 4, 1024),
    "retrieval": PeerSizes(128, 4, 4, 512),
    "image": PeerSizes(128, 1, 8, 128),
    "pathfinder": PeerSizes(32, 4, 4, 32),
    "pathx": PeerSizes(32, 1, 2, 32),
}
# training examples of the official release
PUBLISHED_ROWS = {
    "listops": 96_000,
    "text": 25_000,
    "retrieval": 147_086,
    "image": 45_000,
    "pathfinder": 160_000,
    "pathx": 160_000,
}
# two layers of 64, as the arena of Nyströmformer, MRA and MrsFormer has them
SMALL_SIZES = PeerSizes(64, 2, 2, 128)
# names under which families keep their published settings of a task
_PRESETS = {
    "chordmixer": {
        **{name: name for name in ("listops", "text", "retrieval", "image", "pathfinder")},
        "pathx": "pathfinderx",
        "longdoc": "longdoc",
        "adding": "adding_200",
    },
    "paramixer": {
        **{name: name for name in ("listops", "text", "pathfinder", "adding", "temporal_order")},
        "image": "cifar10",
        "longdoc": "long_document_16k",
    },
    "mrsformer": {name: name for name in ("listops", "text", "retrieval")},
    "combiner": {name: name for name in ("listops", "text", "retrieval", "image", "pathfinder")},
}


# config fields in which a protocol differs from the published settings that the family keeps
PROTOCOL_SIZES: dict[tuple[str | None, str], dict[str, Any]] = {
    ("chordmixer_paper", "retrieval"): {"track_size": 12},
}


@dataclass(frozen=True)
class Schedule:
    """How long, how fast and on how many examples a step a model is trained.

    Args:
        steps: Optimiser steps, or None where epochs count.
        epochs: Passes over the training part.
        kind: Schedule of the learning rate after warm-up.
        further: Other arguments of the Trainer.
    """

    learning_rate: float
    batch: int
    steps: int | None = None
    epochs: float | None = None
    warmup: int = 0
    weight_decay: float = 0.0
    kind: str = "cosine"
    further: Mapping[str, Any] = field(default_factory=dict)

    def count_examples(self, rows: int) -> float:
        """Examples that a training sees, of a training part with so many."""
        return self.steps * self.batch if self.steps else (self.epochs or 0) * rows

    def values(self) -> Values:
        """As settings of a run."""
        found: Values = {
            "learning_rate": self.learning_rate,
            "per_device_train_batch_size": self.batch,
            "train_token_budget": None,
            "warmup_steps": self.warmup,
            "weight_decay": self.weight_decay,
            "lr_scheduler_type": self.kind,
            **self.further,
        }
        if self.steps is not None:
            found["max_steps"] = self.steps
        else:
            found["num_train_epochs"] = self.epochs
        return {f"training.{name}": value for name, value in found.items()}


# the model of the last step is tested, as where the published validation part is the test part
_LAST = {"load_best_model_at_end": False}
_NOT_CLIPPED = {**_LAST, "max_grad_norm": 0.0}
_CLIPPED = {**_LAST, "max_grad_norm": 1.0}
_FLAX_ADAM = {**_NOT_CLIPPED, "adam_beta2": 0.98, "adam_epsilon": 1e-9}


def _rsqrt(factor: float, warmup: int, steps: int, batch: int) -> Schedule:
    """The arena's schedule: a factor over the root of the step, after a linear warm-up."""
    return Schedule(
        factor * warmup**-0.5, batch, steps, None, warmup, 0.1, "inverse_sqrt", _FLAX_ADAM
    )


def _flax_cosine(rate: float, warmup: int, steps: int, batch: int, **further) -> Schedule:
    return Schedule(rate, batch, steps, None, warmup, 0.0, "cosine", {**_FLAX_ADAM, **further})


# the released configs of the arena
_LRA = {
    "listops": _rsqrt(0.05, 1000, 5_000, 32),
    "text": _rsqrt(0.05, 8000, 20_000, 32),
    "retrieval": _rsqrt(0.05, 8000, 5_000, 32),
    "image": _flax_cosine(5e-4, 175, 35_000, 256),
    "pathfinder": _flax_cosine(1e-3, 312, 62_400, 512),
    "pathx": _flax_cosine(1e-3, 312, 62_400, 64, max_grad_norm=1.0),
}


def _released(rate: float, batch: int, epochs: float, warmup: int, decay: float) -> Schedule:
    return Schedule(rate, batch, None, epochs, warmup, decay, "cosine", _CLIPPED)


# the released configs of ChordMixer
_CHORDMIXER = {
    "listops": _released(0.01, 150, 200, 50_000, 0.02),
    "text": _released(0.007, 90, 90, 15_000, 0.04),
    "retrieval": replace(
        _released(0.004, 64, 200, 50_000, 0.001),
        kind="polynomial",
        further={**_CLIPPED, "lr_scheduler_kwargs": {"power": 2.0, "lr_end": 1e-8}},
    ),
    "image": _released(0.01, 100, 120, 8_000, 0.05),
    "pathfinder": _released(0.005, 150, 150, 100_000, 0.04),
    "pathx": _released(0.001, 120, 100, 500, 0.01),
    "longdoc": _released(1e-4, 2, 8, 20_000, 0.4),
    "adding": _released(5e-4, 20, 20, 10_000, 0.1),
}


# table 2 of its paper, where that has other rates and batches
_CHORDMIXER_PAPER = {
    **_CHORDMIXER,
    "listops": replace(_CHORDMIXER["listops"], learning_rate=0.007),
    "retrieval": replace(_CHORDMIXER["retrieval"], learning_rate=0.007, batch=90),
    "longdoc": replace(_CHORDMIXER["longdoc"], learning_rate=2e-4),
    "adding": replace(_CHORDMIXER["adding"], learning_rate=1e-4, batch=2),
}


def _constant(rate: float, batch: int, epochs: float, clip: bool = False) -> Schedule:
    further = _CLIPPED if clip else _NOT_CLIPPED
    return Schedule(rate, batch, None, epochs, kind="constant", further=further)


# table 1 of Paramixer's supplement, epochs of its code
_PARAMIXER = {
    "listops": _constant(1e-3, 48, 150),
    "image": _constant(1e-3, 64, 150),
    "text": _constant(1e-4, 32, 200),
    "pathfinder": _constant(1e-3, 64, 100),
    "longdoc": _constant(1e-4, 16, 50, clip=True),
    "adding": _constant(1e-3, 40, 50, clip=True),
    "temporal_order": _constant(1e-3, 40, 30, clip=True),
}


def _one_cycle(warmup: int, steps: int, batch: int) -> Schedule:
    further = {"adam_epsilon": 1e-6}
    return Schedule(1e-4, batch, steps, None, warmup, 0.0, "linear", further)


# table 7 of MrsFormer's supplement, on the code of Nyströmformer and MRA
_MRSFORMER = {
    "listops": _one_cycle(1_000, 5_000, 32),
    "text": _one_cycle(8_000, 20_000, 32),
    "retrieval": _one_cycle(800, 30_000, 32),
    "image": _one_cycle(175, 35_000, 256),
    "pathfinder": _one_cycle(312, 62_400, 256),
}
# options of a task that a protocol changes, read from files or made
_TASK_OPTIONS: dict[tuple[str, str], dict[str, Any]] = {
    ("lra", "listops"): {"vocabulary": "lra"},
    ("chordmixer", "listops"): {"vocabulary": "s4"},
    ("chordmixer", "pathfinder"): {"pixels": "values"},
    ("chordmixer", "pathx"): {"pixels": "values"},
    ("paramixer", "listops"): {"vocabulary": "paramixer"},
    ("mrsformer", "listops"): {"vocabulary": "lra"},
    ("combiner", "listops"): {"vocabulary": "lra"},
    ("combiner", "pathfinder"): {"difficulty": "intermediate"},
}
_ARENA_TEXT = {"tokenization": "lra_bytes", "max_length": 4000}
_S4_TEXT = {"tokenization": "chars", "append_eos": True}
# further ones, read from files: what the loaders of a publication do, as far as it leaves the test
# part out of every choice
_FILE_OPTIONS: dict[tuple[str, str], dict[str, Any]] = {
    ("lra", "listops"): {"max_length": 2000},
    ("lra", "text"): {**_ARENA_TEXT, "reference_validation": True},
    ("lra", "retrieval"): _ARENA_TEXT,
    ("chordmixer", "listops"): {"max_length": 2048},
    ("chordmixer", "text"): {
        **_S4_TEXT,
        "min_count": 10,
        "max_length": 4096,
        "reference_validation": True,
    },
    ("chordmixer", "retrieval"): {**_S4_TEXT, "max_length": 4000},
    ("chordmixer", "image"): {"pixels": "values", "reference_validation": True},
    ("chordmixer", "longdoc"): {
        "split": "release",
        "reference_unknown": True,
        "reference_validation": True,
    },
    ("paramixer", "listops"): {"max_length": 2000},
    ("paramixer", "text"): {
        "tokenization": "chars",
        "max_length": 4096,
        "reference_repr": True,
        "vocabulary_of_all_parts": True,
        "reference_validation": True,
    },
    ("paramixer", "image"): {"validation_fraction": 0, "reference_validation": True},
    ("paramixer", "pathfinder"): {"difficulty": "all", "split": "paramixer"},
    ("paramixer", "longdoc"): {
        "split": "file_order",
        "max_length": 16_384,
        "too_long": "cut",
        "reference_cut": True,
    },
    ("mrsformer", "listops"): {"max_length": 2000},
    ("mrsformer", "text"): _ARENA_TEXT,
    ("mrsformer", "retrieval"): _ARENA_TEXT,
}
# protocols that read a task as another one does
_READ_AS = {"chordmixer_paper": "chordmixer", "combiner": "lra"}
PROTOCOLS: dict[str, Mapping[str, Schedule]] = {
    "lra": _LRA,
    "chordmixer": _CHORDMIXER,
    "chordmixer_paper": _CHORDMIXER_PAPER,
    "paramixer": _PARAMIXER,
    "mrsformer": _MRSFORMER,
    # Combiner has the arena's own settings
    "combiner": _LRA,
}


def protocol_values(protocol: str, task: str, *, from_files: bool = False) -> Values:
    """Settings of a run by `section.name`: of the Trainer, and options of the task.

    Args:
        from_files: Options are those of a task that is read from files, not made.

    >>> protocol_values("lra", "image")["training.max_steps"]
    35000
    """
    values = find_schedule(protocol, task).values()
    options: Values = {}
    for table in (_TASK_OPTIONS, _FILE_OPTIONS) if from_files else (_TASK_OPTIONS,):
        other = _READ_AS.get(protocol, protocol)
        options |= table.get((protocol, task), table.get((other, task), {}))
    if options:
        values["task.options"] = options
    return values


def find_schedule(protocol: str, task: str) -> Schedule:
    """The schedule of a protocol for a task."""
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol={protocol!r} was given: {', '.join(PROTOCOLS)} are accepted.")
    found = PROTOCOLS[protocol]
    if task not in found:
        raise ValueError(
            f"The protocol {protocol} has settings for {', '.join(found)}, got the task {task!r}."
        )
    return found[task]


def base_sizes(protocol: str | None, task: str) -> PeerSizes:
    """Sizes of a Transformer for a task: those of the arena's configs, or the small ones."""
    if protocol in ("lra", "combiner") and task in BASE_SIZES:
        return BASE_SIZES[task]
    return SMALL_SIZES


def preset_name(family: str, task: str) -> str:
    """The name of a family's published settings for a task."""
    found = _PRESETS.get(family, {})
    if task not in found:
        known = ", ".join(found) or "none"
        raise ValueError(f"{family} has published settings for {known}, got the task {task!r}.")
    return found[task]
