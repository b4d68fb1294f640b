"""The scores of one variant, without the package's code for windows, masks, strands and packs."""

import torch

PAIR = {"A": "T", "C": "G", "G": "C", "T": "A", "N": "N", "M": "M"}
IDS = {"A": 5, "C": 6, "G": 7, "T": 8, "N": 9, "M": 4}


def turn(text):
    return "".join(PAIR[letter] for letter in reversed(text))


@torch.no_grad()
def read_logs(model, *texts):
    """Log-probabilities of A, C, G and T at every place of texts of one length; M is a mask."""
    ids = torch.tensor([[IDS[letter] for letter in text] for text in texts])
    logits = model(ids).logits.double()
    return logits[..., 5:9].log_softmax(-1)


@torch.no_grad()
def read_vector(model, text):
    """The mean of the outputs of both strands."""
    ids = torch.tensor([[IDS[letter] for letter in strand] for strand in (text, turn(text))])
    return model.base_model(ids).last_hidden_state.double().mean((0, 1))


def cut(text, start, ref, alt, size):
    """Letters before and behind an allele."""
    inner = max(len(ref), len(alt))
    wanted = size - inner
    left = (wanted + 1) // 2
    right = wanted - left
    have_left, have_right = start, len(text) - start - len(ref)
    if have_left < left:
        left, right = have_left, min(have_right, wanted - have_left)
    elif have_right < right:
        left, right = min(have_left, wanted - have_right), have_right
    end = start + len(ref)
    return text[start - left : start], text[end : end + right]


def shorten(start, ref, alt):
    while ref and alt and ref[-1] == alt[-1]:
        ref, alt = ref[:-1], alt[:-1]
    while ref and alt and ref[0] == alt[0]:
        start, ref, alt = start + 1, ref[1:], alt[1:]
    return start, ref, alt


def site_scores(model, before, ref, alt, after):
    strands = []
    for text, place, letters in (
        (before + "M" + after, len(before), (ref, alt)),
        (turn(before + "M" + after), len(after), (PAIR[ref], PAIR[alt])),
    ):
        logs = read_logs(model, text)[0, place]
        entropy = float(-(logs.exp() * logs).sum())
        first, second = (float(logs["ACGT".index(letter)]) for letter in letters)
        strands.append((second - first, entropy, first))
    (forward, e1, p1), (reverse, e2, p2) = strands
    return {
        "llr": (forward + reverse) / 2,
        "llr_forward": forward,
        "llr_reverse": reverse,
        "entropy": (e1 + e2) / 2,
        "ref_logp": (p1 + p2) / 2,
    }


def pseudo_likelihoods(model, before, allele, after, passes):
    """Mean log-probabilities of all known letters, of both strands."""
    text = before + allele + after
    turns = {}
    for place in range(len(text)):
        behind = place - len(before) - len(allele)
        if not passes:
            turn_of = place
        elif place < len(before):
            turn_of = (len(before) - 1 - place) % passes
        elif behind < 0:
            turn_of = (place - len(before)) % passes
        else:
            turn_of = (behind + (passes + 1) // 2) % passes
        turns.setdefault(turn_of, []).append(place)
    sums, count = [0.0, 0.0], 0
    known = [[place for place in places if text[place] in "ACGT"] for places in turns.values()]
    masked = ["".join("M" if p in group else c for p, c in enumerate(text)) for group in known]
    all_forward = read_logs(model, *masked)
    all_reverse = read_logs(model, *map(turn, masked))
    for group, forward, reverse in zip(known, all_forward, all_reverse, strict=True):
        count += len(group)
        for place in group:
            sums[0] += float(forward[place]["ACGT".index(text[place])])
            mirror = reverse[len(text) - 1 - place]
            sums[1] += float(mirror["ACGT".index(PAIR[text[place]])])
    return [total / count for total in sums]


def score(model, reference, variant, size, passes):
    """All scores of a variant `(chrom, pos, ref, alt)`."""
    text = reference[variant.chrom].upper()
    start, ref, alt = shorten(variant.pos - 1, variant.ref, variant.alt)
    before, after = cut(text, start, ref, alt, size)
    if len(ref) == len(alt) == 1:
        scores = site_scores(model, before, ref, alt, after)
    else:
        first = pseudo_likelihoods(model, before, ref, after, passes)
        second = pseudo_likelihoods(model, before, alt, after, passes)
        forward, reverse = second[0] - first[0], second[1] - first[1]
        scores = {
            "pllr": (forward + reverse) / 2,
            "pllr_forward": forward,
            "pllr_reverse": reverse,
        }
    windows = [before + allele + after for allele in (ref, alt)]
    vectors = [read_vector(model, window) for window in windows]
    scores["distance"] = float((vectors[1] - vectors[0]).norm())
    return scores
