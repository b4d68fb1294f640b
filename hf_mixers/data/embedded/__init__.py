"""Real data that comes with the package, so that everything can be tried at once."""

from pathlib import Path

from datasets import Dataset, DatasetDict

from ..other.time_series import load_time_series
from ..sequences import load_sequences

FOLDER = Path(__file__).parent


def load_embedded(name: str = "clostridium_mycoplasma") -> Dataset:
    """Labelled DNA that comes with the package; its provenance is in the README of this folder.

    >>> genes = load_embedded()
    >>> len(genes), genes.features["label"].names
    (9617, ['Clostridium', 'Mycoplasma'])
    """
    return load_sequences(_find(name, ".parquet"), label_column="genus")


def load_embedded_series(name: str = "japanese_vowels") -> DatasetDict:
    """Labelled time series that come with the package, in their official parts.

    >>> vowels = load_embedded_series()
    >>> {part: len(rows) for part, rows in vowels.items()}
    {'train': 270, 'test': 370}
    """
    return load_time_series(_find(name, ".npz"))


def _find(name: str, ending: str) -> Path:
    path = FOLDER / f"{name}{ending}"
    if not path.exists():
        names = ", ".join(sorted(file.stem for file in FOLDER.glob(f"*{ending}")))
        raise ValueError(f"The package comes with {names}, got {name!r}.")
    return path
