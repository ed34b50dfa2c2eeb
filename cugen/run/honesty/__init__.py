"""Is the plan honest? The accesses that its expressions predict, against those that the emitted code makes."""

from cugen.run.honesty.comparison import Comparison, Mismatch, compare
from cugen.run.honesty.prediction import Place, Prediction, predicted

__all__ = ["Comparison", "Mismatch", "Place", "Prediction", "compare", "predicted"]
