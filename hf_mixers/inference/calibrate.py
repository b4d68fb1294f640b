"""What a masked language model says of neutral changes of a reference, for calibrated scores."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from .variants.alleles import Target
from .variants.calibration import Calibration, fingerprint
from .variants.neutral import NUM_CONTEXTS, Sites, draw_sites, name_context, read_regions
from .variants.reference import Allele, Reference
from .variants.score import make_scorer
from .variants.scoring import BASES, Scorer

logger = logging.get_logger(__name__)

_NUM_QUANTILES = 1001


def calibrate(
    model: str | PreTrainedModel,
    reference: str | os.PathLike | Mapping[str, str],
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    window: int = 512,
    sites: int = 100,
    regions: str | os.PathLike | None = None,
    exclude: str | os.PathLike | None = None,
    seed: int = 0,
    token_budget: int = 65536,
    **options: Any,
) -> Calibration:
    """Mean ratios of neutral changes by 5-mer and alternate base, from sites of a reference.

    Args:
        model: A masked language model with `DnaTokenizer`, or its folder or Hub name.
        reference: A FASTA file, or sequences by name.
        tokenizer: That of a model which is given as such.
        window: Bases of a window, the same as for the variants.
        sites: Most sites of a 5-mer; each gives all three changes.
        regions: BED file of neutral regions; by default sites lie anywhere.
        exclude: BED file of regions to leave out, such as genes.
        seed: Which sites are drawn.
        token_budget: Most tokens in a batch.
        options: See `load_masked_lm` (`device`, `dtype`, `compile`).
    """
    if sites < 1:
        raise ValueError(f"sites={sites} was given: at least 1 is accepted.")
    scorer = make_scorer(
        model, tokenizer, options, window=window, scores=("llr",), token_budget=token_budget
    )
    if options:
        raise ValueError(f"{sorted(options)[0]} is not an option of calibrate.")
    places = Reference(reference)
    drawn = draw_sites(
        places,
        sites,
        seed,
        None if regions is None else read_regions(regions, places),
        None if exclude is None else read_regions(exclude, places),
    )
    if not drawn.contigs:
        raise ValueError("The reference has no sites of five known bases where they may lie.")
    missing = NUM_CONTEXTS - len(np.unique(drawn.contexts))
    if missing:
        logger.info(f"{missing} of {NUM_CONTEXTS} 5-mers have no site: they get no score.")
    contexts, ratios = _find_ratios(scorer, places, drawn)
    settings: dict[str, Any] = {"sites": sites, "seed": seed, "drawn": len(drawn.contigs)}
    settings |= {"regions": _name(regions), "exclude": _name(exclude)}
    settings["reference"] = None if isinstance(reference, Mapping) else _name(reference)
    return _summarise(scorer, drawn, contexts, ratios, settings)


def _name(path: Any) -> str | None:
    return None if path is None else os.path.basename(path)


def _find_ratios(
    scorer: Scorer, reference: Reference, drawn: Sites
) -> tuple[np.ndarray, np.ndarray]:
    """5-mers `(sites,)` and ratios `(sites, 4)`, that of the base itself 0.

    A site in a window with letters that are not of DNA is left out.
    """
    contexts, ratios = [], []
    per_part = max(1, scorer.engine.look_ahead * scorer.engine.token_budget // (2 * scorer.size))
    bar = tqdm(total=len(drawn.contigs), unit=" sites", disable=None)
    for first in range(0, len(drawn.contigs), per_part):
        part = slice(first, first + per_part)
        queries = []
        for name, start, context in zip(
            drawn.contigs[part], drawn.starts[part], drawn.contexts[part], strict=True
        ):
            base = name_context(context)[2]
            allele = Allele(int(start), base, "A" if base != "A" else "C")
            window = reference.cut(name, allele, scorer.size)
            if window is not None:
                queries.append(Target("", allele, window, "", ""))
                contexts.append(int(context))
        ratios += scorer.site_ratios(queries)
        bar.update(min(per_part, len(drawn.contigs) - first))
    bar.close()
    return np.array(contexts), np.array(ratios).reshape(-1, len(BASES))


def _summarise(
    scorer: Scorer,
    drawn: Sites,
    contexts: np.ndarray,
    ratios: np.ndarray,
    settings: dict[str, Any],
) -> Calibration:
    means, counts = {}, {}
    residuals, weights = [], []
    for context in np.unique(contexts):
        name, rows = name_context(context), ratios[contexts == context]
        for place, alt in enumerate(BASES):
            if alt == name[2]:
                continue
            mean = rows[:, place].mean()
            means[f"{name}>{alt}"], counts[f"{name}>{alt}"] = float(mean), len(rows)
            residuals.append(rows[:, place] - mean)
            weights.append(np.full(len(rows), drawn.frequencies[context] / len(rows)))
    quantiles = weighted_quantiles(np.concatenate(residuals), np.concatenate(weights))
    weights_id = fingerprint(scorer.engine.model)
    return Calibration(scorer.size, weights_id, means, counts, quantiles.tolist(), settings)


def weighted_quantiles(
    values: np.ndarray, weights: np.ndarray, count: int = _NUM_QUANTILES
) -> np.ndarray:
    """Values at equal steps of the total weight, the smallest first and the largest last.

    >>> weighted_quantiles(np.array([3.0, 1.0, 2.0]), np.ones(3), 3).tolist()
    [1.0, 2.0, 3.0]
    """
    order = np.argsort(values)
    values, weights = values[order], weights[order]
    middles = np.cumsum(weights) - weights / 2
    span = max(middles[-1] - middles[0], 1e-12)
    return np.interp(np.linspace(0, 1, count), (middles - middles[0]) / span, values)
