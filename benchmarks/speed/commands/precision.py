"""A trained model in lower precision on a CPU: accuracy and speed on real tasks.

The pre-trained ChordMixer of `model_cards` reads the embedded genes: in float32, in bfloat16
(autocast, and weights too), with linear layers in int8 by torch's dynamic quantization, and, where
torchao is installed, by torchao, with weights in int8 or with activations too.

- inference: it fills in masked bases of genes, and a logistic regression tells the genus of others
  by its pooled vectors. `masked_accuracy` and `genus_accuracy` are shares of right answers,
  `masked_agreement` and `genus_agreement` shares of answers that are those of float32. The
  regression is fitted once, to vectors in float32. Time is that of the masked bases.
- training: a step on a batch of masked genes in float32 and with bfloat16 autocast, which is what
  `bf16=true` is; `loss` is that of other genes after eight steps.

Quantized layers are not plain linear layers, so blocks with them run module by module.
"""

import warnings
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM, AutoTokenizer

import hf_mixers  # noqa: F401  (registers the models)
from hf_mixers.data import FlatCollator, MaskedLMCollator, load_embedded, tokenize_sequences
from hf_mixers.recipes.frozen import embed_rows

from ..interleaved import Case, Group
from ..isolated import Built
from ..options import Options

MODEL = Path(__file__).parents[3] / "model_cards/chordmixer-microbes"
KINDS = ("float32", "bfloat16 autocast", "bfloat16", "int8 dynamic")
TORCHAO_KINDS = {
    "int8 torchao": "Int8WeightOnlyConfig",
    "int8 torchao dynamic": "Int8DynamicActivationInt8WeightConfig",
}
BATCH, STEPS, RATE = 8, 8, 3e-4


def make_groups(options: Options) -> list[Group]:
    # genes with masked bases, and genes to fit and to test a classifier
    counts = (4, 12, 8) if options.smoke else (32, 200, 300)
    kinds = list(KINDS)
    if find_spec("torchao") is not None:
        kinds += TORCHAO_KINDS
    else:
        print("torchao is not installed, so its int8 is left out: pip install torchao")
    arguments = {"counts": counts, "seed": options.seed}
    inference = [
        Case({"task": "inference", "precision": kind}, build, {"kind": kind, **arguments})
        for kind in kinds
    ]
    training = [
        Case({"task": "training", "precision": kind}, build_training, {"kind": kind, **arguments})
        for kind in KINDS[:2]
    ]
    return [Group(inference), Group(training)]


def build(kind: str, counts: tuple[int, int, int], seed: int) -> Built:
    """Masked bases of all batches, filled in."""
    masked, *classified = draw_genes(counts, seed)
    batches = make_batches(masked, seed)
    labels = torch.cat([batch["labels"][batch["labels"] != -100] for batch in batches])
    whole, model = load("float32"), load(kind)
    facts: dict[str, Any] = {
        "tokens": sum(batch["input_ids"].numel() for batch in batches),
        "masked": len(labels),
        "genes": len(classified[1]),
        **compare("masked", labels, fill(model, kind, batches), fill(whole, "float32", batches)),
        **classify(whole, model, kind, *classified),
    }

    def step() -> None:
        fill(model, kind, batches)

    return Built(step, facts)


def build_training(kind: str, counts: tuple[int, int, int], seed: int) -> Built:
    """A step of training."""
    masked, others, _ = draw_genes(counts, seed)
    batches, held_out = (make_batches(genes, seed) for genes in (masked, others.select(range(8))))
    torch.manual_seed(seed)
    model = load("float32").train()
    optimizer = torch.optim.AdamW(model.parameters(), RATE)

    def step(batch: dict[str, Any] = batches[0]) -> None:
        optimizer.zero_grad()
        with precision_of(kind):
            loss = model(**batch).loss
        loss.backward()
        optimizer.step()

    for number in range(STEPS):
        step(batches[number % len(batches)])
    with torch.no_grad():
        losses = [model.eval()(**batch).loss.item() for batch in held_out]
    model.train()
    tokens = batches[0]["input_ids"].numel()
    return Built(step, {"tokens": tokens, "loss": round(float(np.mean(losses)), 6)})


def load(kind: str) -> nn.Module:
    """The model in one of the precisions."""
    if kind in TORCHAO_KINDS:
        from torchao import quantization
        from transformers import TorchAoConfig

        config = TorchAoConfig(getattr(quantization, TORCHAO_KINDS[kind])())
        return AutoModelForMaskedLM.from_pretrained(MODEL, quantization_config=config).eval()
    dtype = torch.bfloat16 if kind == "bfloat16" else torch.float32
    model = AutoModelForMaskedLM.from_pretrained(MODEL, dtype=dtype).eval()
    if kind == "int8 dynamic":
        with warnings.catch_warnings():
            # torch points to torchao, which is measured next to it
            warnings.simplefilter("ignore")
            model = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    return model


def precision_of(kind: str) -> torch.autocast:
    return torch.autocast("cpu", torch.bfloat16, enabled=kind == "bfloat16 autocast")


def draw_genes(counts: tuple[int, int, int], seed: int) -> list[Any]:
    """Tokenized genes that are drawn at random, in parts of these sizes."""
    genes = load_embedded()
    order = np.random.default_rng(seed).permutation(len(genes))[: sum(counts)]
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    parts = np.split(order, np.cumsum(counts)[:-1])
    return [tokenize_sequences(genes.select(part), tokenizer) for part in parts]


def make_batches(rows: Any, seed: int) -> list[dict[str, Any]]:
    """Genes with masked bases, a few in a batch."""
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    collator = MaskedLMCollator(FlatCollator(), tokenizer, seed=seed)
    chosen = [rows[place] for place in range(len(rows))]
    return [collator(chosen[first : first + BATCH]) for first in range(0, len(rows), BATCH)]


@torch.no_grad()
def fill(model: nn.Module, kind: str, batches: list[dict[str, Any]]) -> Tensor:
    """The bases that a model puts where one is masked."""
    answers = []
    for batch in batches:
        inputs = {name: value for name, value in batch.items() if name != "labels"}
        with precision_of(kind):
            logits = model(**inputs).logits
        answers.append(logits[batch["labels"] != -100].argmax(-1))
    return torch.cat(answers)


def classify(whole: Any, model: Any, kind: str, fitted: Any, tested: Any) -> dict[str, float]:
    """How well a classifier of vectors in float32 does with those of another precision."""
    embed = partial(embed_rows, bf16=kind == "bfloat16 autocast")
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    classifier.fit(embed_rows(whole.model, fitted), fitted["labels"][:])
    expected = classifier.predict(embed_rows(whole.model, tested))
    found = classifier.predict(embed(model.model, tested))
    labels = np.asarray(tested["labels"][:])
    return compare("genus", *(torch.as_tensor(part) for part in (labels, found, expected)))


def compare(name: str, labels: Tensor, found: Tensor, expected: Tensor) -> dict[str, float]:
    return {
        f"{name}_accuracy": round((found == labels).float().mean().item(), 4),
        f"{name}_agreement": round((found == expected).float().mean().item(), 4),
    }
