"""The rotation of a pack in parts: what every process reads, sends and receives."""

import random

import pytest
import torch
import torch.distributed as dist

from hf_mixers.models import sharing_rotation
from hf_mixers.models.ops_chord import chord_offsets, rotate
from hf_mixers.models.packing import Boundaries, pack_ragged
from hf_mixers.models.sharing import share_pack
from hf_mixers.models.sharing_rotation import SharedReader, SharedRotation

DRAWN = random.Random(0)
PACKS = [[1], [2, 1], [20_001], [1, 777, 3, 258, 64, 65, 2, 500, 17], [8, 8, 8, 8], [5, 9000, 4100]]
PACKS += [[DRAWN.randint(1, 60) for _ in range(DRAWN.randint(2, 40))] for _ in range(4)]


def make_pack(lengths):
    ends = torch.tensor([0, *lengths]).cumsum(0)
    shape, device = (1, int(ends[-1])), torch.device("cpu")
    return pack_ragged([Boundaries(shape, device, cu_seq_lens=ends)])


def make_parts(monkeypatch, pack, size):
    """The pack as each of `size` processes has it, without any."""
    monkeypatch.setattr(dist, "get_world_size", lambda group: size)
    parts = []
    for rank in range(size):
        monkeypatch.setattr(dist, "get_rank", lambda group, rank=rank: rank)
        parts.append(share_pack(pack, None))
    return parts


def exchange_by_hand(monkeypatch, rotations, parts):
    """The readers of all processes, which have got what the others sent."""
    sent = []

    def keep(leaving, counts, *_):
        sent.append(leaving.split(counts))
        return leaving

    monkeypatch.setattr(sharing_rotation, "exchange", keep)
    for rotation, part in zip(rotations, parts, strict=True):
        rotation.reading(part)
    readers = []
    for rank, rotation in enumerate(rotations):
        assert [len(pieces[rank]) for pieces in sent] == rotation.received
        readers.append(SharedReader(rotation, torch.cat([pieces[rank] for pieces in sent])))
    return readers


@pytest.mark.parametrize("size", [2, 3, 4, 7])
@pytest.mark.parametrize("lengths", PACKS, ids=lambda lengths: f"{len(lengths)}-{max(lengths)}")
def test_parts_together_are_the_rotation(monkeypatch, lengths, size):
    pack = make_pack(lengths)
    for alternating, inverse, shortest in ((False, False, 0), (True, True, 0), (False, True, 9)):
        active = pack.longer_than(shortest)
        if not active.num_sequences:
            continue
        offsets = chord_offsets(9, alternating)
        hidden = torch.randn(active.num_rows, 18)
        expected = rotate(hidden, active, tuple(-o for o in offsets) if inverse else offsets)
        shared = [part.longer_than(shortest) for part in make_parts(monkeypatch, pack, size)]
        rotations = [SharedRotation.of(part, offsets, inverse) for part in shared]
        parts = hidden.split([part.num_rows for part in shared])
        readers = exchange_by_hand(monkeypatch, rotations, parts)
        found = []
        for reader, part in zip(readers, parts, strict=True):
            out = torch.full_like(part, torch.nan)
            for first in range(0, len(part), 1000):
                rows = slice(first, min(len(part), first + 1000))
                reader.rows(part, rows, out[rows])
            found.append(out)
        torch.testing.assert_close(torch.cat(found), expected, rtol=0, atol=0)


@pytest.mark.parametrize("size", [2, 4, 8])
def test_one_plus_log2_p_tracks_leave_a_process(monkeypatch, size):
    pack = make_pack([1 << 16])
    offsets = chord_offsets(17)
    for part in make_parts(monkeypatch, pack, size):
        rotation = SharedRotation(part, offsets)
        # the shorter shifts add up to one track, less a row
        most = (1 + size.bit_length() - 1) * part.num_rows
        assert most - 1 == sum(rotation.sent) == sum(rotation.received)
        assert len(rotation.own) + len(rotation.coming) <= 3 * len(offsets)
