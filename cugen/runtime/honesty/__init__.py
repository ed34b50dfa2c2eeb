"""Is the plan honest? The accesses that its expressions predict, against those that the emitted code makes."""

from cugen.runtime.honesty.check import check_honesty
from cugen.runtime.honesty.comparison import Comparison, Mismatch, compare
from cugen.runtime.honesty.prediction import Place, Prediction, predicted
from cugen.runtime.honesty.sizes import small_params

__all__ = [
    "Comparison",
    "Mismatch",
    "Place",
    "Prediction",
    "check_honesty",
    "compare",
    "predicted",
    "small_params",
]
