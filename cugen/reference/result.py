"""The meaning of one output, and which answers of a device are right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cugen.reference.contents import Contents
from cugen.reference.storage import Floats, Values


@dataclass(frozen=True, slots=True)
class Result:
    """The meaning of one output: arrays of its logical shape, or of the points asked for.

    `value` is in the storage type. A device's element is right if it equals `value`, if it is within `bound` of
    `exact` (the value before its last rounding), or if `bound` is inf and `choices` (admissible answers by row-major
    number of the element in this result) doesn't narrow that down. `exactly_representable`: no order of evaluation
    can give anything but `value`.
    """

    value: Values
    exact: Values
    bound: Floats
    exactly_representable: bool
    choices: Mapping[int, Values] = field(default_factory=dict)

    def accepts(self, actual: Values) -> NDArray[np.bool_]:
        """Which elements of a device's array are right. NaN is right for NaN, infinity for the same infinity."""
        with np.errstate(all="ignore"):
            got, want = actual.astype(np.float64), self.value.astype(np.float64)
            same = (actual == self.value) | (np.isnan(got) & np.isnan(want))
            near = np.isfinite(got) & (np.abs(got - self.exact.astype(np.float64)) <= self.bound)
            right = np.asarray(same | np.where(self.bound > 0, near | np.isinf(self.bound), False))
        for number, answers in self.choices.items():
            right.flat[number] = bool(np.any(answers == actual.flat[number]))
        return right


def whole_result(contents: Contents) -> Result:
    """All elements of an array that statements have filled."""
    exact = contents.value if contents.exact is None else contents.exact
    bound = np.zeros(contents.shape) if contents.bound is None else contents.bound
    return Result(contents.value, exact, bound, _has_no_freedom(contents.slack), contents.candidates)


def result_at(contents: Contents, numbers: NDArray[np.int64]) -> Result:
    """The elements with the given row-major numbers, evaluated if they weren't yet."""
    contents.complete(numbers)
    value = contents.value.reshape(-1)[numbers]
    exact = value if contents.exact is None else contents.exact.reshape(-1)[numbers]
    bound = np.zeros(numbers.shape) if contents.bound is None else contents.bound.reshape(-1)[numbers]
    choices = {i: contents.candidates[n] for i, n in enumerate(numbers.tolist()) if n in contents.candidates}
    slack = None if contents.slack is None else contents.slack.reshape(-1)[numbers]
    return Result(value, exact, bound, _has_no_freedom(slack), choices)


def _has_no_freedom(slack: Floats | None) -> bool:
    """Whether all stored elements are certain; a store often rounds away what the order of evaluation left open."""
    return slack is None or not np.any(slack)
