"""What a ChordMixer block costs beside its two matrix products.

One block of 18 tracks of 16 channels (288) and 128 hidden units on one sequence: ours, ours from
plain operations (`fused=False`), the plain twin, and nothing but the products, all with fresh
memory for their results; then ours and the products once more, into memory that is already there,
as blocks inside a network have it at inference.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from hf_mixers import ChordMixerConfig, ChordMixerModel
from hf_mixers.models.packing import Boundaries, Pack, pack_ragged

from ..interleaved import Case, Group
from ..isolated import Built
from ..options import Options
from ..plain import PlainBlock
from ..steps import MODES, TINY, Mode

LENGTHS = (16_384, 131_072)
# network and memory of its result
FORWARD = (
    ("products", "fresh"),
    ("chordmixer", "fresh"),
    ("unfused", "fresh"),
    ("plain", "fresh"),
    ("products", "reused"),
    ("chordmixer", "reused"),
)
TRAINING = FORWARD[:4]


def make_groups(options: Options) -> list[Group]:
    return [
        Group(
            [
                Case(
                    {"network": name, "memory": memory, "mode": mode, "length": length},
                    build,
                    {
                        "name": name,
                        "memory": memory,
                        "length": length,
                        "mode": mode,
                        "seed": options.seed,
                    },
                )
                for name, memory in (TRAINING if mode == "training" else FORWARD)
            ]
        )
        for length in ((512,) if options.smoke else LENGTHS)
        for mode in MODES
    ]


def build(name: str, memory: str, length: int, mode: Mode, seed: int) -> Built:
    """One block, or its products, on one sequence; training is forward and backward."""
    torch.manual_seed(seed)
    config = ChordMixerConfig(
        track_size=16,
        num_tracks=18,
        intermediate_size=128,
        num_hidden_layers=1,
        max_position_embeddings=1 << 17,
        adaptive_depth=False,
        fused=name == "chordmixer",
    )
    makers = {
        ("products", "fresh"): _make_products,
        ("products", "reused"): _make_products_in_place,
        ("chordmixer", "fresh"): _make_block,
        ("chordmixer", "reused"): _make_block_in_place,
        ("unfused", "fresh"): _make_block,
        ("plain", "fresh"): _make_plain_block,
    }
    make = makers[name, memory]
    make(config, TINY, mode)()
    return Built(make(config, length, mode), {"width": config.hidden_size})


def _make_block(config: ChordMixerConfig, length: int, mode: Mode) -> Callable[[], None]:
    block, pack = ChordMixerModel(config).layers[0], _pack_one(length)
    return _make_step(block, lambda rows: block(rows, pack), config, length, mode)


def _make_plain_block(config: ChordMixerConfig, length: int, mode: Mode) -> Callable[[], None]:
    block = PlainBlock(config)
    return _make_step(block, lambda rows: block(rows[None], [length])[0], config, length, mode)


def _make_step(
    block: torch.nn.Module,
    call: Callable[[Tensor], Tensor],
    config: ChordMixerConfig,
    length: int,
    mode: Mode,
) -> Callable[[], None]:
    training = mode == "training"
    hidden = torch.randn(length, config.hidden_size, requires_grad=training)
    weights = torch.randn(length, config.hidden_size) if training else None

    def step() -> None:
        with torch.set_grad_enabled(training):
            out = call(hidden)
        if training:
            out.backward(weights)
            block.zero_grad()
            hidden.grad = None

    return step


def _make_block_in_place(config: ChordMixerConfig, length: int, mode: Mode) -> Callable[[], None]:
    block, pack = ChordMixerModel(config).layers[0].eval(), _pack_one(length)
    hidden, spare = torch.randn(2, length, config.hidden_size)

    def step() -> None:
        with torch.no_grad():
            block.infer(hidden, pack, spare)

    return step


def _pack_one(length: int) -> Pack:
    return pack_ragged([Boundaries((1, length), torch.device("cpu"))])


def _make_products(config: ChordMixerConfig, length: int, mode: Mode) -> Callable[[], None]:
    products = _draw_products(config, length, mode)

    def step() -> None:
        for left, right in products:
            torch.mm(left, right)

    return step


def _make_products_in_place(
    config: ChordMixerConfig, length: int, mode: Mode
) -> Callable[[], None]:
    products = _draw_products(config, length, mode)
    results = [left @ right for left, right in products]

    def step() -> None:
        for (left, right), result in zip(products, results, strict=True):
            torch.mm(left, right, out=result)

    return step


def _draw_products(
    config: ChordMixerConfig, length: int, mode: Mode
) -> list[tuple[Tensor, Tensor]]:
    """Factors of the two products, and in training of the four of their gradients."""
    width, inside = config.hidden_size, config.intermediate_size
    rows, hidden = torch.randn(length, width), torch.randn(length, inside)
    to_inside, to_width = torch.randn(width, inside), torch.randn(inside, width)
    products = [(rows, to_inside), (hidden, to_width)]
    if mode == "training":
        grad, grad_inside = torch.randn(length, width), torch.randn(length, inside)
        products += [(grad, to_width.T), (hidden.T, grad)]
        products += [(grad_inside, to_inside.T), (rows.T, grad_inside)]
    return products
