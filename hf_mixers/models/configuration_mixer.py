"""The configuration that all mixer families share."""

import difflib
from dataclasses import fields
from math import inf
from typing import Any, ClassVar, Literal, Self

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig
from transformers.utils import logging

from .dna import FIRST_NUCLEOTIDE_ID

logger = logging.get_logger(__name__)

PROBLEMS = ("regression", "single_label_classification", "multi_label_classification")

# settings for a vocabulary that has no special tokens, as those of the papers
NO_SPECIAL_TOKENS: dict[str, Any] = {
    "pad_token_id": None,
    "cls_token_id": None,
    "sep_token_id": None,
    "mask_token_id": None,
}

# A, C, G and T of `DnaTokenizer`
NUCLEOTIDE_IDS = range(FIRST_NUCLEOTIDE_ID, FIRST_NUCLEOTIDE_ID + 4)

# most different words of a k-mer profile
MAX_WORDS = 1 << 16

# how the papers' models start and end; new models have a norm before the head and start near a
# uniform guess
PUBLISHED_FORM: dict[str, Any] = {"final_norm": "none", "weight_init": "published"}

# words that transformers itself hands to a config besides its fields
_WORDS_OF_TRANSFORMERS = {
    "attn_implementation",
    "auto_map",
    "experts_implementation",
    "loss_type",
    "model_type",
    "name_or_path",
    "num_labels",
    "output_attentions",
    "per_layer_config",
    "quantization_config",
    "torch_dtype",
    "use_cache",
}


def bit_length(length: int) -> int:
    """ceil(log2 length) in integers: the hops that a chord network of `length` tokens needs."""
    return (length - 1).bit_length()


