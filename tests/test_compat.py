"""Private interfaces of other packages: all in use are listed, and all listed exist."""

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest
import torch
import transformers
from accelerate import Accelerator

import hf_mixers
from hf_mixers import _compat, training
from hf_mixers.models import _compat as models_compat

PACKAGE = Path(hf_mixers.__file__).parent
CALLED = models_compat.CALLED | _compat.CALLED
OVERRIDDEN = models_compat.OVERRIDDEN | _compat.OVERRIDDEN
# methods of NamedTuple, which Python documents
OF_NAMED_TUPLES = {"_replace", "_fields", "_asdict"}


def checkpointed_chordmixer() -> transformers.PreTrainedModel:
    model = hf_mixers.ChordMixerModel(hf_mixers.ChordMixerConfig(track_size=4))
    model.gradient_checkpointing_enable()
    return model


def embedding_pipeline() -> transformers.Pipeline:
    model = hf_mixers.ChordMixerModel(hf_mixers.ChordMixerConfig(track_size=4))
    return transformers.pipeline("dna-embedding", model, tokenizer=hf_mixers.DnaTokenizer())


# what `Class()` in a name stands for: attributes that only instances have
INSTANCES = {
    "torch.nn.Module()": torch.nn.Module,
    "transformers.PreTrainedConfig()": transformers.PreTrainedConfig,
    "accelerate.Accelerator()": Accelerator,
    "transformers.Pipeline()": embedding_pipeline,
    "hf_mixers.ChordMixerModel()": checkpointed_chordmixer,
}


def find(name: str) -> object:
    """The object that a name of the tables stands for."""
    if "()" in name:
        begin, rest = name.split("().")
        found = INSTANCES[f"{begin}()"]()
    else:
        module, rest = name.split(".", 1)
        found = importlib.import_module(module)
    for part in rest.split("."):
        if not hasattr(found, part):
            pytest.fail(f"{name} is gone ({part!r}): see _compat.py for why it is needed.")
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name", sorted({*CALLED, *OVERRIDDEN}))
def test_every_private_interface_exists(name):
    find(name)


def test_a_removed_interface_is_named():
    with pytest.raises(pytest.fail.Exception, match=r"Trainer\._gone"):
        find("transformers.Trainer._gone")


def test_every_reason_is_given():
    assert all(reason.strip() for reason in (CALLED | OVERRIDDEN).values())


# --- nothing is used that is not listed ---


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def own_private_names(trees: dict[Path, ast.Module]) -> set[str]:
    """Private names that the package defines itself."""
    names = set()
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                is_own = isinstance(node.value, ast.Name) and node.value.id == "self"
                names.update({node.attr} if is_own else ())
    return names


def find_foreign_uses(trees: dict[Path, ast.Module]) -> list[tuple[Path, str]]:
    """Private attributes and imported names, in any file, that the package does not define."""
    own = own_private_names(trees) | {path.stem for path in trees} | OF_NAMED_TUPLES
    found = []
    for path, tree in trees.items():
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.Attribute):
                names = [node.attr]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [*node.module.split("."), *(alias.name for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [part for alias in node.names for part in alias.name.split(".")]
            found += [(path, name) for name in names if is_private(name) and name not in own]
    return found


def parse(files: list[Path]) -> dict[Path, ast.Module]:
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}


@pytest.mark.slow
def test_private_attributes_are_used_in_compat_only():
    trees = parse(sorted(PACKAGE.rglob("*.py")))
    used = find_foreign_uses(trees)
    listed = {part for name in CALLED for part in name.split(".")}
    unlisted = sorted({name for _, name in used} - listed)
    assert not unlisted, f"not in the tables of _compat.py: {', '.join(unlisted)}"
    elsewhere = [f"{path.name}: {name}" for path, name in used if path.name != "_compat.py"]
    assert not elsewhere, f"call these through functions of _compat.py: {', '.join(elsewhere)}"


def test_the_scan_finds_a_private_use(tmp_path):
    file = tmp_path / "new.py"
    file.write_text("import torch._dynamo\n\ndef ask(model):\n    return model._hf_hook\n")
    assert [name for _, name in find_foreign_uses(parse([file]))] == ["_dynamo", "_hf_hook"]


def package_classes() -> list[type]:
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(hf_mixers.__path__, "hf_mixers.")
        # a metric's script is loaded by evaluate
        if "length_aware_classification." not in found.name
    ]
    classes = {
        value
        for module in (*modules, training)
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__.startswith("hf_mixers")
    }
    return sorted(classes, key=lambda one: f"{one.__module__}.{one.__qualname__}")


# packages whose private names matter
FOREIGN = ("torch", "transformers", "accelerate", "datasets", "tokenizers")


def overridden_by(owner: type) -> set[str]:
    """Private names that a class defines and that a base of another package has as well."""
    bases = [base for base in owner.__mro__[1:] if base.__module__.split(".")[0] in FOREIGN]
    return {
        name
        for name in vars(owner)
        if is_private(name) and any(name in vars(base) for base in bases)
    }


# torch writes this on every autograd function by itself
WRITTEN_BY_BASES = {"_backward_cls", "_abc_impl"}


def test_overridden_private_names_are_listed():
    listed = {name.rpartition(".")[2] for name in OVERRIDDEN} | WRITTEN_BY_BASES
    unlisted = {
        f"{owner.__name__}.{name}"
        for owner in package_classes()
        for name in overridden_by(owner)
        if name not in listed
    }
    assert not unlisted, f"not in OVERRIDDEN of _compat.py: {', '.join(sorted(unlisted))}"


def test_every_listed_override_is_in_use():
    used = {name for owner in package_classes() for name in overridden_by(owner)}
    assert {name.rpartition(".")[2] for name in OVERRIDDEN} <= used
