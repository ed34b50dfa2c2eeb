"""The reference result of one output, and the comparison with a device's result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cugen.reference.contents import Contents
from cugen.reference.storage import Floats, Values


@dataclass(frozen=True, slots=True)
class Result:
    """The reference result of one output: arrays of its logical shape, or one entry per requested point.

    `value` is in the storage type. A device's element is accepted if it equals `value`, if it is within `bound` of
    `exact` (the value before its last rounding), or if `bound` is inf; `choices` maps row-major indices of this result
    to the admissible values of an element. `exactly_representable`: every order of evaluation gives `value`.
    """

    value: Values
    exact: Values
    bound: Floats
    exactly_representable: bool
    choices: Mapping[int, Values] = field(default_factory=dict)

    def accepts(self, actual: Values) -> NDArray[np.bool_]:
        """A mask of the device's elements that are within tolerance. NaN equals NaN, infinity the same infinity."""
        with np.errstate(all="ignore"):
            device, expected = actual.astype(np.float64), self.value.astype(np.float64)
            same = (actual == self.value) | (np.isnan(device) & np.isnan(expected))
            near = np.isfinite(device) & (np.abs(device - self.exact.astype(np.float64)) <= self.bound)
            accepted = np.asarray(same | np.where(self.bound > 0, near | np.isinf(self.bound), False))
        for number, answers in self.choices.items():
            accepted.flat[number] = bool(np.any(answers == actual.flat[number]))
        return accepted


def whole_result(contents: Contents) -> Result:
    """The result for all elements of an output."""
    exact = contents.value if contents.exact is None else contents.exact
    bound = np.zeros(contents.shape) if contents.bound is None else contents.bound
    return Result(contents.value, exact, bound, _is_exact(contents.slack), contents.candidates)


def result_at(contents: Contents, flat_indices: NDArray[np.int64]) -> Result:
    """The result for the elements at the given row-major indices, evaluated on demand."""
    contents.complete(flat_indices)
    value = contents.value.reshape(-1)[flat_indices]
    exact = value if contents.exact is None else contents.exact.reshape(-1)[flat_indices]
    bound = np.zeros(flat_indices.shape) if contents.bound is None else contents.bound.reshape(-1)[flat_indices]
    choices = {i: contents.candidates[n] for i, n in enumerate(flat_indices.tolist()) if n in contents.candidates}
    slack = None if contents.slack is None else contents.slack.reshape(-1)[flat_indices]
    return Result(value, exact, bound, _is_exact(slack), choices)


def _is_exact(slack: Floats | None) -> bool:
    """Whether all stored elements are exact: rounding on store often removes the dependence on evaluation order."""
    return slack is None or not np.any(slack)
