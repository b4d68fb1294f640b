"""Families and the Auto classes of transformers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.utils import is_vision_available

from ._compat import auto_classes_of, make_model
from .models.tokenization_byte import ByteTokenizer
from .models.tokenization_char import CharTokenizer
from .models.tokenization_dna import DnaTokenizer
from .models.tokenization_genome import GenomeTokenizer

# heads that pre-training uses; the first that a family has is its AutoModelForPreTraining
_PRETRAINING = (AutoModelForMaskedLM, AutoModelForCausalLM)


@dataclass(frozen=True)
class Family:
    """The classes of one mixer family.

    `models` maps an Auto class, of transformers or of this package, to the family's model for it.

    >>> from transformers import AutoModelForMaskedLM
    >>> from hf_mixers import FAMILIES
    >>> FAMILIES["chordmixer"].models[AutoModelForMaskedLM].__name__
    'ChordMixerForMaskedLM'
    """

    config: type[PreTrainedConfig]
    models: Mapping[type, type[PreTrainedModel]]

    @property
    def model_type(self) -> str:
        return self.config.model_type

    def model_class(self, auto_class: type) -> type[PreTrainedModel]:
        """The model behind an Auto class, or a `ValueError` if the family has none."""
        classes = self.auto_classes()
        if auto_class not in classes:
            known = ", ".join(auto.__name__ for auto in classes)
            raise ValueError(
                f"The family {self.model_type} has models for {known}, got {auto_class.__name__}."
            )
        return classes[auto_class]

    def auto_classes(self) -> dict[type, type[PreTrainedModel]]:
        """The model class behind every Auto class, that of pre-training included."""
        found = [self.models[auto] for auto in _PRETRAINING if auto in self.models]
        derived: dict[type, type[PreTrainedModel]] = {}
        if found:
            derived[AutoModelForPreTraining] = found[0]
        return {**derived, **self.models}

    def model_classes(self) -> list[type[PreTrainedModel]]:
        """Every model class once."""
        return list(dict.fromkeys(self.models.values()))


FAMILIES: dict[str, Family] = {}


def register_family(family: Family) -> Family:
    """Make the Auto classes of transformers know a family."""
    FAMILIES[family.model_type] = family
    AutoConfig.register(family.model_type, family.config, exist_ok=True)
    for auto_class, model_class in family.auto_classes().items():
        # our own Auto class asks the families
        if auto_class is not AutoModelForSequencePairClassification:
            auto_class.register(  # type: ignore[attr-defined]  # Auto classes have no common base
                family.config, model_class, exist_ok=True
            )
    # a folder names its tokenizer's class; the last one here is for folders that do not
    for tokenizer in (CharTokenizer, ByteTokenizer, GenomeTokenizer, DnaTokenizer):
        AutoTokenizer.register(family.config, tokenizer_class=tokenizer, exist_ok=True)
    if AutoModelForImageClassification in family.models and is_vision_available():
        from .models.image_processing_grey import GreyImageProcessor

        classes: dict[str, type] = {"pil": GreyImageProcessor}
        AutoImageProcessor.register(family.config, image_processor_classes=classes, exist_ok=True)
    return family


def find_auto_class(model: PreTrainedModel) -> type | None:
    """The Auto class that loads a model, of this package or of transformers; None without one.

    >>> from transformers import BertConfig, BertForMaskedLM
    >>> config = BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
    >>> find_auto_class(BertForMaskedLM(config)).__name__
    'AutoModelForMaskedLM'
    """
    family = FAMILIES.get(model.config.model_type)
    models = {} if family is None else family.models
    found = [auto for auto, kind in models.items() if type(model) is kind]
    others = list(auto_classes_of(model))
    # a bare model has others besides; one with a head has its own and that of pre-training
    if AutoModel in others:
        return AutoModel
    return next(
        iter([*found, *sorted(others, key=lambda auto: auto is AutoModelForPreTraining)]), None
    )


class AutoModelForSequencePairClassification:
    """The pair head of whichever family a checkpoint or config belongs to."""

    @staticmethod
    def from_config(config: PreTrainedConfig, **kwargs: Any) -> PreTrainedModel:
        return make_model(_pair_class(config), config, **kwargs)

    @staticmethod
    def from_pretrained(name_or_path: str, *args: Any, **kwargs: Any) -> PreTrainedModel:
        config = kwargs.pop("config", None)
        if config is None:
            # settings of the config are taken out of kwargs; where files come from, both need
            places = {key: kwargs[key] for key in PLACES if key in kwargs}
            config, kwargs = AutoConfig.from_pretrained(
                name_or_path, return_unused_kwargs=True, **kwargs
            )
            kwargs |= places
        return _pair_class(config).from_pretrained(name_or_path, *args, config=config, **kwargs)


# arguments of from_pretrained that say where files come from
PLACES = ("cache_dir", "force_download", "local_files_only", "revision", "subfolder", "token")


def _pair_class(config: PreTrainedConfig) -> type[PreTrainedModel]:
    if config.model_type not in FAMILIES:
        raise ValueError(
            f"Sequence pairs are for {', '.join(FAMILIES)}, got model_type={config.model_type!r}."
        )
    return FAMILIES[config.model_type].model_class(AutoModelForSequencePairClassification)
