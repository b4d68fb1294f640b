"""Families and the Auto classes of transformers."""

from dataclasses import dataclass

from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModel,
    AutoModelForImageClassification,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.utils import is_vision_available

from .models.tokenization_byte import ByteTokenizer
from .models.tokenization_char import CharTokenizer
from .models.tokenization_dna import DnaTokenizer
from .models.tokenization_genome import GenomeTokenizer


@dataclass(frozen=True)
class Family:
    """The classes of one mixer family, one per task."""

    config: type[PreTrainedConfig]
    model: type[PreTrainedModel]
    masked_lm: type[PreTrainedModel]
    sequence_classification: type[PreTrainedModel]
    token_classification: type[PreTrainedModel]
    sequence_pair_classification: type[PreTrainedModel]
    image_classification: type[PreTrainedModel] | None = None

    @property
    def model_type(self) -> str:
        return self.config.model_type

    def auto_classes(self) -> dict[type, type[PreTrainedModel]]:
        """The model class behind every Auto class."""
        classes = {
            AutoModel: self.model,
            AutoModelForPreTraining: self.masked_lm,
            AutoModelForMaskedLM: self.masked_lm,
            AutoModelForSequenceClassification: self.sequence_classification,
            AutoModelForTokenClassification: self.token_classification,
        }
        if self.image_classification is not None:
            classes[AutoModelForImageClassification] = self.image_classification
        return classes

    def model_classes(self) -> list[type[PreTrainedModel]]:
        """Every model class once."""
        classes = [*self.auto_classes().values(), self.sequence_pair_classification]
        return list(dict.fromkeys(classes))


FAMILIES: dict[str, Family] = {}


def register_family(family: Family) -> Family:
    """Make the Auto classes of transformers know a family."""
    FAMILIES[family.model_type] = family
    AutoConfig.register(family.model_type, family.config, exist_ok=True)
    for auto_class, model_class in family.auto_classes().items():
        auto_class.register(family.config, model_class, exist_ok=True)
    # a folder names its tokenizer's class; the last one here is for folders that do not
    for tokenizer in (CharTokenizer, ByteTokenizer, GenomeTokenizer, DnaTokenizer):
        AutoTokenizer.register(family.config, tokenizer_class=tokenizer, exist_ok=True)
    if family.image_classification is not None and is_vision_available():
        from .models.image_processing_grey import GreyImageProcessor

        classes = {"pil": GreyImageProcessor}
        AutoImageProcessor.register(family.config, image_processor_classes=classes, exist_ok=True)
    return family


class AutoModelForSequencePairClassification:
    """The pair head of whichever family a checkpoint or config belongs to."""

    @staticmethod
    def from_config(config: PreTrainedConfig, **kwargs) -> PreTrainedModel:
        return _pair_class(config)._from_config(config, **kwargs)

    @staticmethod
    def from_pretrained(name_or_path: str, *args, **kwargs) -> PreTrainedModel:
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
    return FAMILIES[config.model_type].sequence_pair_classification
