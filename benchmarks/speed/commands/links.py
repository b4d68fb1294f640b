"""What the sparse factors of a Paramixer cost: ours, gathering all links, and torch.sparse.

Fourteen factors of 15 links each (CHORD) times the values of one sequence of 16,384 tokens, 32
channels wide, one after the other; forward and backward, with gradients of values and links.
Places of the links are made beforehand where a formulation needs them.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from hf_mixers.models.ops_links import link_offsets, mix_links
from hf_mixers.models.packing import Boundaries, pack_ragged

from ..interleaved import Group, compare_networks
from ..isolated import Built
from ..options import Options

LENGTH, WIDTH = 16_384, 32
NETWORKS = ("paramixer", "gather", "torch.sparse")

Product = Callable[[Tensor, Tensor], Tensor]


def make_groups(options: Options) -> list[Group]:
    length = 256 if options.smoke else LENGTH
    return [compare_networks(NETWORKS, build, options.seed, length=length)]


def build(name: str, length: int, seed: int) -> Built:
    """All factors times the values, and back."""
    torch.manual_seed(seed)
    num_factors = (length - 1).bit_length()
    offsets = link_offsets("chord", num_factors + 1, factor=0)
    multiply = make_product(name, length, offsets)
    values = torch.randn(length, WIDTH, requires_grad=True)
    factors = torch.randn(num_factors, length, len(offsets)).div_(len(offsets)).unbind()
    for factor in factors:
        factor.requires_grad_()

    def step() -> None:
        product = values
        for factor in factors:
            product = multiply(product, factor)
        product.sum().backward()
        for tensor in (values, *factors):
            tensor.grad = None

    return Built(step, {"width": WIDTH, "links": len(offsets), "factors": num_factors})


def make_product(name: str, length: int, offsets: tuple[int, ...]) -> Product:
    """A factor times values, `(T, D)` and `(T, K)` -> `(T, D)`."""
    if name == "paramixer":
        pack = pack_ragged([Boundaries((1, length), torch.device("cpu"))])
        return lambda values, links: mix_links(values, links, pack, offsets)
    places = (torch.arange(length)[:, None] + torch.tensor(offsets)) % length
    if name == "gather":
        return lambda values, links: (values[places] * links[:, :, None]).sum(1)
    rows = torch.arange(length)[:, None].expand_as(places)
    entries = torch.stack([rows.flatten(), places.flatten()])

    def multiply(values: Tensor, links: Tensor) -> Tensor:
        size = (length, length)
        factor = torch.sparse_coo_tensor(entries, links.flatten(), size, check_invariants=False)
        return torch.sparse.mm(factor, values)

    return multiply
