"""The first stage of a fine-tuning: a regression on the vectors of the pre-trained model.

Blocks are the costly part of a step, and at first the head, which knows nothing, would only pull
them about. So every sequence passes the pre-trained model once, and the head starts as a regression
on the pooled vectors, and on the k-mer profiles where the head reads them too, with the L2 penalty
that is best on validation rows. It is logistic for classes and several labels, linear for numbers.
What is trained afterwards starts as a good classifier, and must be better to be kept.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils import logging

from ..models.losses import SINGLE_LABEL, infer_problem, sequence_loss
from ..reporting.files import write_json
from ..training import MixerTrainer
from ..training.checkpoints import find_checkpoints
from .frozen import embed_rows
from .options import Arguments, change_arguments, find_checkpoint
from .profile_start import make_profiles

logger = logging.get_logger(__name__)

_WEIGHTS, _HISTORY = "model.safetensors", "history.json"
# weights of the mean square of the coefficients that may be tried, and the first that is
PENALTIES = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 3.0)
FIRST = PENALTIES.index(1e-2)
# more training rows than these are not read: vectors are held in memory
MAX_ROWS = 100_000
# profiles of more words are left out of the regression, for the same reason
MAX_WORDS = 4096
# deviation of standardised profile entries, of which there are many that say little: those of the
# pooled vectors have 1. And what is added to deviations, so that rare words do not count as common
PROFILE_SCALE, RARE_WORDS = 0.3, 1e-3


@dataclass
class StartedHead:
    """A model as the stage left it: its weights, and the scores of what was tried."""

    weights: dict[str, Tensor]
    history: list[dict[str, float]]

    def save(self, folder: Path) -> None:
        """Write the stage, for a run that goes on after an interruption."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file({n: value.contiguous() for n, value in self.weights.items()}, folder / _WEIGHTS)
        # last, so that a folder with it is complete
        write_json(folder / _HISTORY, {"history": self.history})

    @classmethod
    def load(cls, folder: Path) -> "StartedHead":
        """What `save` wrote."""
        history = json.loads((folder / _HISTORY).read_text(encoding="utf-8"))["history"]
        return cls(load_file(folder / _WEIGHTS), history)


def find_resume(arguments: Arguments, folder: Path) -> tuple[Arguments, bool]:
    """Arguments of a run that may go on, and whether its first stage is there to be gone on with.

    A run that was stopped before its first checkpoint begins anew.
    """
    resume = find_checkpoint(arguments)
    if not resume:
        return arguments, False
    if resume in (True, "auto") and find_checkpoints(arguments.output_dir).newest is None:
        logger.warning(f"{arguments.output_dir} has no complete checkpoint: the run begins anew.")
        return change_arguments(arguments, resume_from_checkpoint=None), False
    if (folder / _HISTORY).is_file():
        return arguments, True
    raise ValueError(
        f"{folder} is missing, with which a run that goes on is compared: begin it anew."
    )


def start_head(
    model: PreTrainedModel,
    rows: dict[str, Dataset],
    *,
    iterations: int = 100,
    token_budget: int = 16384,
    bf16: bool = False,
    seed: int = 0,
    knows_classes: bool = False,
) -> StartedHead:
    """Fit the classifier, and that of k-mers, to what they read; the rest stays as it is.

    Args:
        model: A sequence classifier, of numbers or several labels too.
        rows: Tokenized `train`, and `validation` to choose the penalty by.
        iterations: Most steps of L-BFGS, for each penalty.
        knows_classes: Whether the classifier is to be kept where no regression has a lower loss on
            validation rows, or there are none.
    """
    vectors, labels = read_vectors(model, rows, token_budget, bf16, seed)
    centre, scale = find_scale(vectors["train"], model.config.pooled_size)
    scaled = {name: (part - centre) / scale for name, part in vectors.items()}
    kind = infer_problem(model.config.problem_type, model.config.num_labels, labels["train"])
    weights = model.config.class_weights
    layers: list[Any] = [model.classifier]
    if len(centre) > model.config.pooled_size:
        layers.append(model.kmer_classifier)
    with torch.no_grad():
        given = torch.cat([layer.weight for layer in layers], dim=1).float().cpu()
        own = given * scale, layers[0].bias.float().cpu() + given @ centre
    history: list[dict[str, float]] = []
    found: list[tuple[Tensor, Tensor]] = []

    def try_head(matrix: Tensor, bias: Tensor, **about: float) -> float:
        entry = dict(about)
        for name in scaled:
            logits = scaled[name] @ matrix.T + bias
            loss = sequence_loss(logits, labels[name], kind, weights)
            entry[f"head_{name}_loss"] = loss.item()
            if kind == SINGLE_LABEL:
                right = (logits.argmax(1) == labels[name]).float().mean()
                entry[f"head_{name}_accuracy"] = right.item()
        history.append(entry)
        found.append((matrix, bias))
        logger.info(f"head: {entry}")
        return entry.get("head_validation_loss", 0.0)

    def try_penalty(penalty: float) -> float:
        fitted = regress(
            scaled["train"],
            labels["train"],
            model.config.num_labels,
            penalty,
            iterations=iterations,
            class_weights=weights,
            problem_type=kind,
        )
        return try_head(*fitted, head_penalty=penalty)

    if knows_classes:
        try_head(*own)
    if "validation" in scaled:
        climb(try_penalty)
    elif not knows_classes:
        try_penalty(PENALTIES[FIRST])
    losses = [entry.get("head_validation_loss", 0.0) for entry in history]
    matrix, bias = found[losses.index(min(losses))]
    matrix = matrix / scale
    with torch.no_grad():
        layers[0].bias.copy_(bias - matrix @ centre)
        for layer in layers:
            layer.weight.copy_(matrix[:, : layer.in_features])
            matrix = matrix[:, layer.in_features :]
    return StartedHead({n: value.clone() for n, value in model.state_dict().items()}, history)


