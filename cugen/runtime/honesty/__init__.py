"""Comparison of the traced accesses of a kernel with the access sequence that its plan predicts."""

from cugen.runtime.honesty.check import check_honesty
from cugen.runtime.honesty.comparison import Comparison, Mismatch, compare
from cugen.runtime.honesty.prediction import PlannedAccess, Prediction, predict
from cugen.runtime.honesty.sizes import small_params

__all__ = [
    "Comparison",
    "Mismatch",
    "PlannedAccess",
    "Prediction",
    "check_honesty",
    "compare",
    "predict",
    "small_params",
]
