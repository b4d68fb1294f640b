"""What a mixer has to beat: simple models for the same rows, scored by the same metrics."""

from .cnn import SmallCnn
from .kernels import RandomKernelRidge
from .kmers import KmerLogisticRegression
from .markov import MarkovBaseline

__all__ = ["KmerLogisticRegression", "MarkovBaseline", "RandomKernelRidge", "SmallCnn"]
