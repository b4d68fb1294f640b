"""Masked bases guessed from both strands: a model reads each sequence and its reverse complement.

What a model has learned of one strand holds on the other, so the mean of both guesses is better
than either, at twice the price.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..data.batching import TokenBudgetBatchSampler
from ..data.collators import FlatCollator
from ..metrics import masked_report
from ..models.dna import reverse_complement, reverse_complement_scores
from ..models.losses import IGNORED

BASES = "ACGT"
# tokens that are read at once
TOKEN_BUDGET = 16384


def score_both_strands(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    masked: Sequence[tuple[np.ndarray, np.ndarray]],
    *,
    bf16: bool = False,
) -> dict[str, Any]:
    """Accuracy and perplexity of the mean of both strands' probabilities.

    Args:
        model: A masked language model.
        tokenizer: A DNA tokenizer.
        masked: Ids and labels of sequences; labels are ids of A, C, G and T, or -100.
    """
    letters = np.asarray(tokenizer.convert_tokens_to_ids(list(BASES)))
    ids = [row for row, _ in masked]
    own = guess_bases(model, ids, letters, bf16)
    other = guess_bases(model, [reverse_complement(row) for row in ids], letters, bf16)
    counts, hits, loss = [], [], 0.0
    for (row, labels), here, there in zip(masked, own, other, strict=True):
        places = np.flatnonzero(labels != IGNORED)
        mean = (here + reverse_complement_scores(there, row))[places] / 2
        wanted = (labels[places, None] == letters).argmax(1)
        counts.append(len(places))
        hits.append((mean.argmax(1) == wanted).sum())
        loss -= float(np.log(np.maximum(mean[np.arange(len(places)), wanted], 1e-30)).sum())
    report = masked_report(hits, counts, [len(row) for row in ids])
    report["overall"]["perplexity"] = {"value": math.exp(loss / max(1, sum(counts)))}
    return report


@torch.inference_mode()
def guess_bases(
    model: PreTrainedModel, ids: Sequence[np.ndarray], letters: np.ndarray, bf16: bool = False
) -> list[np.ndarray]:
    """Probabilities `(L, 4)` of A, C, G and T for every sequence, in their order."""
    model.eval()
    device, collator = model.device, FlatCollator()
    columns = torch.from_numpy(letters).to(device)
    found: list[np.ndarray] = [np.empty(0)] * len(ids)
    sampler = TokenBudgetBatchSampler([len(row) for row in ids], TOKEN_BUDGET, shuffle=False)
    for indices in sampler:
        batch = collator([{"input_ids": ids[index]} for index in indices])
        batch = {k: v.to(device) if torch.is_tensor(v) else v for k, v in batch.items()}
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            logits = model(**batch).logits[0]
        scores = functional.softmax(logits.float(), -1)[:, columns].cpu().numpy()
        ends = np.cumsum([len(ids[index]) for index in indices])
        for index, part in zip(indices, np.split(scores, ends[:-1]), strict=True):
            found[index] = part
    return found