@strict
class MixerConfig(PreTrainedConfig):
    r"""Fields of every family, which adds its own, `hidden_size` and `num_hidden_layers` too.

    Args:
        vocab_size: Number of token ids, and of classes of the masked-language-model head.
        intermediate_size: Width inside the MLPs.
        max_position_embeddings: Length in tokens that the model is built for.
        input_features: Width of continuous input (`input_values`); `None`: the model reads token
            ids.
        ngram_size: Add to the embedding of every token a learned vector of the word of this many
            letters around it, in which all but `letter_token_ids` count as one further letter;
            `None`: tokens are embedded one by one.
        letter_token_ids: Token ids of the letters of words (`ngram_size`, `kmer_size`). Default A,
            C, G and T of `DnaTokenizer`.
        position_embedding_type: `"absolute"` adds a learned vector per position of a sequence.
        pooling: How token outputs become one vector per sequence; `"cls"` lets the model put a
            learned token in front of every sequence and read that one; `"attention"` is a weighted
            mean whose weights are a softmax over the tokens of a learned score, which starts as
            the mean; `"flat"` lays all tokens side by side, so that every sequence must have
            `max_position_embeddings` of them.
        pooling_size: Width of a linear layer with a GELU that every token passes before pooling,
            and so of the pooled vector; `None`: tokens are pooled as they are.
        pooled_norm: `"running"` centres and scales each channel of the pooled vectors by running
            mean and variance, so that heads see what tells sequences apart; `"none"`: as they are.
        final_norm: `"layer"` normalises the channels of every token after the last block (and
            after the decoder of the masked-language-model head, if there is one); `"none"`: the
            papers' form, and that of checkpoints saved without this field.
        weight_init: How new weights start. `"scaled"`: linear layers that end a residual branch
            are scaled by 1/sqrt(2 num_hidden_layers), and output layers start with a standard
            deviation of at most 0.02, so that the first loss is about that of a uniform guess;
            `"published"`: as in the papers' code.
        token_dropout: Share of the tokens that are hidden behind `mask_token_id` in training; k-mer
            profiles are counted before.
        embedding_dropout: Dropout after the embedding.
        hidden_dropout_prob: Dropout inside the blocks.
        classifier_dropout: Dropout before the last layer of the classification heads.
        kmer_size: The pooled vector of a sequence gets a second part, made of a profile of its
            words of this many letters; classification heads of sequences also read the profile
            itself, by a linear layer that starts at zero. `None`: no profile.
        kmer_phases: Count words apart by the position of their first letter modulo this number.
            3 suits genes that begin with their first codon: codons are told from the words that
            overlap two of them. 1: all words are counted together.
        kmer_strands: `"both"` counts each word together with its reverse complement, so that the
            strands of DNA have the same profile; the letters of `letter_token_ids` pair from both
            ends, as A, C, G and T do. It needs `kmer_phases` of 1. `"given"`: words as they stand.
        kmer_hidden_size: Width of that part: GELU units at the end of a small network that reads
            the profile.
        kmer_encoders: How many such networks there are, side by side: that part is so many times
            as wide.
        kmer_dropout: Dropout in that network.
        class_weights: Weight of each class in the loss (single label) or of its positives
            (multi-label), all above 0.
        num_tasks: Sequence pairs only: the head has `num_labels` outputs per task and `task_ids`
            choose.
        initializer_range: Standard deviation of new embeddings, by default 1, or hidden_size^-0.5
            where they are tied to the output; linear layers start Xavier-uniform.
        checkpoint_segment_size: Blocks whose activations are computed again together when gradient
            checkpointing is on; default: the square root of their number.
        check_inputs: Look at the values of ids, masks and labels, and refuse what is out of range.
            `False` saves an accelerator the wait: wrong values then end in undefined results, or
            in an error of the device. What a model computes from right values is the same.
    """

    # a family's published settings by name of the task; `preset` makes configurations of them
    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    base_model_fsdp_plan = {"embed_tokens": "free_full_weight", "layers.*": "free_full_weight"}

    vocab_size: int = 20
    intermediate_size: int = 128
    max_position_embeddings: int = 4096
    input_features: int | None = None
    ngram_size: int | None = None
    letter_token_ids: list[int] | None = None
    position_embedding_type: Literal["none", "absolute"] = "none"
    pooling: Literal["mean", "max", "first", "cls", "attention", "flat"] = "mean"
    pooling_size: int | None = None
    pooled_norm: Literal["none", "running"] = "none"
    final_norm: Literal["none", "layer"] = "layer"
    weight_init: Literal["published", "scaled"] = "scaled"
    token_dropout: float | int = 0.0
    embedding_dropout: float | int = 0.0
    hidden_dropout_prob: float | int = 0.0
    classifier_dropout: float | int = 0.0
    kmer_size: int | None = None
    kmer_phases: int = 1
    kmer_strands: Literal["given", "both"] = "given"
    kmer_hidden_size: int = 128
    kmer_encoders: int = 1
    kmer_dropout: float | int = 0.3
    class_weights: list[float | int] | None = None
    num_tasks: int | None = None
    initializer_range: float | int | None = None
    checkpoint_segment_size: int | None = None
    check_inputs: bool = True
    pad_token_id: int | None = 0
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    cls_token_id: int | None = 2
    sep_token_id: int | None = 3
    mask_token_id: int | None = 4
    tie_word_embeddings: bool = False

    def __post_init__(self, **kwargs) -> None:
        self._warn_of_unknown(kwargs)
        if type(self).__module__.startswith("hf_mixers."):
            # names code that lies beside a checkpoint; the package's own is used, and a copy saved
            # from here has none beside it
            kwargs.pop("auto_map", None)
        if self.initializer_range is None:
            self.initializer_range = self.hidden_size**-0.5 if self.tie_word_embeddings else 1.0
        if self.reads_words and self.letter_token_ids is None:
            self.letter_token_ids = list(NUCLEOTIDE_IDS)
        super().__post_init__(**kwargs)

    @classmethod
    def from_dict(cls, config_dict: dict, **kwargs: Any):
        """Also reads checkpoints that were saved before models had a final norm."""
        if "transformers_version" in config_dict:
            config_dict = {**PUBLISHED_FORM, **config_dict}
        is_reading = kwargs.get("ngram_size") or kwargs.get("kmer_size")
        if is_reading and config_dict.get("letter_token_ids") is None:
            # changes of a checkpoint's fields are made after their defaults
            kwargs.setdefault("letter_token_ids", list(NUCLEOTIDE_IDS))
        return super().from_dict(config_dict, **kwargs)

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Self:
        """The published configuration called `name`, with changes to it.

        >>> from hf_mixers import ParamixerConfig
        >>> config = ParamixerConfig.preset("listops", embedding_dropout=0.1)
        >>> config.max_position_embeddings, config.num_links, config.embedding_dropout
        (2000, 12, 0.1)
        """
        if name not in cls.presets:
            raise ValueError(
                f"{cls.__name__} has the presets {', '.join(cls.presets)}, got {name!r}."
            )
        settings = {**cls.presets[name], **changes}
        if "id2label" in changes and "num_labels" not in changes:
            settings.pop("num_labels", None)
        return cls(**settings)

    @property
    def reads_words(self) -> bool:
        """Whether any part of the model reads words of several letters."""
        return self.ngram_size is not None or self.kmer_size is not None

    @property
    def num_kmers(self) -> int:
        """Entries of a k-mer profile."""
        return self.kmer_phases * len(self.letter_token_ids) ** self.kmer_size

    @property
    def num_ngrams(self) -> int:
        """Words of `ngram_size` letters, the further letter among them."""
        return (len(self.letter_token_ids) + 1) ** self.ngram_size

    @property
    def pooled_size(self) -> int:
        """Width of the vector that pooling makes of a sequence."""
        length = self.max_position_embeddings if self.pooling == "flat" else 1
        return length * (self.pooling_size or self.hidden_size) + self.kmer_width

    @property
    def kmer_width(self) -> int:
        """Width of the part of that vector that comes from a k-mer profile."""
        return 0 if self.kmer_size is None else self.kmer_encoders * self.kmer_hidden_size

    @property
    def length_limit(self) -> int | None:
        """Most tokens of a sequence that the model has weights for; None if any number runs."""
        return self.max_position_embeddings if self.position_embedding_type == "absolute" else None

    @property
    def main_input(self) -> str:
        """Name of the argument that the model reads."""
        return "input_ids" if self.input_features is None else "input_values"

    def describe_input(self) -> str:
        """What the model reads, in words, as in "built for ..."."""
        longest = f"sequences of up to {self.max_position_embeddings:,}"
        if self.main_input == "input_values":
            return f"{longest} steps of {self.input_features} numbers"
        return f"{longest} tokens"

    def describe_answers(self) -> str:
        """What holds for the answers of every model, in a sentence."""
        return "An example gets the same answer alone, padded or batched with others."

    def describe_limits(self) -> list[str]:
        """What users must know about the lengths that the model reads, in sentences."""
        longest = f"{self.max_position_embeddings:,}"
        if self.pooling == "flat":
            return [f"Reads sequences of exactly {longest} tokens; others are refused."]
        if self.length_limit is not None:
            return [f"Reads up to {longest} tokens; longer sequences are refused."]
        return [f"Built for up to {longest} tokens; {self._describe_longer()}"]

    def _describe_longer(self) -> str:
        return (
            "in longer sequences, tokens farther apart than that may be outside each other's"
            " receptive field."
        )

    def example_inputs(self) -> dict[str, str]:
        """Code of made-up inputs for two examples, by argument of the model."""
        length = self.max_position_embeddings if self.pooling == "flat" else 10
        if self.main_input == "input_values":
            return {"input_values": f"torch.randn(2, {length}, {self.input_features})"}
        return {"input_ids": f"torch.randint({self.vocab_size}, (2, {length}))"}

    def tokenizer_arguments(self) -> dict[str, bool | int | str]:
        """With which arguments a tokenizer makes inputs for this model."""
        if self.pooling != "flat":
            return {"padding": True}
        # flat models read padding as tokens
        return {
            "padding": "max_length",
            "max_length": self.max_position_embeddings,
            "return_attention_mask": False,
        }

    def skipped_length(self, index: int) -> int:
        """Block `index` acts only on sequences longer than this."""
        return 0

    def check_class_weights(self) -> None:
        """What a head with classes checks: a checkpoint may be loaded for other classes."""
        if self.class_weights is None:
            return
        if self.problem_type == "regression" or (self.num_labels == 1 and not self.problem_type):
            raise ValueError("class_weights have no meaning for a regression.")
        if len(self.class_weights) != self.num_labels:
            raise ValueError(
                f"class_weights must hold one weight per label ({self.num_labels}), got "
                f"{len(self.class_weights)}."
            )

    def _warn_of_unknown(self, kwargs: dict) -> None:
        known = {field.name for field in fields(self)}
        for name in kwargs:
            if name in known or name in _WORDS_OF_TRANSFORMERS or name.startswith("_"):
                continue
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean `{close[0]}`?" if close else "."
            logger.warning(f"{type(self).__name__} has no field `{name}`{hint}")

    def validate_sizes(self) -> None:
        """Part of `validate`: whole numbers that must be positive, rates that must be in [0, 1)."""
        for name in (
            "vocab_size",
            "hidden_size",
            "intermediate_size",
            "num_hidden_layers",
            "max_position_embeddings",
            "input_features",
            "num_tasks",
            "pooling_size",
            "ngram_size",
            "kmer_size",
            "kmer_phases",
            "kmer_hidden_size",
            "kmer_encoders",
            "checkpoint_segment_size",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}.")
        for field in fields(self):
            value = getattr(self, field.name)
            is_rate = field.name.endswith(("_dropout", "_dropout_prob"))
            if is_rate and value is not None and not 0 <= value < 1:
                raise ValueError(f"{field.name} must lie in [0, 1), got {value}.")

    def validate_words(self) -> None:
        """Part of `validate`: words that cannot be counted."""
        if not self.reads_words:
            return
        if self.main_input != "input_ids":
            name = "kmer_size" if self.ngram_size is None else "ngram_size"
            raise ValueError(f"{name} needs token input, but the model reads {self.main_input}.")
        ids = self.letter_token_ids
        is_set = len(ids) >= 2 and len(set(ids)) == len(ids)
        if not is_set or not 0 <= min(ids) <= max(ids) < self.vocab_size:
            raise ValueError(
                f"letter_token_ids must be two or more different ids below vocab_size="
                f"{self.vocab_size}, got {ids}."
            )
        if self.kmer_strands == "both" and (self.kmer_phases != 1 or len(ids) % 2):
            raise ValueError(
                'kmer_strands="both" needs kmer_phases=1 and an even number of letters, got'
                f" {self.kmer_phases} and {len(ids)}."
            )
        sizes = {"kmer_size": len(ids), "ngram_size": len(ids) + 1}
        for name, letters in sizes.items():
            if letters ** (getattr(self, name) or 0) > MAX_WORDS:
                raise ValueError(
                    f"{name}={getattr(self, name)} makes more than the {MAX_WORDS} words of"
                    f" {letters} letters that are accepted."
                )

    def validate_heads(self) -> None:
        """Part of `validate`: settings of the heads that contradict each other."""
        if self.problem_type not in (None, *PROBLEMS):
            raise ValueError(
                f"problem_type must be one of {', '.join(PROBLEMS)}, got {self.problem_type!r}."
            )
        for weight in self.class_weights or ():
            if not 0 < weight < inf:
                raise ValueError(f"class_weights must be positive and finite, got {weight}.")
        if self.num_tasks is not None and self.num_labels == 1 and self.problem_type is None:
            raise ValueError(
                "num_tasks with one label needs problem_type: 'multi_label_classification' for yes "
                "or no, 'regression' for a number."
            )
        if self.token_dropout and (self.mask_token_id is None or self.main_input != "input_ids"):
            raise ValueError("token_dropout needs token input and a mask_token_id to hide them by.")
        is_out = self.pad_token_id is not None and self.pad_token_id >= self.vocab_size
        if is_out and self.main_input == "input_ids":
            raise ValueError(
                f"pad_token_id must be below vocab_size={self.vocab_size}, got {self.pad_token_id}."
            )
        if self.tie_word_embeddings and self.main_input != "input_ids":
            raise ValueError(
                f"tie_word_embeddings needs token input, but the model reads {self.main_input}: "
                "there is no token embedding to tie to."
            )
