"""Logical arrays and flat buffers."""

import numpy as np
import pytest

from cugen.reference.storage import numpy_dtype
from cugen.runtime.buffers import bits, gaps, pack, poison, view
from cugen.spec.types import DTYPES

LAYOUTS = [
    ((5, 7), (7, 1), 35),
    ((5, 7), (1, 5), 35),  # column-major
    ((5, 7), (8, 1), 40),  # pitched, the last gap included
    ((3, 4, 5), (32, 8, 1), 96),
    ((), (), 1),
    ((0, 4), (4, 1), 0),
]


@pytest.mark.parametrize(("shape", "strides", "elements"), LAYOUTS)
def test_what_is_packed_comes_back_through_the_view(argument, shape, strides, elements) -> None:
    array = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    made = argument(shape, strides, elements=elements)
    buffer = pack(array, made, {})
    assert buffer.shape == (elements,)
    assert np.array_equal(view(buffer, made, {}), array)
    for position in np.ndindex(shape):
        assert buffer[sum(i * s for i, s in zip(position, strides, strict=True))] == array[position]


@pytest.mark.parametrize(("shape", "strides", "elements"), LAYOUTS)
def test_the_gaps_are_what_the_strides_do_not_reach_and_hold_poison(argument, shape, strides, elements) -> None:
    made = argument(shape, strides, elements=elements)
    buffer = pack(np.zeros(shape, np.float32), made, {})
    mask = gaps(made, {})
    assert mask.sum() == elements - np.prod(shape, dtype=int)
    assert np.array_equal(bits(buffer[mask]), bits(poison(DTYPES["float32"], elements)[mask]))
    assert not buffer[~mask].any()


def test_sizes_may_depend_on_dynamic_params(argument) -> None:
    made = argument(("M", 3), ("(3 + 3) // 4 * 4", 1), elements="M * 4")
    assert pack(np.ones((2, 3), np.float32), made, {"M": 2}).shape == (8,)


def test_a_view_beyond_the_buffer_is_refused(argument) -> None:
    with pytest.raises(ValueError, match="outside a buffer"):
        view(np.zeros(10, np.float32), argument((5, 7)), {})


def test_a_wrong_shape_is_refused_and_never_broadcast(argument) -> None:
    with pytest.raises(ValueError, match=r"A: shape \(1, 7\) given, \(5, 7\) expected"):
        pack(np.zeros((1, 7), np.float32), argument((5, 7)), {})


@pytest.mark.parametrize("name", DTYPES)
def test_poison_has_its_type_and_two_patterns_that_differ_in_every_element(name: str) -> None:
    first, second = poison(DTYPES[name], 9, 0), poison(DTYPES[name], 9, 1)
    assert first.dtype == numpy_dtype(DTYPES[name])
    assert (bits(first) != bits(second)).all()


@pytest.mark.parametrize("name", [name for name, dtype in DTYPES.items() if dtype.is_float])
def test_poison_of_floats_is_nan_and_unlike_the_nan_that_operations_make(name: str) -> None:
    for variant in (0, 1):
        content = poison(DTYPES[name], 4, variant)
        assert np.isnan(content.astype(np.float64)).all()
        if DTYPES[name].bits > 8:
            made = np.full(4, np.nan).astype(content.dtype)
            assert (bits(content) != bits(made)).all()
