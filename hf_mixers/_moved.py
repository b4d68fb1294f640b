"""Import paths of the release before, which work until the next one with a warning."""

import importlib
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# modules by their old name
MODULES = {
    "hf_mixers.cards": "hf_mixers.reporting.card",
    "hf_mixers.environment": "hf_mixers.reporting.environment",
    "hf_mixers.plots": "hf_mixers.reporting.plots",
    "hf_mixers.data.images": "hf_mixers.data.other.images",
    "hf_mixers.data.synthetic": "hf_mixers.tasks.synthetic",
    "hf_mixers.data.tables": "hf_mixers.data.other.tables",
    "hf_mixers.data.time_series": "hf_mixers.data.other.time_series",
}


class _Alias(Loader):
    """Gives a module that lies elsewhere now."""

    def __init__(self, place: str):
        self.place = place

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        _warn(spec.name, self.place)
        module = importlib.import_module(self.place)
        self.kept = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # the import system has given the module the specification of its old name
        module.__spec__ = self.kept


class _Finder(MetaPathFinder):
    def find_spec(self, name, path=None, target=None) -> ModuleSpec | None:
        return ModuleSpec(name, _Alias(MODULES[name])) if name in MODULES else None


def install() -> None:
    """Let Python find the modules of the table."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())


def moved_names(module: str, places: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """A `__getattr__` for a module some of whose names are found in other modules now."""
    table = {name: place for place, names in places.items() for name in names}

    def find(name: str) -> Any:
        if name not in table:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(f"{module}.{name}", f"{table[name]}.{name}")
        return getattr(importlib.import_module(table[name]), name)

    return find


def _warn(old: str, new: str) -> None:
    warnings.warn(
        f"{old} is now {new}; the old path goes away in the next release.",
        DeprecationWarning,
        stacklevel=3,
    )
