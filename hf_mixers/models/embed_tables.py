"""Rows of tables as sequences with one token per column."""

import torch
from torch import Tensor, nn
from transformers import initialization as init

from .border import Border
from .configuration_mrsformer import MrsFormerConfig
from .inputs import ask_ids
from .packing import upload


class ColumnEmbedding(nn.Module):
    """Numbers and categories of table rows as vectors `(B, columns, D)`, as in FT-Transformer.

    A number is multiplied by the vector of its column; a category has a vector; both are added to
    a bias of the column. Numbers come first.
    """

    def __init__(self, config: MrsFormerConfig):
        super().__init__()
        self.num_numeric = config.num_numeric_features or 0
        self.category_sizes = list(config.category_sizes or ())
        width = config.hidden_size
        if self.num_numeric:
            self.weight = nn.Parameter(torch.empty(self.num_numeric, width))
        if self.category_sizes:
            self.categories = nn.Embedding(sum(self.category_sizes), width)
        self.bias = nn.Parameter(torch.empty(self.num_numeric + len(self.category_sizes), width))

    def reset_parameters(self) -> None:
        bound = self.bias.shape[1] ** -0.5
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def forward(self, numeric_values: Tensor | None, category_ids: Tensor | None) -> Tensor:
        parts = []
        if self.num_numeric:
            parts.append(numeric_values.to(self.weight.dtype)[..., None] * self.weight)
        if self.category_sizes:
            parts.append(self.categories(self._shift(category_ids)))
        return torch.cat(parts, 1) + self.bias

    def _shift(self, category_ids: Tensor) -> Tensor:
        """Ids of columns -> rows of the one table of vectors."""
        firsts = [sum(self.category_sizes[:column]) for column in range(len(self.category_sizes))]
        return category_ids.long() + upload(firsts, category_ids.device)

    def check(
        self, numeric_values: Tensor | None, category_ids: Tensor | None, border: Border
    ) -> None:
        """Refuse columns that do not fit the tables; their ids once the border is settled."""
        wanted = {
            "numeric_values": (numeric_values, self.num_numeric),
            "category_ids": (category_ids, len(self.category_sizes)),
        }
        for name, (given, columns) in wanted.items():
            if columns == 0 and given is not None:
                raise ValueError(f"The tables of this model have no {name}, got some.")
            if columns and (given is None or given.dim() != 2 or given.shape[1] != columns):
                shape = None if given is None else tuple(given.shape)
                raise ValueError(f"{name} must have shape (B, {columns}), got {shape}.")
        if numeric_values is not None and not numeric_values.is_floating_point():
            raise ValueError(
                f"numeric_values must hold floating-point numbers, got {numeric_values.dtype}."
            )
        for column, size in enumerate(self.category_sizes):
            name = f"Column {column} of category_ids"
            ask_ids(border, name, category_ids[:, column], size)
        # not by len(), with which an exported program would be for that many rows only
        rows = [part.shape[0] for part in (numeric_values, category_ids) if part is not None]
        if rows[0] != rows[-1]:
            raise ValueError(
                f"numeric_values and category_ids must have as many rows, got {rows[0]} and"
                f" {rows[-1]}."
            )
