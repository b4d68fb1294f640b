"""Pipelines of transformers for sequences of DNA, registered when the package is imported."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from transformers import AutoModel
from transformers.pipelines import PIPELINE_REGISTRY
from transformers.pipelines.base import Pipeline


class DnaEmbeddingPipeline(Pipeline):
    """Sequences -> vectors, packed by tokens and without padding.

    `pipeline("dna-embedding", folder)` takes a sequence, a list of them, or any iterable, for which
    it gives an iterator. Options are those of `hf_mixers.inference.embed`, such as `layer`,
    `pooling`, `rc_average` and `token_budget`.
    """

    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False
    _load_tokenizer = True

    def _sanitize_parameters(self, **options: Any) -> tuple[dict, dict, dict]:
        return {}, options, {}

    def __call__(self, inputs: str | Iterable[Any], **options: Any) -> Any:
        """A vector for a sequence, a list of vectors for a list, an iterator for other iterables.

        Args:
            inputs: Letters, or mappings with `sequence`; not names of files.
        """
        is_one = isinstance(inputs, (str, Mapping))
        records = self.preprocess([inputs] if is_one else inputs)
        vectors = self.postprocess(self._forward(records, **{**self._forward_params, **options}))
        if is_one:
            return next(vectors)
        return list(vectors) if isinstance(inputs, (list, tuple)) else vectors

    def preprocess(self, inputs: Any, **_: Any) -> Any:
        """Records with names, so that no sequence is taken for the name of a file."""
        for number, item in enumerate(inputs, 1):
            sequence = item["sequence"] if isinstance(item, Mapping) else item
            if not isinstance(sequence, str):
                raise ValueError(f"Input {number} is {type(sequence).__name__}: text is accepted.")
            yield f"record_{number}", sequence

    def _forward(self, input_tensors: Any, **options: Any) -> Any:
        from .inference import embed

        settings = {"strict": True, "device": self.device, **options}
        return embed(self.model, input_tensors, tokenizer=self.tokenizer, **settings)

    def postprocess(self, model_outputs: Any, **_: Any) -> Iterator[np.ndarray]:
        """The vectors alone."""
        return (one.vector for one in model_outputs)


def register_pipelines() -> None:
    """Make the pipelines known to `transformers.pipeline`."""
    if "dna-embedding" not in PIPELINE_REGISTRY.get_supported_tasks():
        PIPELINE_REGISTRY.register_pipeline(
            "dna-embedding", pipeline_class=DnaEmbeddingPipeline, pt_model=AutoModel, type="text"
        )
