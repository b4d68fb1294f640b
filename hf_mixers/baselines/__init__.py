"""What a mixer has to beat: simple models for the same rows, scored by the same metrics."""

from .cnn import SmallCnn
from .kernels import RandomKernelRidge
from .kmers import KmerLogisticRegression
from .markov import MarkovBaseline
from .pixels import regress_pixels
from .trees import boost_trees

__all__ = [
    "KmerLogisticRegression",
    "MarkovBaseline",
    "RandomKernelRidge",
    "SmallCnn",
    "boost_trees",
    "regress_pixels",
]
