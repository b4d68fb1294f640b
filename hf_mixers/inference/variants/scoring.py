"""Scores of alternate alleles from a masked language model, by batches of packed windows."""

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from ...models.dna import reverse_complement
from ...models.tokenization_dna import DnaTokenizer
from ..embed import make_forward
from ..engine import Engine, Item, Part
from ..records import Record
from .alleles import Target
from .calibration import Calibration, fingerprint
from .reference import Window

BASES = "ACGT"
_OUTSIDE = -1

ScoreName = Literal["llr", "pllr", "distance"]
# what each kind of score gives, and what that is
FIELDS: dict[str, dict[str, str]] = {
    "llr": {
        "llr": "Log-likelihood ratio of ALT to REF at the masked site, mean of both strands",
        "llr_forward": "Log-likelihood ratio at the masked site, forward strand",
        "llr_reverse": "Log-likelihood ratio at the masked site, reverse strand",
        "entropy": "Entropy of the four bases at the masked site in nats, mean of both strands",
        "ref_logp": "Log-probability of REF at the masked site, mean of both strands",
    },
    "pllr": {
        "pllr": "Pseudo-log-likelihood per base of the ALT window minus that of the REF window,"
        " mean of both strands",
        "pllr_forward": "Pseudo-log-likelihood ratio per base, forward strand",
        "pllr_reverse": "Pseudo-log-likelihood ratio per base, reverse strand",
    },
    "distance": {
        "distance": "Euclidean distance of the mean-pooled embeddings of both windows",
    },
}
CALIBRATED_FIELDS = {
    "calibrated": "LLR minus its mean over neutral sites with the same 5-mer and alternate base",
    "percentile": "Percentage of neutral changes whose calibrated score is not greater",
}


class Query(NamedTuple):
    """Windows with masked sites: ids of both strands, and which letters were masked."""

    forward: np.ndarray
    reverse: np.ndarray
    letters: np.ndarray


