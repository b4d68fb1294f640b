"""One sequence, or one batch, over several processes."""

from ..models.sharing import shared_over
from .groups import average_gradients, context_parallel, make_context_group, make_mesh

__all__ = [
    "average_gradients",
    "context_parallel",
    "make_context_group",
    "make_mesh",
    "shared_over",
]
