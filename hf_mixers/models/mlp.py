"""The MLP that every token passes by itself."""

import torch
from torch import Tensor, nn


def input_dtype(layer: nn.Module) -> torch.dtype:
    """What a linear layer takes: the type of its weights, or float32 if torch has quantized it."""
    weight = layer.weight
    return weight.dtype if torch.is_tensor(weight) else torch.float32


class TokenMLP(nn.Module):
    """Two linear layers with an exact GELU between, the same for every token.

    Args:
        dropout: Dropout after the GELU and after the second layer.
    """

    def __init__(self, width: int, intermediate_size: int, out_width: int, dropout: float = 0.0):
        super().__init__()
        self.fc1 = nn.Linear(width, intermediate_size)
        self.activation = nn.GELU()
        self.fc2 = nn.Linear(intermediate_size, out_width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.dropout(self.fc2(self.dropout(self.activation(self.fc1(hidden)))))
