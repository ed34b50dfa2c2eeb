import math
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.reference.storage import cast, numpy_dtype, store
from cugen.spec.types import DTYPES, Kind

DOUBLES = st.floats(width=64)
FINITE = st.floats(allow_nan=False, allow_infinity=False, width=64)
FLOATS = [t for t in DTYPES.values() if t.is_float]
NARROW = [t for t in FLOATS if t.bits < 64]
INTEGERS = [t for t in DTYPES.values() if t.is_integer]
SATURATED = {"float8_e4m3": 448.0, "float8_e5m2": 57344.0}


def nearest_element(value: float, dtype) -> float:
    """The element of a 16- or 8-bit type nearest to a double, ties to even, by exhaustive search."""
    unsigned = np.uint8 if dtype.bits == 8 else np.uint16
    patterns = np.arange(1 << (dtype.bits - 1), dtype=unsigned)  # not negative ones, in ascending order
    with np.errstate(invalid="ignore"):
        elements = patterns.view(numpy_dtype(dtype)).astype(np.float64)
    finite = elements[np.isfinite(elements)]
    limit = finite[-1] + (finite[-1] - finite[-2]) / 2
    magnitude = abs(value)
    if magnitude >= limit or (dtype.name in SATURATED and magnitude > finite[-1]):
        return math.copysign(SATURATED.get(dtype.name, math.inf), value)
    above = int(np.searchsorted(finite, magnitude))
    if above == len(finite):
        return math.copysign(finite[-1], value)
    if finite[above] == magnitude or above == 0:
        return math.copysign(finite[above], value)
    low, high = finite[above - 1], finite[above]
    if magnitude - low == high - magnitude:
        chosen = low if (above - 1) % 2 == 0 else high
    else:
        chosen = low if magnitude - low < high - magnitude else high
    return math.copysign(chosen, value)


@pytest.mark.parametrize("dtype", [t for t in FLOATS if t.bits <= 16], ids=str)
@given(value=st.one_of(FINITE, st.floats(-70000, 70000), st.floats(-500, 500), st.floats(-1e-6, 1e-6)))
def test_a_store_gives_the_nearest_element_and_ties_go_to_even(dtype, value):
    stored = store(np.array([value]), dtype).astype(np.float64)[0]
    assert stored == nearest_element(value, dtype)


@pytest.mark.parametrize("dtype", [t for t in FLOATS if t.bits <= 16], ids=str)
def test_a_value_just_above_the_midpoint_rounds_up_although_float32_cannot_distinguish_it(dtype):
    step = float(ml_dtypes.finfo(numpy_dtype(dtype)).eps)
    just_above = 1 + step / 2 + 2.0**-50
    assert store(np.array([just_above]), dtype).astype(np.float64)[0] == 1 + step


@given(dtype=st.sampled_from(NARROW), value=DOUBLES)
def test_storing_twice_changes_nothing(dtype, value):
    once = store(np.array([value]), dtype)
    twice = store(once.astype(np.float64), dtype)
    np.testing.assert_array_equal(twice.astype(np.float64), once.astype(np.float64))


@given(dtype=st.sampled_from(NARROW), a=FINITE, b=FINITE)
def test_a_store_never_reverses_an_order(dtype, a, b):
    low, high = store(np.array([min(a, b), max(a, b)]), dtype).astype(np.float64)
    assert low <= high


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nan_stays_nan(dtype):
    assert np.isnan(store(np.array([np.nan]), dtype).astype(np.float64)[0])


@pytest.mark.parametrize("name", SATURATED)
def test_float8_saturates_infinities_too(name):
    stored = store(np.array([np.inf, -np.inf, 1e9, -1e9]), DTYPES[name]).astype(np.float64)
    np.testing.assert_array_equal(stored, SATURATED[name] * np.array([1, -1, 1, -1]))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
def test_other_floats_overflow_to_infinity(name):
    stored = store(np.array([1e300, -1e300]), DTYPES[name]).astype(np.float64)
    np.testing.assert_array_equal(stored, [np.inf, -np.inf])


@given(dtype=st.sampled_from(INTEGERS), value=st.integers(-(2**63), 2**63 - 1))
def test_integers_wrap_on_store(dtype, value):
    wrapped = (value - dtype.lowest) % (1 << dtype.bits) + dtype.lowest
    assert int(store(np.array([value], dtype=np.int64), dtype)[0]) == wrapped


@given(dtype=st.sampled_from(INTEGERS), value=DOUBLES)
def test_a_float_truncates_saturates_at_the_wide_range_then_wraps(dtype, value):
    bits = 64 if dtype.bits == 64 else 32
    lowest, highest = (0, 2**bits - 1) if dtype.kind is Kind.UINT else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if math.isnan(value):
        wide = 0
    elif math.isinf(value):
        wide = highest if value > 0 else lowest
    else:
        wide = min(max(math.trunc(value), lowest), highest)
    wrapped = (wide - dtype.lowest) % (1 << dtype.bits) + dtype.lowest
    assert int(cast(np.array([value]), dtype)[0]) == wrapped


@given(value=DOUBLES)
def test_a_cast_to_bool_compares_with_zero(value):
    assert bool(cast(np.array([value]), DTYPES["bool"])[0]) == (value != 0)


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_an_integer_rounds_once_when_converted_to_float32(value):
    assert cast(np.array([value]), DTYPES["float32"])[0] == float(np.float32(np.int64(value)))


def test_a_bool_casts_to_one_and_zero():
    np.testing.assert_array_equal(cast(np.array([True, False]), DTYPES["float32"]), [1.0, 0.0])


def test_ml_dtypes_is_not_imported_for_types_that_numpy_has():
    program = (
        "import sys; import cugen.reference.evaluate; from cugen.reference.storage import numpy_dtype, store;"
        "from cugen.spec.types import FLOAT16; import numpy; store(numpy.ones(2), FLOAT16);"
        "sys.exit('ml_dtypes' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
