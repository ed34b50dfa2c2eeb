"""Random inputs: reproducible, of the right type, and inside what they index."""

import numpy as np
import pytest

from cugen.reference.storage import numpy_dtype
from cugen.runtime.inputs import draw, known_params
from cugen.spec.expressions import Boundary, Cast, Const, Index, IndexValue, Op, ParamValue, Read
from cugen.spec.model import Array, Param, Scalar, Spec, Statement
from cugen.spec.prove.drawn import drawn_ranges
from cugen.spec.types import BOOL, DTYPES, FLOAT32, INT32, INT64, DType

ROW = IndexValue("i")


def const(value: int) -> Const:
    return Const(value, INT64)


def array(name: str, *shape: int, dtype: DType = FLOAT32, role: str = "input") -> Array:
    return Array(name, tuple(map(const, shape)), dtype, role, tuple(map(const, shape)))


def ids(subscript=ROW) -> Cast:
    return Cast(Read("ids", (subscript,), INT32), INT64)


def spec(*arrays: Array, value: Read | None = None, scalars: tuple[Scalar, ...] = ()) -> Spec:
    statements = () if value is None else (Statement("y", (ROW,), (Index("i", const(10)),), value),)
    params = (Param("N", 4), Param("D", None))
    return Spec("k", "", "sm_90", params, scalars, arrays, statements)


PARAMS = {"N": 4, "D": 9}


def gathering(subscript, boundary: Boundary | None = None) -> Spec:
    return spec(
        array("ids", 10, dtype=INT32),
        array("table", 100),
        array("y", 10, role="output"),
        value=Read("table", (subscript,), FLOAT32, boundary),
    )


@pytest.mark.parametrize(
    ("subscript", "expected"),
    [
        (ids(), (0, 99)),
        (Op("add", (ids(), const(3)), INT64), (0, 96)),
        (Op("sub", (ids(), const(3)), INT64), (3, 102)),
        (Op("add", (ids(), ROW), INT64), (0, 90)),
        (Op("mul", (ids(), const(2)), INT64), (0, 49)),
        (Op("add", (Op("mul", (ids(), ParamValue("N")), INT64), ROW), INT64), (0, 22)),
        (Op("floordiv", (ids(), const(4)), INT64), (0, 399)),
        (Op("add", (ids(), ids(const(0))), INT64), (0, 49)),
    ],
)
def test_a_gather_s_subscripts_stay_inside_what_they_index(subscript, expected: tuple[int, int]) -> None:
    assert drawn_ranges(gathering(subscript), PARAMS) == {"ids": expected}


def test_a_boundary_is_put_to_use_on_both_sides() -> None:
    assert drawn_ranges(gathering(ids(), Boundary("zero")), PARAMS) == {"ids": (-1, 100)}


def test_two_uses_leave_the_range_that_fits_both() -> None:
    small = Read("small", (ids(),), FLOAT32)
    value = Op("add", (Read("table", (ids(),), FLOAT32), small), FLOAT32)
    both = spec(array("ids", 10, dtype=INT32), array("table", 100), array("small", 7), value=value)
    assert drawn_ranges(both, PARAMS) == {"ids": (0, 6)}


def test_drawn_subscripts_reach_both_ends_and_no_further() -> None:
    wide = spec(array("ids", 5000, dtype=INT32), array("table", 100), value=Read("table", (ids(),), FLOAT32))
    drawn = draw(wide, PARAMS, seed=0).arrays["ids"]
    assert (drawn.min(), drawn.max()) == (0, 99)


@pytest.mark.parametrize("name", DTYPES)
def test_every_type_is_drawn_in_its_own_numpy_type_and_range(name: str) -> None:
    dtype = DTYPES[name]
    drawn = draw(spec(array("A", 40, 50, dtype=dtype)), PARAMS, seed=1).arrays["A"]
    assert drawn.shape == (40, 50)
    assert drawn.dtype == numpy_dtype(dtype)
    values = drawn.astype(np.float64)
    low, high = (-1, 1) if dtype.is_float else (0, 1) if dtype is BOOL else (-100, 200)
    assert low <= values.min() < values.max() <= high


@pytest.mark.parametrize("name", DTYPES)
def test_an_exact_draw_holds_small_integers(name: str) -> None:
    drawn = draw(spec(array("A", 40, 50, dtype=DTYPES[name])), PARAMS, seed=1, exact_up_to=3).arrays["A"]
    values = drawn.astype(np.float64)
    assert set(np.unique(values)) <= set(range(-3, 4))
    assert len(np.unique(values)) >= 2


def test_the_seed_and_the_name_alone_decide_an_array() -> None:
    of_two = draw(spec(array("A", 8), array("B", 8)), PARAMS, seed=5).arrays
    of_one = draw(spec(array("B", 8)), PARAMS, seed=5).arrays
    assert np.array_equal(of_two["B"], of_one["B"])
    assert not np.array_equal(of_two["A"], of_two["B"])
    assert not np.array_equal(draw(spec(array("B", 8)), PARAMS, seed=6).arrays["B"], of_two["B"])


def test_outputs_get_no_input_and_scalars_without_a_value_get_a_number() -> None:
    scalars = (Scalar("eps", FLOAT32), Scalar("known", FLOAT32, 2.0), Scalar("n", INT32))
    drawn = draw(spec(array("y", 4, role="output"), array("z", 4, role="inout"), scalars=scalars), PARAMS, seed=0)
    assert list(drawn.arrays) == ["z"]
    assert list(drawn.scalars) == ["eps", "n"]
    assert np.float32(drawn.scalars["eps"]) == drawn.scalars["eps"]


def test_params_come_from_the_spec_or_the_call() -> None:
    assert known_params(spec(), {"D": 9}) == {"N": 4, "D": 9}
    with pytest.raises(KeyError, match="D"):
        known_params(spec(), {})
