"""Frozen models: what their pooled vectors tell of classes, next to k-mer vectors."""

from dataclasses import dataclass, field

import numpy as np
import torch
from datasets import Dataset
from transformers import AutoModel, AutoTokenizer, PreTrainedModel
from transformers.utils import logging

from ..baselines.kmer_models import profiles_of
from ..data.batching import TokenBudgetBatchSampler
from ..data.collators import FlatCollator
from ..data.encode import tokenize_sequences
from ..data.parts import SplitOptions
from ..metrics.embeddings import embedding_report
from .labelled_dna import DataOptions, load_parts

logger = logging.get_logger(__name__)


@dataclass
class FrozenOptions:
    """Which model, and how its vectors are scored."""

    checkpoint: str = field(metadata={"help": "Folder or Hub name of a pre-trained model."})
    report_on: str = field(default="test", metadata={"help": "'test' or 'validation'."})
    neighbours: int = field(default=5, metadata={"help": "How many nearest vectors vote."})
    kmer_sizes: list[int] = field(
        default_factory=lambda: [3, 4, 5], metadata={"help": "Of the k-mer vectors next to it."}
    )
    token_budget: int = field(default=16384, metadata={"help": "Most tokens of a batch."})
    bf16: bool = field(default=False, metadata={"help": "Matrix products in bfloat16."})
    seed: int = field(default=0, metadata={"help": "Of the clusters."})


def evaluate_frozen(options: FrozenOptions, data: DataOptions, split: SplitOptions) -> dict:
    """Neighbours, probe and clusters of pooled vectors and of k-mer vectors, on one part."""
    parts = load_parts(data, split, options.report_on, seed=0, smoke=False)
    tokenizer = AutoTokenizer.from_pretrained(options.checkpoint)
    model = AutoModel.from_pretrained(options.checkpoint).eval()
    names = ("train", options.report_on)
    labels = [np.asarray(parts[name]["label"][:]) for name in names]
    texts = [list(parts[name]["sequence"]) for name in names]
    vectors = {
        f"{k}-mers": [profiles_of(part, k, both_strands=False) for part in texts]
        for k in options.kmer_sizes
    }
    # words of three bases by their place in the codons of a gene
    vectors["3-mers by codon position"] = [
        profiles_of(part, 3, both_strands=False, phases=3) for part in texts
    ]
    vectors["model"] = [
        embed_rows(
            model, tokenize_sequences(parts[name], tokenizer), options.token_budget, options.bf16
        )
        for name in names
    ]
    reports = {}
    for name, (train, scored) in vectors.items():
        reports[name] = embedding_report(
            (train, labels[0]),
            (scored, labels[1]),
            neighbours=options.neighbours,
            seed=options.seed,
        )
        logger.info(f"{name}: {reports[name]}")
    return {
        options.report_on: reports,
        "history": [],
        "config": model.config.to_diff_dict(),
        "parameters": model.num_parameters(),
    }


def embed_rows(
    model: PreTrainedModel, rows: Dataset, token_budget: int = 16384, bf16: bool = False
) -> np.ndarray:
    """Pooled vectors `(N, config.pooled_size)` of tokenized sequences, in their order."""
    collator = FlatCollator()
    found = np.empty((len(rows), model.config.pooled_size), np.float32)
    sampler = TokenBudgetBatchSampler(rows["length"][:], token_budget, shuffle=False)
    device = model.device
    for indices in sampler:
        batch = collator([{"input_ids": rows[index]["input_ids"]} for index in indices])
        batch = {k: v.to(device) if torch.is_tensor(v) else v for k, v in batch.items()}
        with (
            torch.inference_mode(),
            torch.autocast(device.type, torch.bfloat16, enabled=bf16),
        ):
            found[indices] = model(**batch).pooler_output.float().cpu().numpy()
    return found
