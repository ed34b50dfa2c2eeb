"""A kernel as an operator: what it takes, what it returns, and the sizes that follow from the call."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cugen.abi.errors import RunError
from cugen.abi.manifest import Manifest, ParamArgument, ScalarArgument
from cugen.runtime.call.signature import Signature, extents, signature_of

Make = Callable[..., Signature]


@pytest.fixture
def made() -> Make:
    def make(*arguments: object, **params: int) -> Signature:
        return signature_of(Manifest("k", "1", "", "", "sm_90", params, arguments, (), (), ()))

    return make


def test_inputs_scalars_and_params_without_an_extent_are_taken_and_outputs_returned(argument, made: Make) -> None:
    signature = made(
        argument(("M", 3), (3, 1), name="x", elements="M * 3"),
        argument(("N",), (1,), name="y", role="output", elements="N"),
        argument(("M",), (1,), name="z", role="output", elements="M"),
        ScalarArgument("c", "float16"),
        ScalarArgument("k", "uint8"),
        ScalarArgument("flag", "bool"),
        ParamArgument("M", "int32", 0, 100, 1),
        ParamArgument("N", "int64", 0, 100, 1),
    )
    assert signature.names == ("x", "c", "k", "flag", "N")
    assert signature.schema == "(Tensor x, float c, int k, bool flag, SymInt N) -> (Tensor, Tensor)"


def test_what_is_updated_in_place_is_marked_and_not_returned(argument, made: Make) -> None:
    signature = made(
        argument((4,), name="x"), argument((4,), name="a", role="inout"), argument((4,), name="b", role="inout")
    )
    assert signature.schema == "(Tensor x, Tensor(a!) a, Tensor(b!) b) -> ()"
    assert signature.updated == ("a", "b")


def test_a_word_of_python_is_no_parameter(argument, made: Make) -> None:
    signature = made(
        argument((4,), name="lambda", role="inout"),
        argument((4,), name="y", role="output"),
        ScalarArgument("from", "float32"),
    )
    assert signature.schema == "(Tensor(a!) lambda_, float from_) -> Tensor"
    assert signature.updated == ("lambda_",)
    assert signature.names == ("lambda", "from")


def test_sizes_come_from_shapes_and_from_what_is_given(argument, made: Make) -> None:
    signature = made(
        argument(("M", "M + N"), ("M + N", 1), name="x", elements="M * (M + N)"),
        argument(("K",), (1,), name="y", elements="K"),
        argument(("M // 2", "P"), ("P", 1), name="z", role="output", elements="P * (M // 2)"),
        ParamArgument("N", "int32", 0, 100, 1),
        P=7,
    )
    sizes = signature.sizes({"x": (6, 9), "y": (5,)}, {"N": 3})
    assert sizes == {"P": 7, "N": 3, "M": 6, "K": 5}
    assert extents(signature.outputs[0].shape, sizes) == (3, 7)


def test_a_symbol_stays_one(argument, made: Make) -> None:
    """Tracers pass sizes of their own kind; an integer made of one would tie the trace to this very size."""

    class Symbol(int):
        pass

    signature = made(
        argument(("M",), (1,), name="x", elements="M"),
        argument(("M",), (1,), name="y", role="output", elements="M"),
    )
    extent = Symbol(6)
    assert extents(signature.outputs[0].shape, signature.sizes({"x": (extent,)}, {}))[0] is extent


def test_another_number_of_dimensions_and_another_type_are_named(argument, made: Make) -> None:
    signature = made(argument((4, 2), name="x"))
    with pytest.raises(RunError, match=r"CG5002.*`x` has 1 dimensions; k was made for 2"):
        signature.sizes({"x": (4,)}, {})
    with pytest.raises(RunError, match=r"CG5003.*`x` holds bfloat16; k was made for float32"):
        signature.check_dtype(signature.inputs[0], "bfloat16")
