"""Predict a column of a table, a class or a number, next to gradient boosting.

    python examples/tabular.py --data housing.parquet --target MedHouseVal --split_column split \
        --output_dir runs/housing
    python examples/tabular.py --data adult.csv --target income --output_dir runs/adult

A column is a token, as in FT-Transformer, whose default settings are used; the heads of a MrsFormer
pool neighbouring columns, so their order matters. `--settings '{"head_scales": [1, 1, 1, 1, 1, 1,
1, 1]}'` is the plain FT-Transformer. Numbers are brought to a normal distribution by the quantiles
of the training part, text becomes categories, and the target of a regression is standardised.
Without data, scikit-learn's table of 569 tumours is used (30 numbers, two classes).

Results are of the test part; with `--report_on validation` it is not read.
"""

from dataclasses import dataclass, field

from datasets import ClassLabel, Dataset
from transformers import HfArgumentParser

from hf_mixers.baselines import boost_trees
from hf_mixers.cli import run_as_script
from hf_mixers.data import PaddedCollator, SplitOptions, make_parts
from hf_mixers.data.other import TableEncoder, load_table
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
from hf_mixers.recipes.targets import Amount, Classes, Target


@dataclass
class TableModelOptions(ModelOptions):
    """Which model."""

    family: str = field(default="mrsformer", metadata={"help": "Family of the model."})
    preset: str | None = field(
        default="ft_transformer",
        metadata={"help": "Published settings of the family, which --settings may change."},
    )


@dataclass
class DataOptions:
    """Which table, and what of it."""

    data: list[str] | None = field(
        default=None, metadata={"help": "CSV or parquet files; default: scikit-learn's tumours."}
    )
    target: str | None = field(default=None, metadata={"help": "Column to predict."})
    task: str | None = field(
        default=None,
        metadata={"help": "'classification' or 'regression', if whole numbers are to predict."},
    )
    categorical: list[str] = field(
        default_factory=list, metadata={"help": "Columns of numbers that stand for names."}
    )
    ignore: list[str] = field(
        default_factory=list, metadata={"help": "Columns to leave out, such as an id."}
    )


@dataclass
class Arguments(RowArguments):
    """Arguments of the Trainer, with defaults for this script."""

    output_dir: str | None = field(default="runs/tabular")
    num_train_epochs: float = field(default=100)
    learning_rate: float = field(default=1e-4)
    weight_decay: float = field(default=1e-5)
    lr_scheduler_type: str = field(default="constant")
    warmup_steps: float = field(default=0)
    per_device_train_batch_size: int = field(default=256)
    per_device_eval_batch_size: int = field(default=1024)


def main(arguments: list[str] | None = None) -> dict:
    sections = (TableModelOptions, DataOptions, SplitOptions, RowEvaluationOptions, Arguments)
    *options, training = HfArgumentParser(sections).parse_args_into_dataclasses(arguments)
    model_options, data, split, evaluation = options
    begin_run(training, smoke=evaluation.smoke)
    table, name = load_rows(data, split.split_column)
    is_classes = isinstance(table.features["label"], ClassLabel)
    parts = make_parts(table, split, required=evaluation.report_on)
    if split.split_column:
        parts = parts.remove_columns(split.split_column)
    if evaluation.smoke:
        parts = shrink(parts, "label" if is_classes else None)
        training = change_arguments(training, num_train_epochs=1)
    encoder = TableEncoder.fit(parts["train"], data.categorical)
    rows = encoder.encode(parts)
    target: Target = Amount(encoder.target_mean, encoder.target_std)
    if is_classes:
        target = Classes(table.features["label"].names)
    model = new_model(model_options, {**encoder.config_fields(), **target.config_fields()})
    trainer = train_model(
        model, training, rows, target, patience=evaluation.patience, data_collator=PaddedCollator()
    )
    part = evaluation.report_on
    predicted = trainer.predict(rows[part])
    if not save_model(trainer):
        return {}
    outputs = {"model": predicted.predictions}
    if evaluation.baseline:
        num_classes = len(target.names) if isinstance(target, Classes) else None
        outputs["gradient boosting"] = boost_trees(rows, part, num_classes, training.seed)
    report = Report(
        part=part,
        dataset_name=name,
        task="tabular-classification" if is_classes else "tabular-regression",
        options=dict(zip(("model", "data", "split", "evaluation"), options, strict=True)),
        preparation=encoder,
    )
    return report_outputs(trainer, outputs, predicted.label_ids, target, report)


def load_rows(options: DataOptions, split_column: str | None) -> tuple[Dataset, str]:
    """The table with its column `label`, and what to call it."""
    if options.data is None:
        from sklearn.datasets import load_breast_cancer

        tumours = load_breast_cancer(as_frame=True)
        rows = Dataset.from_pandas(tumours.data).add_column("label", tumours.target.to_numpy())
        names = ClassLabel(names=[str(name) for name in tumours.target_names])
        return rows.cast_column("label", names), "breast_cancer"
    if options.target is None:
        raise ValueError("--target must name the column to predict.")
    keep = [*options.categorical, *([split_column] if split_column else [])]
    table = load_table(options.data, options.target, options.task, options.ignore, keep)
    return table, name_source(options.data)


if __name__ == "__main__":
    run_as_script(main)
