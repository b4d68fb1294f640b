"""Gradient boosting for the rows of tables."""

import numpy as np
from datasets import Dataset, DatasetDict

from .classes import spread_classes


def boost_trees(
    rows: DatasetDict, part: str, num_classes: int | None = None, seed: int = 0
) -> np.ndarray:
    """Outputs of scikit-learn's gradient boosting for one part of encoded rows.

    Args:
        rows: What `TableEncoder` made; a validation part, if there is one, stops boosting early.
        num_classes: None for a regression.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    tables = {name: join_columns(table) for name, table in rows.items()}
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
    if num_classes is None:
        trees = HistGradientBoostingRegressor(**options).fit(*tables["train"], **held_out)
        return trees.predict(tables[part][0])
    trees = HistGradientBoostingClassifier(**options).fit(*tables["train"], **held_out)
    return spread_classes(trees, tables[part][0], num_classes)


def join_columns(part: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and codes side by side, and the labels."""
    names = [name for name in ("numeric_values", "category_ids") if name in part.column_names]
    columns = [np.asarray(part[name][:], dtype=np.float64) for name in names]
    return np.concatenate(columns, axis=1), np.asarray(part["labels"][:])
