"""Settings of a recipe as one table of names: from a file, from `key=value`, and back to a file."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import yaml
from transformers import TrainingArguments

from ..privacy import shorten_path
from ..reporting.files import write_text
from .models import fields_of_checkpoint, known_fields_of, name_closest
from .options import Left, parse_settings

Options = TypeVar("Options")

# the section of Trainer's arguments; other sections are fields of the options
TRAINING = "training"
# config fields of a new model, within the section of the model
SETTINGS = "settings"
# of a machine or a moment, hence not part of what is repeated
_NOT_SAVED = {
    "output_dir",
    "overwrite",
    "resume_from_checkpoint",
    "push_to_hub",
    "logging_dir",
    "local_rank",
}


# parts of types that accept text
_TEXTS = ("str", "Strategy", "dict", "list", "Type", "Any")


class _Loader(yaml.SafeLoader):
    """YAML in which 1e-3 is a number, as it is elsewhere."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def read_yaml(text: str) -> Any:
    """The content of a YAML text.

    >>> read_yaml("[1e-3, none, 2]")
    [0.001, 'none', 2]
    """
    return yaml.load(text, Loader=_Loader)


class Configuration:
    """Values by section and name, checked against what a recipe accepts.

    Args:
        options: The dataclass of a recipe, whose fields are dataclasses themselves.
        arguments: The recipe's class of Trainer arguments.
    """

    def __init__(self, options: type, arguments: type[TrainingArguments]):
        self.options, self.arguments = options, arguments
        self.sections = {one.name: _section_type(one) for one in fields(options)}
        self.values: dict[str, dict[str, Any]] = {name: {} for name in (*self.sections, TRAINING)}

    def read(self, path: str | Path) -> None:
        """Take the values of a YAML file with the sections of the recipe."""
        try:
            content = read_yaml(Path(path).read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise ValueError(f"{path} is not YAML: {error}.") from error
        if not isinstance(content, dict):
            raise ValueError(f"{path} must hold sections such as 'training:', got {content!r:.60}.")
        for section, values in content.items():
            if section not in self.values:
                raise ValueError(f"{path}: {name_closest(section, set(self.values), 'section')}")
            if not isinstance(values, dict):
                raise ValueError(f"{path}: {section} must hold names and values, got {values!r}.")
            for name, value in values.items():
                self.put(f"{section}.{name}", _map_text(value, os.path.expanduser))

    def put(self, key: str, value: Any) -> None:
        """Set one value; a key is a name, or `section.name` where sections share a name.

        Names of no section are config fields of a new model.
        """
        section, _, name = key.rpartition(".")
        places = self._places()
        if section == f"model.{SETTINGS}":
            self._set_field(name, value)
        elif section:
            if section not in places:
                raise ValueError(name_closest(section, set(places), "section"))
            if name not in places[section]:
                raise ValueError(name_closest(name, places[section], f"setting of {section}"))
            self.values[section][name] = value
        else:
            found = [place for place, names in places.items() if name in names]
            if found:
                self.values[found[0]][name] = value
            else:
                self._set_field(name, value)

    def _set_field(self, name: str, value: Any) -> None:
        """Set a config field of a new model or of the checkpoint to start from."""
        settings = self.values.get("model", {})
        if settings.get("checkpoint"):
            known = fields_of_checkpoint(settings["checkpoint"])
        else:
            known = known_fields_of(settings.get("family", self._default("model", "family")))
        if name not in known:
            accepted = set(known).union(*self._places().values())
            raise ValueError(name_closest(name, accepted, "setting of this command"))
        # as a mapping, as JSON, or left open by a file
        fields = parse_settings(settings.get(SETTINGS))
        settings[SETTINGS] = {**fields, name: value}

    def put_all(self, pairs: Iterable[str]) -> None:
        """Set values from texts `key=value`, where the value is read as YAML."""
        for pair in pairs:
            key, found, text = pair.partition("=")
            if not found or not key.strip():
                raise ValueError(f"--set takes key=value, got {pair!r}.")
            try:
                value = read_yaml(text)
            except yaml.YAMLError as error:
                raise ValueError(f"--set {pair}: the value is not YAML.") from error
            self.put(key.strip(), value)

    def build(self) -> tuple[Any, TrainingArguments]:
        """The options and the Trainer's arguments."""
        sections: dict[str, Any] = {
            name: make_section(kind, self.values[name]) for name, kind in self.sections.items()
        }
        return self.options(**sections), make_section(self.arguments, self.values[TRAINING])

    def _places(self) -> dict[str, set[str]]:
        kinds = {**self.sections, TRAINING: self.arguments}
        return {name: {one.name for one in fields(kind)} for name, kind in kinds.items()}

    def _default(self, section: str, name: str) -> Any:
        return next(one.default for one in fields(self.sections[section]) if one.name == name)


def make_section(kind: type[Options], values: Mapping[str, Any]) -> Options:
    """A dataclass of values; what has the wrong type is named."""
    # not `Field.type`: transformers' argument parser puts `int` where `int | None` was
    types = get_type_hints(kind)
    return kind(**{name: _fit_type(name, types[name], value) for name, value in values.items()})


def _fit_type(name: str, kind: Any, value: Any) -> Any:
    """A value for a field; an error for text where a number belongs, and the other way round."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, str):
        is_text = any(word in str(kind) for word in _TEXTS)
        if value.lower() == "none" and "None" in str(kind) and not is_text:
            return None
        is_right = is_text
    elif isinstance(value, (int, float)):
        is_right = any(word in str(kind) for word in ("int", "float", "Any"))
    else:
        is_right = True
    if not is_right:
        wanted = getattr(kind, "__name__", str(kind)).replace("| None", "or none")
        raise ValueError(f"{name} must be {wanted}, got {value!r}.")
    return value


def _section_type(one: Field) -> type:
    if not isinstance(one.type, type) or not is_dataclass(one.type):
        raise TypeError(f"{one.name} of a recipe's options must be a dataclass, got {one.type}.")
    return one.type


def describe_run(options: Any, arguments: TrainingArguments) -> dict[str, dict[str, Any]]:
    """Values that repeat a run: all options, and what differs from the Trainer's own defaults."""
    content = {one.name: dict(vars(getattr(options, one.name))) for one in fields(options)}
    given = arguments.to_dict()
    defaults = {one.name: _default_of(one) for one in fields(TrainingArguments)}
    content[TRAINING] = {
        one.name: given[one.name]
        for one in fields(arguments)
        if one.init
        and one.name not in _NOT_SAVED
        and not one.name.endswith("_token")
        and "hub" not in one.name
        # what was set comes before what data choose, also where it is the Trainer's own default
        and (given.get(one.name) != defaults.get(one.name, MISSING) or _is_left(_default_of(one)))
        and given.get(one.name) is not None
        # chosen again
        and not _is_left(getattr(arguments, one.name))
    }
    return content


def _is_left(value: Any) -> bool:
    return isinstance(value, Left)


def _default_of(one: Field) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default


def save_run(path: Path, options: Any, arguments: TrainingArguments) -> None:
    """Write the values of a run to a file that `Configuration.read` takes.

    Paths are relative to the working folder, or to the home folder as `~/...`.
    """
    values = _map_text(_plain(describe_run(options, arguments)), shorten_path)
    text = yaml.safe_dump(values, sort_keys=False)
    write_text(path, "# repeats this run: hf-mixers COMMAND --config run.yaml\n" + text)


def _map_text(value: Any, change: Callable[[str], str]) -> Any:
    """The same mappings and lists, with every text in them changed."""
    if isinstance(value, dict):
        return {key: _map_text(one, change) for key, one in value.items()}
    if isinstance(value, list):
        return [_map_text(one, change) for one in value]
    return change(value) if isinstance(value, str) else value


def _plain(value: Any) -> Any:
    """Mappings, lists and simple values only."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)
