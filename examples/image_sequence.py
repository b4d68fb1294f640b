"""Classify small images, by patches or pixel by pixel as one long sequence, next to a baseline.

    python examples/image_sequence.py --data mnist/ --output_dir runs/mnist
    python examples/image_sequence.py --data mnist/ --read_as values --family chordmixer \
        --output_dir runs/mnist_pixels

Data are folders of pictures by class, .npz files, parquet files of the Hub or the IDX files of
MNIST. `--read_as picture` gives patches to an image model (MrsFormer); `values` gives pixels as
numbers and `ids` shades of grey as tokens to the sequence classifier of any family. Without data,
scikit-learn's 1,797 digits of 8 x 8 pixels are used.

Results are of the test part; with `--report_on validation` it is not read.
"""

from dataclasses import dataclass, field

import numpy as np
from datasets import DatasetDict
from transformers import AutoModelForImageClassification, HfArgumentParser, PreTrainedModel

from hf_mixers.baselines import regress_pixels
from hf_mixers.cli import run_as_script
from hf_mixers.data import FlatCollator, PaddedCollator, SplitOptions, make_parts
from hf_mixers.data.other import PixelScaler, load_images, make_image_parts
from hf_mixers.recipes.models import new_model
from hf_mixers.recipes.options import (
    ModelOptions,
    RowArguments,
    RowEvaluationOptions,
    change_arguments,
)
from hf_mixers.recipes.path import (
    Report,
    begin_run,
    name_source,
    report_outputs,
    save_model,
    shrink,
    train_model,
)
from hf_mixers.recipes.targets import Classes

# pipeline tags by how images are read
TASKS = {
    "picture": "image-classification",
    "values": "tabular-classification",
    "ids": "text-classification",
}
# a small model where neither preset nor settings are given
SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "head_scales": [1, 2, 2, 4],
    "pooling": "cls",
    "position_embedding_type": "absolute",
    "initializer_range": 0.02,
}


@dataclass
class ImageModelOptions(ModelOptions):
    """Which model."""

    family: str = field(default="mrsformer", metadata={"help": "Family of the model."})
    patch_size: int | None = field(
        default=None,
        metadata={"help": "Pixels on a side of a patch; default: a seventh of the image or less."},
    )


@dataclass
class DataOptions:
    """Which images, and how they are read."""

    data: str | None = field(
        default=None, metadata={"help": "A folder or file; default: scikit-learn's digits."}
    )
    read_as: str = field(default="picture", metadata={"help": "'picture', 'values' or 'ids'."})
    image_size: int | None = field(
        default=None, metadata={"help": "Scale pictures to this height and width."}
    )
    channels: int | None = field(
        default=None, metadata={"help": "Change pictures to 1 (grey) or 3 channels."}
    )


@dataclass
class Arguments(RowArguments):
    """Arguments of the Trainer, with defaults for this script."""

    output_dir: str | None = field(default="runs/images")
    num_train_epochs: float = field(default=30)
    learning_rate: float = field(default=1e-3)
    weight_decay: float = field(default=0.05)
    per_device_train_batch_size: int = field(default=64)
    per_device_eval_batch_size: int = field(default=256)


def main(arguments: list[str] | None = None) -> dict:
    sections = (ImageModelOptions, DataOptions, SplitOptions, RowEvaluationOptions, Arguments)
    *options, training = HfArgumentParser(sections).parse_args_into_dataclasses(arguments)
    model_options, data, split, evaluation = options
    begin_run(training, smoke=evaluation.smoke)
    parts = make_parts(load_parts(data), split, required=evaluation.report_on)
    if evaluation.smoke:
        parts, training = shrink(parts), change_arguments(training, num_train_epochs=1)
    target = Classes(parts["train"].features["label"].names)
    scaler = PixelScaler.fit(parts["train"], data.read_as)
    rows = {name: scaler.apply(part) for name, part in parts.items()}
    model = make_model(model_options, parts, scaler, target)
    trainer = train_model(
        model,
        training,
        rows,
        target,
        patience=evaluation.patience,
        data_collator=PaddedCollator() if data.read_as == "picture" else FlatCollator(),
    )
    part = evaluation.report_on
    predicted = trainer.predict(rows[part])
    if not save_model(trainer):
        return {}
    outputs = {"model": predicted.predictions}
    if evaluation.baseline:
        outputs["logistic regression on pixels"] = regress_pixels(parts, part)
    report = Report(
        part=part,
        dataset_name=name_source([data.data or "digits"]),
        task=TASKS[data.read_as],
        options=dict(zip(("model", "data", "split", "evaluation"), options, strict=True)),
        columns={"id": parts[part]["id"][:]},
        preparation=scaler,
        processor=scaler.image_processor(parts[part].features["image"].shape[1]),
    )
    return report_outputs(trainer, outputs, predicted.label_ids, target, report)


def load_parts(options: DataOptions) -> DatasetDict:
    """The parts that the data come in."""
    if options.data is not None:
        return load_images(options.data, options.image_size, options.channels)
    from sklearn.datasets import load_digits

    digits = load_digits()
    # 17 shades, spread over those of a byte
    images = (digits.images * 255 / 16).astype(np.uint8)[:, None]
    labels = [str(label) for label in digits.target]
    ids = [f"digit_{number}" for number in range(len(images))]
    return make_image_parts({"train": (list(images), labels, ids)})


def make_model(
    options: ImageModelOptions, parts: DatasetDict, scaler: PixelScaler, target: Classes
) -> PreTrainedModel:
    """A new model for images of this size, or for their pixels one by one."""
    channels, height, width = parts["train"].features["image"].shape
    fields = target.config_fields()
    if scaler.read_as != "picture":
        kind = {"values": {"input_features": channels}, "ids": {"vocab_size": 256}}
        fields |= kind[scaler.read_as]
        # the shades of pixels leave no room for special tokens
        fields |= dict.fromkeys(("pad_token_id", "cls_token_id", "sep_token_id", "mask_token_id"))
        length = {"max_position_embeddings": height * width}
        return new_model(options, fields, suggestions=length)
    if height != width:
        raise ValueError(
            f"Image models read square images, got {height} x {width}: --image_size makes them so."
        )
    patch = options.patch_size or max(n for n in range(1, height // 7 + 2) if height % n == 0)
    fields |= {"image_size": height, "num_channels": channels, "patch_size": patch}
    return new_model(options, fields, suggestions=SMALL, auto_class=AutoModelForImageClassification)


if __name__ == "__main__":
    run_as_script(main)
