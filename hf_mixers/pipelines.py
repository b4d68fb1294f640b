"""Pipelines of transformers for sequences of DNA, registered when the package is imported."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from transformers import AutoModel, AutoModelForMaskedLM
from transformers.pipelines import PIPELINE_REGISTRY
from transformers.pipelines.base import Pipeline

from ._compat import options_of_pipeline


class DnaPipeline(Pipeline):
    """Base: a function of `hf_mixers.inference` over whatever is given, packed by tokens.

    One input gives one result, a list gives a list, any other iterable gives an iterator.
    """

    # declared as None there, and set to truth values in every pipeline
    _load_processor: Any = False
    _load_image_processor: Any = False
    _load_feature_extractor: Any = False
    _load_tokenizer: Any = True
    # what is one input and not several
    single: tuple[type, ...] = (str, Mapping)

    def _sanitize_parameters(self, **options: Any) -> tuple[dict, dict, dict]:
        return {}, options, {}

    def __call__(self, inputs: Any, *args: Any, **options: Any) -> Any:
        is_one = isinstance(inputs, self.single)
        records = self.preprocess([inputs] if is_one else inputs)
        settings = {**options_of_pipeline(self), **options}
        results = self.postprocess(self._forward(records, **settings))
        if is_one:
            return next(results)
        return list(results) if isinstance(inputs, list) else results

    def _settings(self, options: dict[str, Any]) -> dict[str, Any]:
        """Options of a function: what cannot be read is an error unless they say otherwise."""
        return {"strict": True, "device": self.device, "tokenizer": self.tokenizer, **options}


class DnaEmbeddingPipeline(DnaPipeline):
    """Sequences -> vectors, without padding.

    `pipeline("dna-embedding", folder)` takes letters, or mappings with `sequence`; not names of
    files. Options are those of `hf_mixers.inference.embed`, such as `layer`, `pooling`,
    `rc_average` and `token_budget`.
    """

    def preprocess(self, input_: Any, **_: Any) -> Any:
        """Records with names, so that no sequence is taken for the name of a file."""
        for number, item in enumerate(input_, 1):
            sequence = item["sequence"] if isinstance(item, Mapping) else item
            if not isinstance(sequence, str):
                raise ValueError(f"Input {number} is {type(sequence).__name__}: text is accepted.")
            yield f"record_{number}", sequence

    def _forward(self, input_tensors: Any, **options: Any) -> Any:
        from .inference import embed

        return embed(self.model, input_tensors, **self._settings(options))

    def postprocess(self, model_outputs: Any, **_: Any) -> Iterator[np.ndarray]:
        """The vectors alone."""
        return (one.vector for one in model_outputs)


class VariantEffectPipeline(DnaPipeline):
    """Variants -> scores of a masked language model.

    `pipeline("variant-effect", folder, reference="genome.fa")` takes variants `(chrom, pos, ref,
    alt)` or mappings with these names. Options are those of `hf_mixers.inference.score_variants`.
    """

    single = (tuple, Mapping)

    def preprocess(self, input_: Any, **_: Any) -> Any:
        """Variants as they are."""
        if isinstance(input_, str):
            raise ValueError(
                "Variants are tuples or mappings, got text: files are for the command."
            )
        return input_

    def _forward(self, input_tensors: Any, **options: Any) -> Any:
        from .inference import score_variants

        settings = self._settings(options)
        if "reference" not in settings:
            raise ValueError(
                "variant-effect requires reference: a FASTA file, or sequences by name."
            )
        return score_variants(self.model, input_tensors, **settings)

    def postprocess(self, model_outputs: Any, **_: Any) -> Iterator[dict[str, Any]]:
        """A mapping for every alternate allele."""
        return (one._asdict() for one in model_outputs)


PIPELINES = {
    "dna-embedding": (DnaEmbeddingPipeline, AutoModel),
    "variant-effect": (VariantEffectPipeline, AutoModelForMaskedLM),
}


def register_pipelines() -> None:
    """Make the pipelines known to `transformers.pipeline`."""
    known = PIPELINE_REGISTRY.get_supported_tasks()
    for task, (pipeline_class, model) in PIPELINES.items():
        if task not in known:
            PIPELINE_REGISTRY.register_pipeline(
                task, pipeline_class=pipeline_class, pt_model=model, type="text"
            )
