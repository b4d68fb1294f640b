"""Classify small images, by patches or pixel by pixel as one long sequence, next to a baseline.

    python examples/image_sequence.py --data mnist/ --output_dir runs/mnist
    python examples/image_sequence.py --data mnist/ --read_as values --family chordmixer \
        --output_dir runs/mnist_pixels

Data are folders of pictures by class, .npz files, parquet files of the Hub or the IDX files of
MNIST. `--read_as picture` gives patches to an image model (MrsFormer); `values` gives pixels as
numbers and `ids` shades of grey as tokens to the sequence classifier of any family. Without data,
scikit-learn's 1,797 digits of 8 x 8 pixels are used.

All numbers are of the test part, which is looked at once, at the end; with `--report_on validation`
it is not looked at at all.
"""

from dataclasses import dataclass, field

import numpy as np
from datasets import DatasetDict
from transformers import HfArgumentParser, PreTrainedModel, ViTImageProcessor
from transformers.utils import is_vision_available

from hf_mixers.data import FlatCollator, PaddedCollator
from hf_mixers.data.other import PixelScaler, load_images, make_image_parts
from hf_mixers.data.other.images import READINGS, read_pixels
from hf_mixers.recipes.supervised import (
    ModelOptions,
    SupervisedArguments,
    SupervisedOptions,
    build_model,
    choose_parts,
    name_source,
    run_supervised,
    spread_classes,
)
from hf_mixers.recipes.targets import Classes
from hf_mixers.training.processes import begin_run, run_as_script

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
class Arguments(SupervisedArguments):
    """Arguments of the Trainer, with defaults for this script."""

    output_dir: str | None = field(default="runs/images")
    num_train_epochs: float = field(default=30)
    learning_rate: float = field(default=1e-3)
    weight_decay: float = field(default=0.05)
    per_device_train_batch_size: int = field(default=64)
    per_device_eval_batch_size: int = field(default=256)


def main(arguments: list[str] | None = None) -> dict:
    parser = HfArgumentParser((ImageModelOptions, DataOptions, SupervisedOptions, Arguments))
    *options, training = parser.parse_args_into_dataclasses(arguments)
    model_options, data_options, run_options = options
    if data_options.read_as not in READINGS:
        raise SystemExit(
            f"--read_as must be one of {', '.join(READINGS)}, got {data_options.read_as!r}."
        )
    begin_run(training)
    parts = choose_parts(load_parts(data_options), run_options, training)
    goal = Classes(parts["train"].features["label"].names)
    scaler = PixelScaler.fit(parts["train"], data_options.read_as)
    judged = run_options.report_on
    model = make_model(model_options, parts, scaler, goal)
    return run_supervised(
        model,
        training,
        {name: scaler.apply(part) for name, part in parts.items()},
        goal,
        options=options,
        collator=PaddedCollator() if scaler.read_as == "picture" else FlatCollator(),
        baselines={"logistic regression on pixels": lambda: regress_pixels(parts, judged)},
        dataset_name=name_source([data_options.data or "digits"]),
        task={"picture": "image-classification", "ids": "text-classification"}.get(
            scaler.read_as, "tabular-classification"
        ),
        columns={"id": parts[judged]["id"][:]},
        preparation=scaler,
        processor=make_processor(model, scaler),
    )


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
    options: ImageModelOptions, parts: DatasetDict, scaler: PixelScaler, goal: Classes
) -> PreTrainedModel:
    """A new model for images of this size, or for their pixels one by one."""
    channels, height, width = parts["train"].features["image"].shape
    fields = goal.config_fields()
    if scaler.read_as != "picture":
        kind = {"values": {"input_features": channels}, "ids": {"vocab_size": 256}}
        fields |= kind[scaler.read_as]
        # the shades of pixels leave no room for special tokens
        fields |= dict.fromkeys(("pad_token_id", "cls_token_id", "sep_token_id", "mask_token_id"))
        length = {"max_position_embeddings": height * width}
        return build_model(options, fields, suggestions=length)
    if height != width:
        raise SystemExit(
            f"Image models read square images, got {height} x {width}: --image_size makes them so."
        )
    patch = options.patch_size or max(n for n in range(1, height // 7 + 2) if height % n == 0)
    fields |= {"image_size": height, "num_channels": channels, "patch_size": patch}
    return build_model(options, fields, suggestions=SMALL, head="image_classification")


def make_processor(model: PreTrainedModel, scaler: PixelScaler) -> ViTImageProcessor | None:
    """What prepares pictures in the pipeline of transformers, which knows colour pictures only."""
    if scaler.read_as != "picture" or len(scaler.mean) != 3 or not is_vision_available():
        return None
    size = model.config.image_size
    return ViTImageProcessor(
        size={"height": size, "width": size},
        image_mean=[mean / 255 for mean in scaler.mean],
        image_std=[std / 255 for std in scaler.std],
    )


def regress_pixels(parts: DatasetDict, judged: str) -> np.ndarray:
    """Probabilities of a logistic regression; its penalty is chosen on the validation part."""
    from sklearn.linear_model import LogisticRegression

    pixels = {name: read_pixels(part) / 255 for name, part in parts.items()}
    pixels = {name: images.reshape(len(images), -1) for name, images in pixels.items()}
    labels = {name: np.asarray(part["label"][:]) for name, part in parts.items()}
    strengths = (0.01, 0.1, 1.0) if "validation" in parts else (0.1,)
    models = [
        LogisticRegression(C=strength, max_iter=200).fit(pixels["train"], labels["train"])
        for strength in strengths
    ]
    held_out = "validation" if "validation" in parts else "train"
    best = max(models, key=lambda model: model.score(pixels[held_out], labels[held_out]))
    return spread_classes(best, pixels[judged], len(parts["train"].features["label"].names))


if __name__ == "__main__":
    run_as_script(main)
