"""`py.typed` is shipped: what users import says its types. `make types` checks that they hold."""

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

# packages from which users import
PUBLIC = (
    "hf_mixers",
    "hf_mixers.baselines",
    "hf_mixers.convert",
    "hf_mixers.data",
    "hf_mixers.data.other",
    "hf_mixers.metrics",
    "hf_mixers.training",
)


def public_functions(module: str) -> Iterator[tuple[str, Any]]:
    """Public functions of a package, and public methods of its classes, that are written here."""
    package = importlib.import_module(module)
    for name in package.__all__:
        thing = getattr(package, name)
        if inspect.isfunction(thing):
            yield name, thing
        elif inspect.isclass(thing):
            for method, found in vars(thing).items():
                found = getattr(found, "__func__", found)
                found = inspect.unwrap(found) if callable(found) else found
                is_ours = inspect.isfunction(found) and found.__module__.startswith("hf_mixers")
                if is_ours and not method.startswith("_"):
                    yield f"{name}.{method}", found


def unannotated(function: Any) -> list[str]:
    """Parameters without a type, and `return`; those that are passed on are left out."""
    signature = inspect.signature(function)
    passed_on = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    names = [
        parameter.name
        for number, parameter in enumerate(signature.parameters.values())
        if parameter.annotation is inspect.Parameter.empty
        and parameter.kind not in passed_on
        and not (number == 0 and parameter.name in ("self", "cls"))
    ]
    is_open = signature.return_annotation is inspect.Signature.empty
    return [*names, "return"] if is_open else names


@pytest.mark.parametrize("module", PUBLIC)
def test_public_functions_say_their_types(module):
    functions = dict(public_functions(module))
    assert functions
    missing = {name: unannotated(function) for name, function in functions.items()}
    assert not {name: parts for name, parts in missing.items() if parts}


def test_a_function_without_types_is_found():
    def scale(values, factor: float, **options):
        return values

    assert unannotated(scale) == ["values", "return"]