@dataclass
class Scorer:
    """A masked language model, and which scores it gives.

    Args:
        engine: Its model predicts masked bases.
        size: Bases of a window.
        scores: `llr` for changes of one base, `pllr` for all others, `distance` for both.
        passes: Pseudo-likelihoods mask every n-th base at a time; 0 masks one base at a time, which
            is exact and costs a pass per base.
        calibration: Makes calibrated scores of ratios.
    """

    engine: Engine
    size: int = 512
    scores: Sequence[ScoreName] = get_args(ScoreName)
    passes: int = 8
    calibration: Calibration | None = None
    tokens: int = field(default=0, init=False)

    def __post_init__(self):
        engine, tokenizer = self.engine, self.engine.tokenizer
        if not isinstance(tokenizer, DnaTokenizer):
            name = type(tokenizer).__name__
            raise ValueError(f"Variants require a model with DnaTokenizer, got {name}.")
        wrong = [name for name in self.scores if name not in FIELDS]
        if wrong or not self.scores:
            given = wrong[0] if wrong else "none"
            raise ValueError(f"scores must be of {', '.join(FIELDS)}, got {given!r}.")
        if self.passes < 0:
            raise ValueError(f"passes={self.passes} was given: 0 or more is accepted.")
        limit = engine.limit if engine.fixed_length is None else 0
        longest = self.size + tokenizer.num_special_tokens_to_add()
        if self.size < 1 or (limit is not None and longest > limit):
            accepted = "1 base or more" if limit is None else f"1 to {limit} tokens"
            raise ValueError(f"window={self.size} was given: the model accepts {accepted}.")
        if self.calibration is not None:
            if "llr" not in self.scores:
                raise ValueError("A calibration requires the score llr.")
            self.calibration.check(engine.model, self.size)
        self._bases = tokenizer.convert_tokens_to_ids(list(BASES))
        # from ids to places in BASES
        self._places = np.full(len(tokenizer), _OUTSIDE)
        self._places[self._bases] = range(len(BASES))

    @property
    def fields(self) -> dict[str, str]:
        """Names of all numbers that an allele may get, and what they are."""
        found = {name: text for kind in self.scores for name, text in FIELDS[kind].items()}
        return found | (CALIBRATED_FIELDS if self.calibration is not None else {})

    def describe(self) -> dict[str, Any]:
        """What the numbers depend on; parts of a run where any of it differs are not used."""
        table = None if self.calibration is None else asdict(self.calibration)
        return {
            "weights": fingerprint(self.engine.model),
            "window": self.size,
            "scores": ",".join(self.scores),
            "passes": self.passes,
            "table": hashlib.sha256(json.dumps(table).encode()).hexdigest()[:16],
            "token_budget": self.engine.token_budget,
            "look_ahead": self.engine.look_ahead,
        }

    def cost(self, letters: int, alternate: int) -> int:
        """About how many tokens the scores of an allele take, from the lengths of its alleles."""
        passes = self.passes or self.size
        windows = 2 if letters == alternate == 1 else 4 * passes
        return (windows + (4 if "distance" in self.scores else 0)) * self.size

    # scores

    def score(self, targets: Sequence[Target]) -> list[dict[str, float] | None]:
        """Numbers by name for every target that has a window, None for the others."""
        windows = [target.window for target in targets if target.window is not None]
        texts = list(dict.fromkeys(t for w in windows for t in (w.reference, w.alternate)))
        ids = dict(zip(texts, self._tokenize(texts), strict=True))
        asked: list[tuple[int, str, list[Query]]] = []
        found: list[dict[str, float] | None] = [None if t.window is None else {} for t in targets]
        for row, target in enumerate(targets):
            if target.window is None or target.allele is None:
                continue
            if target.allele.kind == "snv":
                if "llr" in self.scores:
                    site = [len(target.window.before)]
                    asked.append((row, "llr", [self._mask(ids[target.window.reference], site)]))
            elif "pllr" in self.scores:
                for side, allele in (
                    (target.window.reference, target.window.ref),
                    (target.window.alternate, target.window.alt),
                ):
                    groups = self._group(target.window, len(allele))
                    queries = [self._mask(ids[side], group) for group in groups]
                    asked.append((row, "pllr", [one for one in queries if len(one.letters)]))
        self._fill(found, targets, asked)
        if "distance" in self.scores:
            self._add_distances(found, targets, ids)
        return found

    def site_ratios(self, targets: Sequence[Target]) -> list[np.ndarray]:
        """Mean ratios `(4,)` of A, C, G and T to the reference base of changes of one base."""
        windows = [target.window for target in targets if target.window is not None]
        ids = self._tokenize([window.reference for window in windows])
        queries = [self._mask(one, [len(w.before)]) for one, w in zip(ids, windows, strict=True)]
        found = []
        for target, strands in zip(targets, self.log_probabilities(queries), strict=True):
            logs = np.concatenate(strands).astype(np.float64).mean(0)
            found.append(logs - logs[BASES.index(target.allele.ref)])
        return found

    def _fill(
        self,
        found: list[dict[str, float] | None],
        targets: Sequence[Target],
        asked: Sequence[tuple[int, str, list[Query]]],
    ) -> None:
        """Put ratios where they were asked for; those of windows come in pairs, reference first."""
        answers = iter(self.log_probabilities(q for _, _, queries in asked for q in queries))
        means: list[tuple[float, float]] = []
        for row, kind, queries in asked:
            replies = [next(answers) for _ in queries]
            if kind == "llr":
                found[row] |= self._site_scores(targets[row], *replies[0])
                continue
            means.append(_mean_log_likelihood(queries, replies))
            if len(means) == 2:
                (forward, reverse), means = np.subtract(means[1], means[0]).tolist(), []
                found[row] |= {
                    "pllr": (forward + reverse) / 2,
                    "pllr_forward": forward,
                    "pllr_reverse": reverse,
                }

    def _site_scores(
        self, target: Target, forward: np.ndarray, reverse: np.ndarray
    ) -> dict[str, float]:
        """What the four bases at a masked site give, both strands as the forward one has it."""
        ref, alt = BASES.index(target.allele.ref), BASES.index(target.allele.alt)
        strands = np.concatenate([forward, reverse])
        ratios = (strands[:, alt] - strands[:, ref]).tolist()
        scores = {
            "llr": sum(ratios) / 2,
            "llr_forward": ratios[0],
            "llr_reverse": ratios[1],
            "entropy": float(-(np.exp(strands) * strands).sum(1).mean()),
            "ref_logp": float(strands[:, ref].mean()),
        }
        if self.calibration is not None:
            scores |= self.calibration.apply(target.context, target.allele.alt, scores["llr"])
        return scores

    def _add_distances(
        self,
        found: list[dict[str, float] | None],
        targets: Sequence[Target],
        ids: dict[str, np.ndarray],
    ) -> None:
        vectors = dict(zip(ids, self.embed(list(ids.values())), strict=True))
        for row, target in enumerate(targets):
            if target.window is not None:
                pair = (vectors[target.window.alternate], vectors[target.window.reference])
                found[row]["distance"] = float(np.linalg.norm(np.subtract(*pair)))

    # queries

    def _tokenize(self, texts: list[str]) -> list[np.ndarray]:
        if not texts:
            return []
        found = self.engine.tokenizer(texts, return_attention_mask=False)["input_ids"]
        return [np.asarray(ids, dtype=np.int64) for ids in found]

    def _mask(self, ids: np.ndarray, sites: Iterable[int]) -> Query:
        """The query that masks those of the sites of a window that are A, C, G or T."""
        places = self._places[ids]
        # tokens in front of the first base are the same on both strands
        front = int(ids[0] == self.engine.tokenizer.cls_token_id)
        rows = [front + site for site in sites if places[front + site] != _OUTSIDE]
        masked = ids.copy()
        masked[rows] = self.engine.tokenizer.mask_token_id
        return Query(masked, reverse_complement(masked), places[rows])

    def _group(self, window: Window, inner: int) -> list[list[int]]:
        """Sites of a window that are masked together.

        Counted from the allele outwards, so that both windows mask the same bases around it.
        """
        before, after = len(window.before), len(window.after)
        if not self.passes:
            return [[site] for site in range(before + inner + after)]
        turns = [
            *((before - 1 - site) % self.passes for site in range(before)),
            *(site % self.passes for site in range(inner)),
            # neighbours of a deletion are not masked at once
            *((site + (self.passes + 1) // 2) % self.passes for site in range(after)),
        ]
        groups: list[list[int]] = [[] for _ in range(self.passes)]
        for site, turn in enumerate(turns):
            groups[turn].append(site)
        return [group for group in groups if group]

    # forward passes

    def log_probabilities(self, queries: Iterable[Query]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Log-probabilities `(sites, 4)` of A, C, G and T at the masked sites, by strand.

        Those of the reverse strand are turned to what the forward strand has there.
        """
        model, bases = self.engine.model, self._bases
        mask = self.engine.tokenizer.mask_token_id

        def forward(inputs: dict[str, Tensor], lengths: list[int]) -> list[np.ndarray]:
            with torch.inference_mode():
                logits = model(**inputs).logits
                is_masked = inputs["input_ids"] == mask
                found = logits[is_masked][:, bases].float().log_softmax(-1).cpu().numpy()
            rows = is_masked.flatten().cpu()
            if len(is_masked) == 1:
                counts = [int(part.sum()) for part in rows.split(lengths)]
            else:
                counts = is_masked.sum(1).tolist()
            return np.split(found, np.cumsum(counts)[:-1])

        asked = list(queries)
        found = self._run([ids for one in asked for ids in (one.forward, one.reverse)], forward)
        return [(found[row], found[row + 1][::-1, ::-1]) for row in range(0, len(found), 2)]

    def embed(self, windows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Mean-pooled vectors of windows, averaged over both strands."""
        strands = [ids for one in windows for ids in (one, reverse_complement(one))]
        found = self._run(strands, make_forward(self.engine, -1, "mean"))
        return [(found[row] + found[row + 1]) / 2 for row in range(0, len(found), 2)]

    def _run(self, rows: Sequence[np.ndarray], forward) -> list[np.ndarray]:
        """Results of all rows; equal rows are computed once."""
        distinct = {ids.tobytes(): ids for ids in rows}
        items = [Item(Record(0, "", ""), ids, "") for ids in distinct.values()]
        self.tokens += sum(len(ids) for ids in distinct.values())
        found = dict(zip(distinct, self.engine.compute(Part(0, items), forward), strict=True))
        return [found[ids.tobytes()] for ids in rows]


def _mean_log_likelihood(
    queries: Sequence[Query], replies: Sequence[tuple[np.ndarray, np.ndarray]]
) -> tuple[float, float]:
    """Mean log-probability of the masked letters of a window, by strand; 0 if none is known."""
    totals, count = [0.0, 0.0], 0
    for query, strands in zip(queries, replies, strict=True):
        count += len(query.letters)
        for strand, logs in enumerate(strands):
            totals[strand] += math.fsum(logs[np.arange(len(query.letters)), query.letters])
    return totals[0] / max(count, 1), totals[1] / max(count, 1)
