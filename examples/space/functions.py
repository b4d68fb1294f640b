"""What the page does with what visitors type; every error is a `ValueError` with one sentence."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from hf_mixers.inference.attribution import Attribution, attribute
from hf_mixers.inference.engine import Engine
from hf_mixers.inference.loading import load_classifier, load_masked_lm, make_engine
from hf_mixers.inference.masked import predict_masked
from hf_mixers.inference.predict import predict_part
from hf_mixers.inference.records import Record, parse_text, read_records

# what one visitor may send
MOST_LETTERS = 1_000_000
MOST_SEQUENCES = 1000
# bases of the picture
MOST_DRAWN = 5000
SCORES = ("llr", "entropy", "pllr", "distance")
VARIANT_COLUMNS = ["variant", "kind", "log ratio", "entropy", "window ratio", "distance", "note"]
_VARIANT = re.compile(r"(?:(\S+?)[:\s]\s*)?(\d+)[:\s]*([A-Za-z]+)\s*(?:>|/|\s)\s*([A-Za-z]+)")


@dataclass
class Models:
    """The models of the page, loaded when they are first used.

    Args:
        classifier: Folder or Hub name of a sequence classifier, or None.
        masked_lm: Folder or Hub name of a masked language model of DNA, or None.
    """

    classifier: str | None = None
    masked_lm: str | None = None

    @cached_property
    def classifier_engine(self) -> Engine:
        return make_engine(self.classifier, None, load_classifier, {"device": "cpu"})

    @cached_property
    def masked_lm_engine(self) -> Engine:
        return make_engine(self.masked_lm, None, load_masked_lm, {"device": "cpu"})


def read_sequences(text: str, file: str | None = None) -> list[tuple[str, str]]:
    """Names and letters of what was uploaded, or else pasted."""
    if file:
        if Path(file).stat().st_size > 2 * MOST_LETTERS:
            raise ValueError(f"The file is too large: at most {MOST_LETTERS:,} letters.")
        records = [(record.id, record.sequence) for record in read_records(file)]
    else:
        records = parse_text(text or "")
    if not records:
        raise ValueError("There is no sequence: paste FASTA or letters, or upload a file.")
    total = sum(len(letters) for _, letters in records)
    if len(records) > MOST_SEQUENCES or total > MOST_LETTERS:
        raise ValueError(
            f"{len(records):,} sequences with {total:,} letters were given: at most"
            f" {MOST_SEQUENCES:,} with {MOST_LETTERS:,} letters are accepted."
        )
    return records


def classify(models: Models, records: list[tuple[str, str]]) -> tuple[list[str], list[list]]:
    """Columns and rows: name, length, the class and the probability of every class."""
    engine = models.classifier_engine
    numbered = (Record(number, *pair) for number, pair in enumerate(records))
    rows: list[list] = []
    names: list[str] = []
    for part in engine.read_parts(numbered):
        for one in predict_part(engine, part):
            names = names or list(one.scores or ())
            scores = [round(score, 4) for score in (one.scores or {}).values()]
            rows.append([one.id, one.length, one.label or f"not read: {one.note}", *scores])
    width = 3 + len(names)
    return ["sequence", "length", "class", *names], [
        row + [None] * (width - len(row)) for row in rows
    ]


def attribute_first(models: Models, records: list[tuple[str, str]]) -> Attribution | None:
    """What every base of the first sequence that can be read adds to its class."""
    engine = models.classifier_engine
    items = engine.encode([Record(number, *pair) for number, pair in enumerate(records)])
    first = next((item.record for item in items if item.ids is not None), None)
    if first is None:
        return None
    # k-mer counts have no gradient
    has_gradient = getattr(engine.model.config, "kmer_size", None) is None
    method, most = ("gradient_x_input", MOST_DRAWN) if has_gradient else ("mutagenesis", 200)
    options = {"method": method, "tokenizer": engine.tokenizer, "strict": True}
    return next(attribute(engine.model, [(first.id, first.sequence[:most])], **options))


def draw_attribution(models: Models, records: list[tuple[str, str]]) -> Figure | None:
    """A picture of `attribute_first`."""
    found = attribute_first(models, records)
    if found is None:
        return None
    letters, values = found.sequence, found.values
    figure = Figure(figsize=(10, 2.6), layout="constrained")
    axes = figure.subplots()
    axes.bar(range(1, len(letters) + 1), values, 1.0, color=np.where(values < 0, "C3", "C0"))
    axes.set(xlabel="position", ylabel="attribution", xlim=(0, len(letters) + 1))
    axes.set_title(f"{found.id}: {found.target}, {len(letters):,} bases", fontsize=10)
    axes.axhline(0, color="0.5", linewidth=0.5)
    if len(letters) <= 100:
        axes.set_xticks(range(1, len(letters) + 1), list(letters), fontsize=7)
    return figure


def fill_masks(models: Models, text: str) -> list[list]:
    """Rows: name, position, most probable base and the probability of A, C, G and T."""
    found = predict_masked(models.masked_lm_engine, read_sequences(text))
    return [
        [
            one.id,
            one.position,
            max(one.scores, key=lambda base: one.scores[base]),
            *(round(score, 4) for score in one.scores.values()),
        ]
        for one in found
    ]


def parse_variants(text: str, names: list[str]) -> list[tuple[str, int, str, str]]:
    """Variants of lines such as `12 A>G` or `name:12 A>ACT`; the first sequence has no need of one.

    >>> parse_variants("12 a>G", ["gene"]), parse_variants("x:3 AC>A", ["gene", "x"])
    ([('gene', 12, 'A', 'G')], [('x', 3, 'AC', 'A')])
    """
    found = []
    for line in filter(None, map(str.strip, (text or "").splitlines())):
        parts = _VARIANT.fullmatch(line)
        if parts is None:
            raise ValueError(f"{line!r} is not a variant: write it as 12 A>G or name:12 A>G.")
        found.append((parts[1] or names[0], int(parts[2]), parts[3].upper(), parts[4].upper()))
    if not found:
        raise ValueError("There is no variant: write one as 12 A>G.")
    return found


def score_variants(models: Models, text: str, variants: str) -> list[list]:
    """Rows: the variant, its scores, and why there are none."""
    from hf_mixers.inference import score_variants as score

    records = read_sequences(text)
    typed = parse_variants(variants, [name for name, _ in records])
    engine = models.masked_lm_engine
    found = score(engine.model, typed, dict(records), tokenizer=engine.tokenizer)
    return [
        [
            f"{one.chrom}:{one.pos} {one.ref}>{one.alt}",
            one.kind,
            *(_round((one.scores or {}).get(name)) for name in SCORES),
            one.reason,
        ]
        for one in found
    ]


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
