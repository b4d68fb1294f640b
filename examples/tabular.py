"""Predict a column of a table, a class or a number, next to gradient boosting.

    python examples/tabular.py --data housing.parquet --target MedHouseVal --split_column split \
        --output_dir runs/housing
    python examples/tabular.py --data adult.csv --target income --output_dir runs/adult

A column is a token, as in FT-Transformer, whose default settings are used; the heads of a MrsFormer
pool neighbouring columns, so their order matters. `--settings '{"head_scales": [1, 1, 1, 1, 1, 1,
1, 1]}'` is the plain FT-Transformer. Numbers are brought to a normal distribution by the quantiles
of the training part, text becomes categories, and the target of a regression is standardised.
Without data, scikit-learn's table of 569 tumours is used (30 numbers, two classes).

All numbers are of the test part, which is looked at once, at the end; with `--report_on validation`
it is not looked at at all.
"""

from dataclasses import dataclass, field

import numpy as np
from datasets import ClassLabel, Dataset, DatasetDict
from transformers import HfArgumentParser

from hf_mixers.data import PaddedCollator, split_by_column
from hf_mixers.data.other import TableEncoder, load_table
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
from hf_mixers.recipes.targets import Amount, Classes, Goal
from hf_mixers.training.processes import begin_run, run_as_script


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
    split_column: str | None = field(
        default=None, metadata={"help": "Column with train, val and test; default: at random."}
    )
    categorical: list[str] = field(
        default_factory=list, metadata={"help": "Columns of numbers that stand for names."}
    )
    ignore: list[str] = field(
        default_factory=list, metadata={"help": "Columns to leave out, such as an id."}
    )


@dataclass
class Arguments(SupervisedArguments):
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
    parser = HfArgumentParser((TableModelOptions, DataOptions, SupervisedOptions, Arguments))
    *options, training = parser.parse_args_into_dataclasses(arguments)
    model_options, data_options, run_options = options
    begin_run(training)
    table, name = load_rows(data_options)
    is_classes = isinstance(table.features["label"], ClassLabel)
    parts = DatasetDict(train=table)
    if data_options.split_column:
        parts = split_by_column(table, data_options.split_column)
        parts = parts.remove_columns(data_options.split_column)
    parts = choose_parts(parts, run_options, training, "label" if is_classes else None)
    encoder = TableEncoder.fit(parts["train"], data_options.categorical)
    rows = encoder.encode(parts)
    goal: Goal = Amount(encoder.target_mean, encoder.target_std)
    if is_classes:
        goal = Classes(table.features["label"].names)
    judged = run_options.report_on
    return run_supervised(
        build_model(model_options, {**encoder.config_fields(), **goal.config_fields()}),
        training,
        rows,
        goal,
        options=options,
        collator=PaddedCollator(),
        baselines={"gradient boosting": lambda: boost_trees(rows, judged, goal, training.seed)},
        dataset_name=name,
        task="tabular-classification" if is_classes else "tabular-regression",
        preparation=encoder,
    )


def load_rows(options: DataOptions) -> tuple[Dataset, str]:
    """The table with its column `label`, and what to call it."""
    if options.data is None:
        from sklearn.datasets import load_breast_cancer

        tumours = load_breast_cancer(as_frame=True)
        rows = Dataset.from_pandas(tumours.data).add_column("label", tumours.target.to_numpy())
        names = ClassLabel(names=[str(name) for name in tumours.target_names])
        return rows.cast_column("label", names), "breast_cancer"
    if options.target is None:
        raise SystemExit("--target must name the column to predict.")
    table = load_table(options.data, options.target, options.task, options.ignore)
    return table, name_source(options.data)


def boost_trees(rows: DatasetDict, judged: str, goal: Goal, seed: int) -> np.ndarray:
    """Outputs of scikit-learn's gradient boosting, which stops early by the same rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    tables = {name: join_columns(part) for name, part in rows.items()}
    numeric = len(rows["train"][0].get("numeric_values", []))
    # the trees take up to 255 categories as such, and more as ordered codes
    few = tables["train"][0][:, numeric:].max(0, initial=0) < 255
    options = {
        "categorical_features": np.concatenate([np.zeros(numeric, bool), few]),
        "random_state": seed,
    }
    held_out = {}
    if "validation" in rows:
        options |= {"max_iter": 1000, "early_stopping": True, "n_iter_no_change": 30}
        held_out = dict(zip(("X_val", "y_val"), tables["validation"], strict=True))
    if isinstance(goal, Amount):
        trees = HistGradientBoostingRegressor(**options).fit(*tables["train"], **held_out)
        return trees.predict(tables[judged][0])
    trees = HistGradientBoostingClassifier(**options).fit(*tables["train"], **held_out)
    return spread_classes(trees, tables[judged][0], len(goal.names))


def join_columns(part: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and codes side by side, and the labels."""
    names = [name for name in ("numeric_values", "category_ids") if name in part.column_names]
    columns = [np.asarray(part[name][:], dtype=np.float64) for name in names]
    return np.concatenate(columns, axis=1), np.asarray(part["labels"][:])


if __name__ == "__main__":
    run_as_script(main)
