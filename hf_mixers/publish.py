"""Checkpoints that carry their code, for readers who do not have this package.

The usual way to share a model is `model.push_to_hub(...)`, and `import hf_mixers` before loading
it. A checkpoint saved *with code* also loads where hf_mixers is not installed, with
`trust_remote_code=True`.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

from huggingface_hub import HfApi, ModelCard
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.dynamic_module_utils import get_relative_import_files

from .auto import FAMILIES, Family
from .models.tokenization_table import TableTokenizer


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
        # tokenizers of transformers itself need no code
        if isinstance(tokenizer, TableTokenizer):
            names = [_reference(type(tokenizer)), None]
            _set_auto_map(folder / "tokenizer_config.json", {"AutoTokenizer": names})
            _copy_code(folder, type(tokenizer))
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
    api = HfApi(token=token)
    repo_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
    if revision is not None:
        api.create_branch(repo_id, branch=revision, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        save_with_code(folder, model, tokenizer, card)
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
    classes = {auto.__name__: model for auto, model in family.auto_classes().items()}
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
        source = sys.modules[module].__file__
        for file in (source, *get_relative_import_files(source)):
            shutil.copy(file, folder)
