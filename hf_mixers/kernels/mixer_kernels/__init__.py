"""Triton kernels of ChordMixer and Paramixer, which need torch and triton and nothing else."""

from .chord import gather_tracks, mix, mix_backward
from .links import link_dots, link_product

__all__ = ["gather_tracks", "link_dots", "link_product", "mix", "mix_backward"]
