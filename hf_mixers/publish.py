"""What goes to the Hub: chosen files of a run's folder, and checkpoints that carry their code.

The usual way to share a model is `model.push_to_hub(...)` or `publish_folder`, and `import
hf_mixers` before loading it. A checkpoint saved *with code* also loads where hf_mixers is not
installed, with `trust_remote_code=True`.
"""

import inspect
import json
import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import CommitInfo, HfApi, ModelCard
from transformers import AutoConfig, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.dynamic_module_utils import get_relative_import_files

from .auto import FAMILIES, Family
from .models.tokenization_table import TableTokenizer
from .privacy import find_private, strip_private, strip_text

# names and endings of what a run writes for readers; predictions name rows of the user's data, and
# training_args.bin holds tokens, so they are not among them
PUBLISHED = (
    *("config.json", "generation_config.json", "model.safetensors", "model-*-of-*.safetensors"),
    *("model.safetensors.index.json", "adapter_config.json", "adapter_model.safetensors"),
    *("tokenizer_config.json", "tokenizer.json", "vocab.json", "merges.txt", "vocab.txt"),
    *("special_tokens_map.json", "added_tokens.json", "preprocessor_config.json"),
    *("preparation.json", "README.md", "metrics.json"),
    *("history.png", "by_length.png", "confusion.png", "scatter.png", "embedding.png"),
)
# what a checkpoint of the Trainer has besides, for those who go on with a training
RESUMED = ("trainer_state.json", "optimizer.pt", "scheduler.pt", "scaler.pt", "rng_state*.pth")
# one of them makes a folder that of a model
_CONFIGS = ("config.json", "adapter_config.json")
# accounts of a run, in which every path becomes a base name
_ACCOUNTS = ("metrics.json", "trainer_state.json")
# settings, which stay what they are but for the place that a model was loaded from
_WITH_ORIGIN = ("config.json", "adapter_config.json", "tokenizer_config.json")
_ORIGIN = "name_or_path"
# what an Inference Endpoint imports from a repository
_HANDLER = '''"""Answers requests of an Inference Endpoint."""

from hf_mixers.inference.endpoint import EndpointHandler

__all__ = ["EndpointHandler"]
'''


@dataclass(frozen=True)
class ChosenFiles:
    """Files of a folder that are published, and what is left out."""

    published: list[Path]
    left_out: list[Path]


def choose_files(folder: str | Path, names: Iterable[str] = PUBLISHED) -> ChosenFiles:
    """What of a folder is published: model, tokenizer, card, results and plots, by name.

    A folder without a model or with a smoke run is refused; links and sub-folders are left out.
    """
    folder = Path(folder)
    if not any((folder / name).is_file() for name in _CONFIGS):
        raise ValueError(f"{folder} holds no model: there is no config.json.")
    metrics = folder / "metrics.json"
    if metrics.is_file() and json.loads(metrics.read_text(encoding="utf-8")).get("smoke"):
        raise ValueError(f"{folder} is a smoke run, which is not published.")
    patterns, entries = tuple(names), sorted(folder.iterdir())
    published = [
        path
        for path in entries
        if path.is_file()
        and not path.is_symlink()
        and any(path.match(pattern) for pattern in patterns)
    ]
    return ChosenFiles(published, [path for path in entries if path not in published])


def stage_files(folder: str | Path, place: str | Path, names: Iterable[str] = PUBLISHED) -> None:
    """Copy what is published of a folder to an empty one, without tokens and paths of the machine.

    A file that holds a token or the home folder nevertheless is an error.
    """
    for path in choose_files(folder, names).published:
        copy = Path(place) / path.name
        if path.name in _ACCOUNTS:
            _write_json(copy, strip_private(json.loads(path.read_text(encoding="utf-8"))))
        elif path.name in _WITH_ORIGIN:
            _write_json(copy, _strip_origin(json.loads(path.read_text(encoding="utf-8"))))
        elif path.suffix == ".md":
            copy.write_text(_strip_lines(path.read_text(encoding="utf-8")), encoding="utf-8")
        else:
            shutil.copyfile(path, copy)
        # weights are numbers, and gigabytes of them
        found = None if path.suffix in (".safetensors", ".pt") else find_private(copy.read_bytes())
        if found is not None:
            raise ValueError(f"{path.name} holds {found} and is not published.")


def _strip_origin(content: dict) -> dict:
    return {
        name: strip_private(value) if name.endswith(_ORIGIN) else value
        for name, value in content.items()
    }


def _strip_lines(text: str) -> str:
    return "\n".join(strip_text(line) for line in text.split("\n"))


