"""Same answer alone or in company: what users come for, in every family and variant."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_mixers.models import ops_chord, ops_chord_rows, ops_links, packing
from tests.families import ROWS, every_family, every_variant, find_row, flatten, pad, random_ids

LENGTHS = [1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 127, 128, 129, 511, 513, 1023, 1024, 1025, 2000]
TOLERANCE = {"atol": 1e-5, "rtol": 1e-5}


def alone(model, sequences):
    with torch.no_grad():
        outputs = [model(ids[None]) for ids in sequences]
    return [o.last_hidden_state[0] for o in outputs], torch.cat([o.pooler_output for o in outputs])


def scale_down(model):
    """Keep activations of random deep stacks near 1, so that 1e-5 is a tolerance of float32."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2 and "embed" not in name:
                parameter.mul_(0.5)
    return model


def check_same_answer(model, sequences, inputs, place):
    """`place(row, length)` gives index of a sequence's tokens in the output."""
    tokens, pooled = alone(model, sequences)
    with torch.no_grad():
        output = model(**inputs)
    torch.testing.assert_close(output.pooler_output, pooled, **TOLERANCE)
    for row, expected in enumerate(tokens):
        torch.testing.assert_close(
            output.last_hidden_state[place(row, len(expected))], expected, **TOLERANCE
        )


@every_variant
@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_equals_alone(row, changes, side):
    model = scale_down(row.build(**changes))
    sequences = [random_ids(length) for length in LENGTHS]
    width = max(LENGTHS) + 3
    ids, mask = pad(sequences, side, width=width)
    check_same_answer(
        model,
        sequences,
        {"input_ids": ids, "attention_mask": mask},
        lambda r, n: (r, slice(0, n) if side == "right" else slice(width - n, width)),
    )


@every_variant
def test_flat_equals_alone(row, changes):
    model = scale_down(row.build(**changes))
    sequences = [random_ids(length) for length in LENGTHS]
    ends = torch.tensor(LENGTHS).cumsum(0).tolist()
    check_same_answer(
        model,
        sequences,
        flatten(sequences),
        lambda r, n: (0, slice(ends[r] - n, ends[r])),
    )


@every_variant
def test_shuffling_a_batch_shuffles_its_outputs(row, changes):
    model = scale_down(row.build(**changes))
    ids, mask = pad([random_ids(length) for length in LENGTHS])
    order = torch.randperm(len(LENGTHS))
    with torch.no_grad():
        straight = model(ids, attention_mask=mask)
        shuffled = model(ids[order], attention_mask=mask[order])
    for name in ("last_hidden_state", "pooler_output"):
        torch.testing.assert_close(shuffled[name], straight[name][order], **TOLERANCE)


@every_variant
def test_what_stands_in_the_padding_does_not_matter(row, changes):
    model = row.build(**changes)
    sequences = [random_ids(length) for length in (9, 4, 1)]
    outputs = []
    for content, width in ((0, 9), (7, 12)):
        ids, mask = pad(sequences, width=width, content=content)
        with torch.no_grad():
            output = model(ids, attention_mask=mask)
        assert not output.last_hidden_state[mask == 0].any()
        outputs.append((output.last_hidden_state[:, :9], output.pooler_output))
    torch.testing.assert_close(outputs[0], outputs[1])


@every_variant
def test_masked_tokens_inside_a_sequence_are_absent(row, changes):
    model = row.build(**changes)
    ids = random_ids(1, 10)
    mask = torch.tensor([[0, 1, 1, 0, 0, 1, 1, 1, 0, 1]])
    with torch.no_grad():
        holed = model(ids, attention_mask=mask)
        closed = model(ids[mask == 1][None])
    torch.testing.assert_close(holed.last_hidden_state[mask == 1], closed.last_hidden_state[0])
    torch.testing.assert_close(holed.pooler_output, closed.pooler_output)


