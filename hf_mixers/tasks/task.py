"""A loaded task: its parts and all that a model and a training must know of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from transformers import PreTrainedTokenizerBase

from .batches import Padding, TaskCollator
from .rows import TaskRows

Metric = Literal["accuracy", "within_tolerance"]


@dataclass
class Task:
    """Examples in parts, and what a model reads and answers.

    Args:
        name: As in the registry.
        parts: `train`, `validation` and `test`: examples with `input_ids` or `input_values`
            (of a pair also with suffix `_2`) and `labels`, and an array `lengths`.
        inputs: `ids` or `values`.
        max_length: Longest sequence that an example can have.
        class_names: Names of the classes; None for a number to predict.
        vocab_size: Ids, with those of padding and mask; None for values.
        pad_token_id, mask_token_id: Ids of padding, and of what hides tokens in self-pretraining.
        maskable_ids: Ids that self-pretraining hides and predicts.
        input_features: Values per step; None for ids.
        is_pair: Examples are two sequences.
        num_tasks: Answers of a pair model to choose from with `task_ids`.
        metric: What is reported: `accuracy`, or `within_tolerance`, the share of numbers that are
            off by less than `tolerance`.
        mask_ratio: Share of tokens that self-pretraining hides.
        padding: How batches are laid out, see `TaskCollator`.
        zero_is_padding: Mask id 0 in attention as the published code does.
        tokenizer: Turns text into ids; None where there is no text.
        pixel_shape: Height and width, where the sequence is an image.
        notes: What was left out or differs from the default, one sentence each.
        options: Those that it was made or read with.
    """

    name: str
    parts: Mapping[str, TaskRows]
    inputs: Literal["ids", "values"]
    max_length: int
    class_names: Sequence[str] | None = None
    vocab_size: int | None = None
    pad_token_id: int | None = None
    mask_token_id: int | None = None
    maskable_ids: Sequence[int] | None = None
    input_features: int | None = None
    is_pair: bool = False
    num_tasks: int | None = None
    metric: Metric = "accuracy"
    tolerance: float = 0.04
    mask_ratio: float = 0.15
    padding: Padding = "none"
    zero_is_padding: bool = False
    tokenizer: PreTrainedTokenizerBase | None = None
    pixel_shape: tuple[int, int] | None = None
    notes: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        if self.padding not in get_args(Padding):
            accepted = ", ".join(get_args(Padding))
            raise ValueError(f"padding={self.padding!r} was given: {accepted} are accepted.")
        if self.zero_is_padding and self.padding == "none":
            # attention can be told to skip black pixels in padded batches only
            self.padding = "batch"

    @property
    def num_labels(self) -> int:
        """Outputs of a model: one per class, or 1 for a number."""
        return 1 if self.class_names is None else len(self.class_names)

    @property
    def problem_type(self) -> str:
        is_number = self.class_names is None
        return "regression" if is_number else "single_label_classification"

    def config_fields(self) -> dict[str, Any]:
        """Config fields that the task decides, by the words of hf_mixers."""
        fields: dict[str, Any] = {
            "num_labels": self.num_labels,
            "problem_type": self.problem_type,
            "max_position_embeddings": self.max_length,
        }
        if self.inputs == "ids":
            fields |= {"vocab_size": self.vocab_size, "pad_token_id": self.pad_token_id}
        else:
            fields["input_features"] = self.input_features
        if self.class_names is not None:
            fields["id2label"] = dict(enumerate(self.class_names))
            fields["label2id"] = {name: number for number, name in enumerate(self.class_names)}
        if self.num_tasks is not None:
            fields["num_tasks"] = self.num_tasks
        return fields

    def collator(
        self, padding: Padding | None = None, *, reads_padding: bool = False
    ) -> TaskCollator:
        """What makes batches of examples.

        Args:
            padding: Instead of the task's own, such as `batch` for models that take padded input
                only.
            reads_padding: See `TaskCollator`.
        """
        return TaskCollator(
            padding or self.padding,
            pad_token_id=self.pad_token_id or 0,
            length=self.max_length,
            zero_is_padding=self.zero_is_padding,
            reads_padding=reads_padding,
        )


@dataclass(frozen=True)
class TaskKind:
    """A task by name: how it is read from files, and how it is made.

    Args:
        name: By which it is asked for.
        summary: What it is, in one line.
        where: Where to get the files.
        load: Gives the `Task` of a path and options; None if there are no files.
        make: Gives the `Task` of options alone; None if it cannot be made.
    """

    name: str
    summary: str
    where: str = ""
    load: Callable[..., Task] | None = None
    make: Callable[..., Task] | None = None
