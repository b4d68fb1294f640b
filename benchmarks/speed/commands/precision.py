"""Inference of a trained model in lower precision on a CPU: accuracy and speed on a real task.

The pre-trained ChordMixer of `model_cards` fills in masked bases of the embedded genes: in float32,
in bfloat16 (autocast, and weights too), with linear layers in int8 by torch's dynamic quantization,
and with weights in int8 by torchao where that is installed. `accuracy` is that of the masked bases,
`agreement` the share of them for which the answer is that of float32. Quantized layers are no plain
linear layers, so blocks with them run module by module.
"""

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM, AutoTokenizer

import hf_mixers  # noqa: F401  (registers the models)
from hf_mixers.data import FlatCollator, MaskedLMCollator, load_embedded, tokenize_sequences

from ..interleaved import Case, Group
from ..isolated import Built
from ..options import Options

MODEL = Path(__file__).parents[3] / "model_cards/chordmixer-microbes"
GENES, BATCH = 64, 8


def make_groups(options: Options) -> list[Group]:
    genes = 4 if options.smoke else GENES
    kinds = ["float32", "bfloat16 autocast", "bfloat16", "int8 dynamic"]
    if find_spec("torchao") is not None:
        kinds.append("int8 torchao")
    arguments = {"genes": genes, "seed": options.seed}
    return [
        Group([Case({"precision": kind}, build, {"kind": kind, **arguments}) for kind in kinds])
    ]


def build(kind: str, genes: int, seed: int) -> Built:
    """Masked bases of all batches, filled in."""
    batches = make_batches(genes, seed)
    expected = fill(load("float32"), "float32", batches)
    model = load(kind)
    found = fill(model, kind, batches)
    labels = torch.cat([batch["labels"][batch["labels"] != -100] for batch in batches])
    facts: dict[str, Any] = {
        "tokens": sum(batch["input_ids"].numel() for batch in batches),
        "masked": len(labels),
        "accuracy": round((found == labels).float().mean().item(), 4),
        "agreement": round((found == expected).float().mean().item(), 4),
    }

    def step() -> None:
        fill(model, kind, batches)

    return Built(step, facts)


def load(kind: str) -> nn.Module:
    """The model in one of the precisions."""
    if kind == "int8 torchao":
        from torchao.quantization import Int8WeightOnlyConfig
        from transformers import TorchAoConfig

        config = TorchAoConfig(Int8WeightOnlyConfig())
        return AutoModelForMaskedLM.from_pretrained(MODEL, quantization_config=config).eval()
    dtype = torch.bfloat16 if kind == "bfloat16" else torch.float32
    model = AutoModelForMaskedLM.from_pretrained(MODEL, dtype=dtype).eval()
    if kind == "int8 dynamic":
        with warnings.catch_warnings():
            # torch points to torchao, which is measured next to it
            warnings.simplefilter("ignore")
            model = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    return model


def make_batches(genes: int, seed: int) -> list[dict[str, Any]]:
    """Embedded genes with masked bases, a few in a batch."""
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    rows = tokenize_sequences(load_embedded().select(range(genes)), tokenizer)
    collator = MaskedLMCollator(FlatCollator(), tokenizer, seed=seed)
    chosen = [rows[place] for place in range(genes)]
    return [collator(chosen[first : first + BATCH]) for first in range(0, genes, BATCH)]


@torch.no_grad()
def fill(model: nn.Module, kind: str, batches: list[dict[str, Any]]) -> Tensor:
    """The bases that a model puts where one is masked."""
    answers = []
    for batch in batches:
        inputs = {name: value for name, value in batch.items() if name != "labels"}
        with torch.autocast("cpu", torch.bfloat16, enabled=kind == "bfloat16 autocast"):
            logits = model(**inputs).logits
        answers.append(logits[batch["labels"] != -100].argmax(-1))
    return torch.cat(answers)
