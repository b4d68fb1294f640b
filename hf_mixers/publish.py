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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, ModelCard
from transformers import AutoConfig, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.dynamic_module_utils import get_relative_import_files

from .auto import FAMILIES, Family
from .models.tokenization_table import TableTokenizer

# names and endings of what a run writes for readers; predictions name rows of the user's data, and
# training_args.bin holds tokens, so they are not among them
PUBLISHED = (
    *("config.json", "generation_config.json", "model.safetensors", "model-*-of-*.safetensors"),
    *("model.safetensors.index.json", "tokenizer_config.json", "tokenizer.json", "vocab.json"),
    *("special_tokens_map.json", "added_tokens.json", "preprocessor_config.json"),
    *("preparation.json", "README.md", "metrics.json"),
    *("history.png", "by_length.png", "confusion.png", "scatter.png", "embedding.png"),
)


@dataclass(frozen=True)
class ChosenFiles:
    """Files of a folder that are published, and what is left out."""

    published: list[Path]
    left_out: list[Path]


def choose_files(folder: str | Path) -> ChosenFiles:
    """What of a folder is published: model, tokenizer, card, results and plots, by name.

    An unfinished or smoke run is refused.
    """
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise ValueError(f"{folder} holds no model: there is no config.json.")
    metrics = folder / "metrics.json"
    if metrics.is_file() and json.loads(metrics.read_text(encoding="utf-8")).get("smoke"):
        raise ValueError(f"{folder} is a smoke run, which is not published.")
    entries = sorted(folder.iterdir())
    published = [
        path
        for path in entries
        if path.is_file()
        and not path.is_symlink()
        and any(path.match(pattern) for pattern in PUBLISHED)
    ]
    return ChosenFiles(published, [path for path in entries if path not in published])


def publish_folder(
    folder: str | Path,
    repo_id: str,
    *,
    with_code: bool = False,
    private: bool | None = None,
    licence: str | None = None,
    revision: str | None = None,
    commit_message: str = "Upload model",
    token: str | None = None,
) -> str:
    """Push the files that `choose_files` names to a Hub repository, in one commit; return its URL.

    Args:
        with_code: Add the source files that the model needs.
        licence: What the card says about the licence, where it says nothing.
    """
    files = choose_files(folder).published
    with tempfile.TemporaryDirectory() as place:
        for path in files:
            shutil.copy(path, place)
        if with_code:
            _add_code(Path(place))
        if licence is not None:
            _set_licence(Path(place) / "README.md", licence)
        return _push(place, repo_id, private, revision, commit_message, token)


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
        return _push(folder, repo_id, private, revision, commit_message, token)


def _push(
    folder: str,
    repo_id: str,
    private: bool | None,
    revision: str | None,
    commit_message: str,
    token: str | None,
) -> str:
    """Upload a folder of nothing but what is to be published."""
    api = HfApi(token=token)
    repo_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
    if revision is not None:
        api.create_branch(repo_id, branch=revision, exist_ok=True)
    commit = api.upload_folder(
        repo_id=repo_id, folder_path=folder, revision=revision, commit_message=commit_message
    )
    return commit.commit_url


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
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")


def _copy_code(folder: Path, *classes: type) -> None:
    for module in {target.__module__ for target in classes}:
        source = inspect.getfile(sys.modules[module])
        for file in (source, *get_relative_import_files(source)):
            shutil.copy(file, folder)