@every_variant
def test_both_layouts_give_the_same_numbers_and_gradients(row, changes, monkeypatch):
    sequences = [random_ids(length) for length in (1, 2, 3, 17, 33)]
    ids, mask = pad(sequences, "left", width=40)
    results = []
    for static in (False, True):
        monkeypatch.setattr(packing, "use_static_layout", lambda static=static: static)
        model = scale_down(row.build(**changes))
        padded = model(ids, attention_mask=mask)
        flat = model(**flatten(sequences))
        (padded.last_hidden_state.square().sum() + flat.pooler_output.square().sum()).backward()
        gradients = {name: p.grad for name, p in model.named_parameters()}
        results.append(
            (padded.last_hidden_state, padded.pooler_output, flat.pooler_output, gradients)
        )
    torch.testing.assert_close(results[0], results[1], atol=1e-4, rtol=1e-4)


@pytest.mark.slow
@every_family
@settings(max_examples=20)
@given(lengths=st.lists(st.integers(1, 70), min_size=1, max_size=7), data=st.data())
def test_any_mix_padded_anywhere_equals_flat(row, lengths, data):
    model = row.build()
    sequences = [random_ids(length) for length in lengths]
    width = max(lengths) + data.draw(st.integers(0, 3))
    ids = torch.zeros(len(lengths), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for r, sequence in enumerate(sequences):
        places = data.draw(st.permutations(range(width)))[: len(sequence)]
        ids[r, sorted(places)] = sequence
        mask[r, sorted(places)] = 1
    with torch.no_grad():
        padded = model(ids, attention_mask=mask)
        flat = model(**flatten(sequences))
    torch.testing.assert_close(
        padded.last_hidden_state[mask == 1], flat.last_hidden_state[0], **TOLERANCE
    )
    torch.testing.assert_close(padded.pooler_output, flat.pooler_output, **TOLERANCE)


@every_family
def test_gradients_do_not_depend_on_company(row):
    model = row.build("sequence_classification")
    sequences = [random_ids(length) for length in (40, 3, 17)]
    labels = torch.tensor([0, 1, 1])

    def gradients(*losses):
        model.zero_grad()
        sum(losses).backward()
        return {name: p.grad.clone() for name, p in model.named_parameters()}

    together = gradients(model(**flatten(sequences), labels=labels).loss)
    apart = gradients(
        *(model(s[None], labels=labels[i : i + 1]).loss / 3 for i, s in enumerate(sequences))
    )
    torch.testing.assert_close(together, apart, atol=1e-5, rtol=1e-4)


@every_family
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_does_not_depend_on_company(row, dtype):
    model = scale_down(row.build()).to(dtype)
    sequences = [random_ids(length) for length in (40, 3, 17)]
    ids, mask = pad(sequences)
    with torch.no_grad():
        together = model(ids, attention_mask=mask).pooler_output
    _, apart = alone(model, sequences)
    torch.testing.assert_close(together, apart, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("fused", [True, False])
def test_a_leaking_rotation_fails_these_tests(monkeypatch, fused):
    def leaking(hidden, *_):
        tracks = hidden.split(ROWS[0].small["track_size"], dim=1)
        return torch.cat([t.roll(-o, 0) for t, o in zip(tracks, [0, 1, 2, 4] * 9, strict=False)], 1)

    def leaking_rows(self, hidden, rows, out):
        return leaking(hidden)[rows].contiguous()

    monkeypatch.setattr(ops_chord, "_gather_by_track", leaking)
    monkeypatch.setattr(ops_chord_rows.Rotation, "rows", leaking_rows)
    model = ROWS[0].build(fused=fused)
    sequences = [random_ids(length) for length in (9, 5)]
    with pytest.raises(AssertionError):
        check_same_answer(
            model, sequences, flatten(sequences), lambda r, n: (0, slice(9 * r, 9 * r + n))
        )


def test_leaking_links_fail_these_tests(monkeypatch):
    def leaking(position, lengths, valid, offset):
        rows = torch.arange(len(position)).view(position.shape)
        return (rows + offset) % len(position)

    monkeypatch.setattr(ops_links, "source_rows", leaking)
    model = find_row("paramixer").build()
    sequences = [random_ids(length) for length in (9, 5)]
    with pytest.raises(AssertionError):
        check_same_answer(
            model, sequences, flatten(sequences), lambda r, n: (0, slice(9 * r, 9 * r + n))
        )