def publish_folder(
    folder: str | Path,
    repo_id: str,
    *,
    with_code: bool = False,
    endpoint: bool = False,
    private: bool | None = None,
    licence: str | None = None,
    revision: str | None = None,
    commit_message: str = "Upload model",
    token: str | None = None,
) -> str:
    """Push the files that `choose_files` names to a Hub repository, in one commit; return its URL.

    Args:
        with_code: Add the source files that the model needs.
        endpoint: Add what an Inference Endpoint runs, see `write_endpoint`.
        licence: What the card says about the licence from now on.
    """
    with tempfile.TemporaryDirectory() as place:
        stage_files(folder, place)
        if with_code:
            _add_code(Path(place))
        if endpoint:
            write_endpoint(place)
        if licence is not None:
            _set_licence(Path(place) / "README.md", licence)
        return _push(place, repo_id, private, revision, commit_message, token).commit_url


def write_endpoint(folder: str | Path) -> list[Path]:
    """Write `handler.py` and `requirements.txt` of Inference Endpoints next to a model."""
    from . import __version__

    folder = Path(folder)
    if not (folder / "tokenizer_config.json").is_file():
        raise ValueError(f"{folder} has no tokenizer, which an endpoint for sequences needs.")
    content = {"handler.py": _HANDLER, "requirements.txt": f"hf-mixers>={__version__}\n"}
    for name, text in content.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in content]


def find_licence(folder: str | Path) -> str | None:
    """What the card of a folder says about the licence."""
    path = Path(folder) / "README.md"
    return ModelCard.load(path).data.license if path.is_file() else None


def _set_licence(path: Path, licence: str) -> None:
    card: Any = ModelCard.load(path) if path.is_file() else ModelCard("---\n---\n")
    card.data.license = licence
    card.save(path)


def _add_code(folder: Path) -> None:
    config = AutoConfig.from_pretrained(folder)
    if config.model_type not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise ValueError(f"Code is published with models of {known}, got {config.model_type!r}.")
    family = FAMILIES[config.model_type]
    _set_auto_map(folder / "config.json", _model_map(family))
    _copy_code(folder, family.config, *family.model_classes())
    if (folder / "tokenizer_config.json").is_file():
        _add_tokenizer_code(folder, AutoTokenizer.from_pretrained(folder))


def _add_tokenizer_code(folder: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    # tokenizers of transformers itself need no code
    if isinstance(tokenizer, TableTokenizer):
        names = [_reference(type(tokenizer)), None]
        _set_auto_map(folder / "tokenizer_config.json", {"AutoTokenizer": names})
        _copy_code(folder, type(tokenizer))


def save_with_code(
    folder: str | Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None = None,
    card: ModelCard | None = None,
) -> Path:
    """Save model, tokenizer and card with the source files that they need; return the folder."""
    folder = Path(folder)
    family = _family_of(model)
    model.save_pretrained(folder)
    _set_auto_map(folder / "config.json", _model_map(family))
    _copy_code(folder, family.config, *family.model_classes())
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
        _add_tokenizer_code(folder, tokenizer)
    if card is not None:
        card.save(folder / "README.md")
    return folder


def push_with_code(
    repo_id: str,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None = None,
    card: ModelCard | None = None,
    *,
    private: bool | None = None,
    revision: str | None = None,
    commit_message: str = "Upload model with code",
    token: str | None = None,
) -> str:
    """Push what `save_with_code` saves to a Hub repository, in one commit, and return its URL."""
    with tempfile.TemporaryDirectory() as folder:
        save_with_code(folder, model, tokenizer, card)
        return _push(folder, repo_id, private, revision, commit_message, token).commit_url


def _push(
    folder: str,
    repo_id: str,
    private: bool | None,
    revision: str | None,
    commit_message: str,
    token: str | None,
) -> CommitInfo:
    """Upload a folder of nothing but what is to be published."""
    api = HfApi(token=token)
    repo_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
    if revision is not None:
        api.create_branch(repo_id, branch=revision, exist_ok=True)
    return api.upload_folder(
        repo_id=repo_id, folder_path=folder, revision=revision, commit_message=commit_message
    )


def _family_of(model: PreTrainedModel) -> Family:
    for family in FAMILIES.values():
        if type(model) in family.model_classes():
            return family
    raise ValueError(
        f"Code is published with models of {', '.join(FAMILIES)} as they come from this package, "
        f"got {type(model).__name__}."
    )


def _model_map(family: Family) -> dict[str, str]:
    """All heads, so that a checkpoint of one head loads as any other."""
    classes: dict[str, type] = {
        auto.__name__: model for auto, model in family.auto_classes().items()
    }
    classes["AutoConfig"] = family.config
    return {auto: _reference(target) for auto, target in classes.items()}


def _reference(target: type) -> str:
    return f"{target.__module__.rpartition('.')[2]}.{target.__name__}"


def _set_auto_map(path: Path, auto_map: dict) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    content["auto_map"] = auto_map
    _write_json(path, dict(sorted(content.items())))


def _write_json(path: Path, content: dict) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")


def _copy_code(folder: Path, *classes: type) -> None:
    for module in {target.__module__ for target in classes}:
        source = inspect.getfile(sys.modules[module])
        for file in (source, *get_relative_import_files(source)):
            shutil.copy(file, folder)
