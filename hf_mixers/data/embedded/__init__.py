"""Real data that comes with the package, so that everything can be tried at once."""

from pathlib import Path

from datasets import Dataset

from ..sequences import load_sequences

FOLDER = Path(__file__).parent


def load_embedded(name: str = "clostridium_mycoplasma") -> Dataset:
    """Labelled DNA that comes with the package; its provenance is in the README of this folder.

    >>> genes = load_embedded()
    >>> len(genes), genes.features["label"].names
    (9617, ['Clostridium', 'Mycoplasma'])
    """
    path = FOLDER / f"{name}.parquet"
    if not path.exists():
        names = ", ".join(sorted(file.stem for file in FOLDER.glob("*.parquet")))
        raise ValueError(f"The package comes with {names}, got {name!r}.")
    return load_sequences(path, label_column="genus")
