"""Recorded trainings of causal language models, which compare attentions."""

import json

from .experiment import Experiment

LANGUAGE_MODELS: dict[str, Experiment] = {}


def language_model(settings: dict, *arguments: str) -> Experiment:
    """A causal model with the same width, blocks and budget, whatever its attention."""
    common = {"hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 4}
    common |= {"num_attention_heads": 4, "row_summary": "none"}
    return Experiment(
        "train_language_model",
        (
            *("--settings", json.dumps(common | settings), *arguments),
            *("--window", "1024", "--num_windows", "3200", "--num_train_epochs", "1"),
            *("--learning_rate", "3e-3", "--muon_learning_rate", "2e-2", "--warmup_steps", "0.05"),
            *("--per_device_train_batch_size", "2", "--max_eval_windows", "300"),
        ),
        seeds=(0, 1, 2),
    )


# Combiner next to full attention (a segment as long as the window) and to its sparse patterns
# without summaries; the rows' keys are those of tokens, so that all have as many parameters
_ATTENTIONS = {
    "full": {"pattern": "fixed", "segment_length": 1024},
    "fixed": {"pattern": "fixed"},
    "fixed_sparse": {"pattern": "fixed", "use_summaries": False},
    "axial_rowmajor": {"pattern": "axial_rowmajor"},
    "axial_sparse": {"pattern": "axial_mixture", "use_summaries": False},
}
_CORPORA = {
    "linux": ("--data", "{data}/longdoc_linux4/data.parquet", "--tokenizer", "char"),
    "genomes": ("--data", "{data}/dna_mlm_genomes/genomes.fa.gz", "--tokenizer", "dna"),
}
for corpus, given in _CORPORA.items():
    for attention, settings in _ATTENTIONS.items():
        LANGUAGE_MODELS[f"lm_{corpus}_{attention}"] = language_model(settings, *given)
