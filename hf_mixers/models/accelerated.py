"""Kernels in Triton, where the config asks for them and the device can run them.

They are a package of their own, so that a checkpoint that is published with its code runs without.
"""

import os
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from .packing import Pack, upload

# the widest rows that a kernel takes
WIDEST = 512


def find_kernels(wanted: bool, rows: Tensor, width: int) -> Any:
    """The kernels for matrices like `rows` of some width; None where they are not to be used.

    They run on CUDA devices, and anywhere in the interpreter of Triton (`TRITON_INTERPRET=1`).
    """
    is_there = rows.device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"
    if not (wanted and is_there and width <= WIDEST) or rows.dtype == torch.float64:
        return None
    try:
        return import_module("hf_mixers.kernels.mixer_kernels")
    except ImportError as error:
        raise ValueError(
            f"config.use_triton=True needs hf_mixers and triton (pip install hf-mixers[triton]),"
            f" got: {error}."
        ) from error


def kernel_layout(
    pack: Pack, offsets: tuple[int, ...], inverse: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """What kernels read of a ragged pack, and shifts in either direction."""
    key = "kernel layout", offsets, inverse
    if key not in pack.notes:
        signed = [-offset if inverse else offset for offset in offsets]
        shifts = upload(signed, pack.lengths.device)
        pack.notes[key] = pack.position.contiguous(), pack.row_lengths.contiguous(), shifts
    return pack.notes[key]
