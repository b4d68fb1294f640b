"""Long-sequence mixers for Hugging Face Transformers, exact on any mix of lengths.

Importing this package registers its models and tokenizers with the Auto classes of transformers,
and its pipelines.
"""

from typing import TYPE_CHECKING

from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from . import _moved
from .auto import FAMILIES, AutoModelForSequencePairClassification, Family, register_family
from .convert import from_original
from .models.configuration_chordmixer import ChordMixerConfig
from .models.configuration_combiner import CombinerConfig
from .models.configuration_mrsformer import MrsFormerConfig
from .models.configuration_paramixer import ParamixerConfig
from .models.dna import reverse_complement
from .models.modeling_chordmixer import (
    ChordMixerForMaskedLM,
    ChordMixerForSequenceClassification,
    ChordMixerForSequencePairClassification,
    ChordMixerForTokenClassification,
    ChordMixerModel,
)
from .models.modeling_combiner import (
    CombinerForCausalLM,
    CombinerForMaskedLM,
    CombinerForSequenceClassification,
    CombinerForSequencePairClassification,
    CombinerForTokenClassification,
    CombinerModel,
)
from .models.modeling_mrsformer import (
    MrsFormerForImageClassification,
    MrsFormerForMaskedLM,
    MrsFormerForSequenceClassification,
    MrsFormerForSequencePairClassification,
    MrsFormerForTokenClassification,
    MrsFormerModel,
)
from .models.modeling_paramixer import (
    ParamixerForMaskedLM,
    ParamixerForSequenceClassification,
    ParamixerForSequencePairClassification,
    ParamixerForTokenClassification,
    ParamixerModel,
)
from .models.tokenization_byte import ByteTokenizer
from .models.tokenization_char import CharTokenizer
from .models.tokenization_dna import DnaTokenizer
from .models.tokenization_genome import GenomeTokenizer
from .pipelines import register_pipelines
from .publish import push_with_code, save_with_code

if TYPE_CHECKING:
    from .training import MixerTrainer, MixerTrainingArguments

__version__ = "0.1.0"

_moved.install()

register_family(
    Family(
        config=ChordMixerConfig,
        models={
            AutoModel: ChordMixerModel,
            AutoModelForMaskedLM: ChordMixerForMaskedLM,
            AutoModelForSequenceClassification: ChordMixerForSequenceClassification,
            AutoModelForTokenClassification: ChordMixerForTokenClassification,
            AutoModelForSequencePairClassification: ChordMixerForSequencePairClassification,
        },
    )
)
register_family(
    Family(
        config=ParamixerConfig,
        models={
            AutoModel: ParamixerModel,
            AutoModelForMaskedLM: ParamixerForMaskedLM,
            AutoModelForSequenceClassification: ParamixerForSequenceClassification,
            AutoModelForTokenClassification: ParamixerForTokenClassification,
            AutoModelForSequencePairClassification: ParamixerForSequencePairClassification,
        },
    )
)
register_family(
    Family(
        config=MrsFormerConfig,
        models={
            AutoModel: MrsFormerModel,
            AutoModelForMaskedLM: MrsFormerForMaskedLM,
            AutoModelForSequenceClassification: MrsFormerForSequenceClassification,
            AutoModelForTokenClassification: MrsFormerForTokenClassification,
            AutoModelForSequencePairClassification: MrsFormerForSequencePairClassification,
            AutoModelForImageClassification: MrsFormerForImageClassification,
        },
    )
)
register_family(
    Family(
        config=CombinerConfig,
        models={
            AutoModel: CombinerModel,
            AutoModelForMaskedLM: CombinerForMaskedLM,
            AutoModelForSequenceClassification: CombinerForSequenceClassification,
            AutoModelForTokenClassification: CombinerForTokenClassification,
            AutoModelForSequencePairClassification: CombinerForSequencePairClassification,
            AutoModelForCausalLM: CombinerForCausalLM,
        },
    )
)

register_pipelines()

__all__ = [
    "FAMILIES",
    "AutoModelForSequencePairClassification",
    "ByteTokenizer",
    "CharTokenizer",
    "ChordMixerConfig",
    "ChordMixerForMaskedLM",
    "ChordMixerForSequenceClassification",
    "ChordMixerForSequencePairClassification",
    "ChordMixerForTokenClassification",
    "ChordMixerModel",
    "CombinerConfig",
    "CombinerForCausalLM",
    "CombinerForMaskedLM",
    "CombinerForSequenceClassification",
    "CombinerForSequencePairClassification",
    "CombinerForTokenClassification",
    "CombinerModel",
    "DnaTokenizer",
    "Family",
    "GenomeTokenizer",
    "MixerTrainer",
    "MixerTrainingArguments",
    "MrsFormerConfig",
    "MrsFormerForImageClassification",
    "MrsFormerForMaskedLM",
    "MrsFormerForSequenceClassification",
    "MrsFormerForSequencePairClassification",
    "MrsFormerForTokenClassification",
    "MrsFormerModel",
    "ParamixerConfig",
    "ParamixerForMaskedLM",
    "ParamixerForSequenceClassification",
    "ParamixerForSequencePairClassification",
    "ParamixerForTokenClassification",
    "ParamixerModel",
    "from_original",
    "push_with_code",
    "register_family",
    "reverse_complement",
    "save_with_code",
]


def __getattr__(name: str):
    # the Trainer imports much that a model does not need
    if name in ("MixerTrainer", "MixerTrainingArguments"):
        from . import training

        return getattr(training, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