def read_vectors(
    model: PreTrainedModel, rows: dict[str, Dataset], token_budget: int, bf16: bool, seed: int
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What the head reads, and labels, of `train`, at most `MAX_ROWS` rows, and of `validation`.

    That are pooled vectors, with the k-mer profiles of models whose head reads them beside them.
    """
    train = rows["train"]
    if len(train) > MAX_ROWS:
        drawn = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))
        train = train.select(drawn[:MAX_ROWS].sort().values.tolist())
    parts = {"train": train, **{name: rows[name] for name in ("validation",) if name in rows}}
    was_training = model.training
    model.eval()
    trunk: Any = model.base_model
    config: Any = model.config
    vectors = {
        name: torch.from_numpy(embed_rows(trunk, part, token_budget, bf16))
        for name, part in parts.items()
    }
    model.train(was_training)
    if getattr(model, "kmer_classifier", None) is not None and config.num_kmers <= MAX_WORDS:
        for name, part in parts.items():
            profiles = make_profiles(part, config, torch.float32)
            vectors[name] = torch.cat([vectors[name], profiles], dim=1)
    return vectors, {name: torch.tensor(part["labels"][:]) for name, part in parts.items()}


def find_scale(vectors: Tensor, pooled_size: int) -> tuple[Tensor, Tensor]:
    """Mean of every number of the vectors, and what it is divided by; the profile comes last."""
    centre = vectors.mean(0)
    deviation = torch.ones_like(centre) if len(vectors) == 1 else vectors.std(0)
    pooled, profile = deviation.split([pooled_size, len(centre) - pooled_size])
    return centre, torch.cat([pooled.clamp(min=1e-6), (profile + RARE_WORDS) / PROFILE_SCALE])


def climb(score: Callable[[float], float]) -> None:
    """Try penalties from the first one on, upwards while the loss falls, else downwards.

    >>> climb(lambda penalty: print(penalty) or abs(penalty - 0.1))
    0.01
    0.03
    0.1
    0.3
    """
    best = score(PENALTIES[FIRST])
    for direction in (PENALTIES[FIRST + 1 :], PENALTIES[:FIRST][::-1]):
        is_lower = False
        for penalty in direction:
            loss = score(penalty)
            if loss >= best:
                break
            best, is_lower = loss, True
        if is_lower:
            return


def regress(
    vectors: Tensor,
    labels: Tensor,
    num_labels: int,
    penalty: float,
    *,
    iterations: int = 100,
    class_weights: list[float] | None = None,
    problem_type: str = SINGLE_LABEL,
) -> tuple[Tensor, Tensor]:
    """Weights `(C, D)` and biases `(C,)` of a regression, logistic or linear, by L-BFGS.

    >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
    <...>
    >>> vectors = torch.randn(200, 3)
    >>> matrix, bias = regress(vectors, (vectors[:, 1] > 0).long(), 2, 1e-3)
    >>> ((vectors @ matrix.T + bias).argmax(1) == (vectors[:, 1] > 0)).float().mean() > 0.95
    tensor(True)
    """
    matrix = torch.zeros(num_labels, vectors.shape[1], requires_grad=True)
    bias = torch.zeros(num_labels, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [matrix, bias], max_iter=iterations, history_size=10, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        logits = vectors @ matrix.T + bias
        loss = sequence_loss(logits, labels, problem_type, class_weights, check=False)
        loss = loss + penalty * matrix.square().sum()
        loss.backward()
        return loss

    with torch.enable_grad():
        optimizer.step(closure)
    return matrix.detach(), bias.detach()


def keep_better(trainer: MixerTrainer, started: StartedHead) -> bool:
    """Put the weights of the stage back if no epoch after it scored higher on validation rows.

    Whether they were. The trainer must have evaluated at step 0.
    """
    trainer.state.log_history[:0] = started.history
    name = trainer.args.metric_for_best_model
    best = trainer.state.best_metric
    first = [
        entry[f"eval_{name}"]
        for entry in trainer.state.log_history
        if entry.get("step") == 0 and f"eval_{name}" in entry
    ]
    if best is None or not first:
        return False
    is_better = first[0] > best if trainer.args.greater_is_better else first[0] < best
    if is_better:
        logger.info(f"The head alone was better on validation rows: {first[0]:.4f}, not {best:.4f}")
        trainer.model.load_state_dict(started.weights)
    return is_better
