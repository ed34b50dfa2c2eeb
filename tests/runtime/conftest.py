"""What the run room's tests share: arguments of a manifest in few words."""

from collections.abc import Callable

import pytest

from cugen.abi.manifest import ArrayArgument

MakeArgument = Callable[..., ArrayArgument]


@pytest.fixture
def argument() -> MakeArgument:
    """Makes an array argument; dense row-major where no strides are given."""

    def make(
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        *,
        name: str = "A",
        role: str = "input",
        dtype: str = "float32",
        elements: int | None = None,
        alignment: int = 16,
    ) -> ArrayArgument:
        if strides is None:
            steps = [1]
            for extent in reversed(shape[1:]):
                steps.insert(0, steps[0] * extent)
            strides = tuple(steps[: len(shape)])
        if elements is None:
            span = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
            elements = 0 if 0 in shape else span
        return ArrayArgument(name, role, dtype, shape, strides, elements, alignment)

    return make
