"""A call's arguments against the manifest: every way to be wrong has its own message, with names and numbers."""

import re
from dataclasses import replace

import numpy as np
import pytest

from cugen.abi.errors import RunError
from cugen.abi.manifest import LaunchEntry, Manifest, ParamArgument, ScalarArgument, Texture, Workspace
from cugen.runtime.call.arguments import check_call, workspace_bytes
from cugen.runtime.call.views import CPU


class OnGpu:
    def __init__(self, shape, *, address=1 << 20, typestr="<f4", strides=None, readonly=False) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "data": (address, readonly),
            "strides": strides,
            "version": 3,
        }


@pytest.fixture
def manifest(argument) -> Manifest:
    """C = A · s for M rows of 4, where M is dynamic, a multiple of 2."""
    return Manifest(
        kernel="scale",
        version="1",
        spec_file="scale.yaml",
        spec_hash="",
        target="sm_90",
        params={"N": 4},
        arguments=(
            argument(("M", 4), (4, 1), name="A", elements="M * 4", alignment=16),
            argument(("M", 4), (8, 1), name="C", role="output", elements="M * 8", alignment=4),
            ScalarArgument("s", "float32"),
            ParamArgument("M", "int32", 2, 100, 2),
        ),
        workspace=(Workspace("w", "float64", "M * 3"),),
        uploads=(),
        launches=(LaunchEntry("scale", ("M", 1, 1), (4, 1, 1), 0, 0, ("A", "C", "s", "M"), "C = A * s"),),
        require=("M * N < 100",),
    )


def arguments(**changes) -> dict:
    good = {"A": OnGpu((6, 4)), "C": OnGpu((6, 4), address=1 << 21, strides=(32, 4)), "s": 2.0}
    return {name: value for name, value in (good | changes).items() if value is not None}


def refused(code: str, *words: str):
    return pytest.raises(RunError, match="(?s)" + re.escape(f"error[{code}]") + ".*" + ".*".join(map(re.escape, words)))


def test_a_right_call_passes_and_a_param_comes_from_the_shapes(manifest) -> None:
    call = check_call(manifest, arguments(), device=0)
    assert call.params == {"N": 4, "M": 6}
    assert call.scalars == {"s": 2.0}
    assert call.arrays["C"].address == 1 << 21
    assert workspace_bytes(manifest, call.params) == {"w": 6 * 3 * 8}


def test_a_param_may_be_given_too(manifest) -> None:
    assert check_call(manifest, arguments(M=6), device=0).params["M"] == 6


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"a": 1}, "CG5004", ["`a` is no argument of scale", "did you mean `A`?"]),
        ({"A": None}, "CG5005", ["scale needs the array `A` (float32)"]),
        ({"s": None}, "CG5005", ["scale needs the number `s`"]),
        ({"A": [1]}, "CG5008", ["`A` is a list"]),
        ({"A": np.zeros((6, 4), np.float32)}, "CG5008", ["`A`", "host memory", "GPU 0"]),
        ({"A": OnGpu((6, 4), typestr="<f8")}, "CG5003", ["`A` holds float64", "float32"]),
        ({"A": OnGpu((6, 5))}, "CG5002", ["`A` has shape [6, 5]", "[M, 4] = [6, 4]"]),
        ({"A": OnGpu((24,))}, "CG5002", ["`A` has shape [24]", "[M, 4]"]),
        ({"A": OnGpu((8, 4))}, "CG5009", ["`M` is 8 in dimension 0 of `A` and 6 in dimension 0 of `C`"]),
        ({"M": 8}, "CG5009", ["`M` is 8 in the call and 6 in dimension 0 of `A`"]),
        ({"A": OnGpu((6, 4), strides=(4, 24))}, "CG5006", ["`A` has strides of [4, 24] bytes", "[16, 4]"]),
        ({"C": OnGpu((6, 4), address=1 << 21)}, "CG5006", ["`C`", "[16, 4]", "[32, 4]"]),
        ({"A": OnGpu((6, 4), address=(1 << 20) + 4)}, "CG5007", ["`A` is at address 0x100004", "16-byte alignment"]),
        ({"C": OnGpu((6, 4), address=1 << 21, strides=(32, 4), readonly=True)}, "CG5008", ["`C`", "read-only"]),
        ({"C": OnGpu((6, 4), address=(1 << 20) + 64, strides=(32, 4))}, "CG5014", ["`A` and `C` overlap"]),
        ({"s": "two"}, "CG5003", ["`s` is 'two'", "float32"]),
    ],
)
def test_what_is_wrong_is_named_with_both_sides(manifest, changes, code, words) -> None:
    with refused(code, *words):
        check_call(manifest, arguments(**changes), device=0)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (1, ["`M` is 1", "2 .. 100"]),
        (102, ["`M` is 102", "2 .. 100"]),
        (7, ["`M` is 7", "multiples of 2"]),
        (26, ["`M * N < 100` doesn't hold for M = 26, N = 4"]),
    ],
)
def test_a_dynamic_param_keeps_to_what_the_kernel_was_made_for(manifest, rows, words) -> None:
    given = arguments(A=OnGpu((rows, 4)), C=OnGpu((rows, 4), address=1 << 21, strides=(32, 4)))
    with refused("CG5009", *words):
        check_call(manifest, given, device=0)


def test_a_param_that_no_shape_tells_must_be_given(manifest, argument) -> None:
    bare = replace(manifest, arguments=(ParamArgument("M", "int32", 0, 100, 1),), require=())
    with refused("CG5005", "needs the param `M`"):
        check_call(bare, {}, device=0)


def test_strides_of_dimensions_with_one_element_do_not_matter(manifest) -> None:
    single_row = replace(manifest.arguments[0], shape=(1, 4), strides=(4, 1), elements=4)
    only = replace(manifest, arguments=(single_row,), require=(), workspace=())
    assert check_call(only, {"A": OnGpu((1, 4), strides=(999, 4))}, device=0).params == {"N": 4}


def test_views_with_negative_strides_are_refused(manifest) -> None:
    with refused("CG5006", "`A`", "[-16, 4]"):
        check_call(manifest, arguments(A=OnGpu((6, 4), strides=(-16, 4))), device=0)


def test_an_input_may_be_given_twice(manifest, argument) -> None:
    two = replace(manifest, arguments=(argument((4,), name="A"), argument((4,), name="B")), require=(), workspace=())
    same = OnGpu((4,))
    assert len(check_call(two, {"A": same, "B": same}, device=0).arrays) == 2


@pytest.mark.parametrize(
    ("dtype", "value", "words"),
    [
        ("int8", 200, "which int8 can't represent"),
        ("int32", 1.5, "int32"),
        ("uint8", -1, "which uint8 can't represent"),
    ],
)
def test_a_number_that_its_type_cannot_hold_is_refused(manifest, dtype, value, words) -> None:
    only = replace(manifest, arguments=(ScalarArgument("s", dtype),), require=(), workspace=())
    with refused("CG5003", "`s`", words):
        check_call(only, {"s": value}, device=0)


def test_a_kernel_on_the_cpu_takes_numpy_arrays_only(manifest) -> None:
    relaxed = replace(manifest, arguments=(replace(manifest.arguments[0], alignment=4), *manifest.arguments[1:]))
    pitched = np.zeros((6, 8), np.float32)[:, :4]
    given = {"A": np.zeros((6, 4), np.float32), "C": pitched, "s": 1.0}
    assert check_call(relaxed, given, device=CPU).params["M"] == 6
    with refused("CG5008", "`A` is in GPU memory", "NumPy"):
        check_call(relaxed, given | {"A": OnGpu((6, 4))}, device=CPU)


def test_textures_are_aligned_on_a_gpu_alone(manifest) -> None:
    a, *others = manifest.arguments
    textures = replace(manifest, arguments=(replace(a, alignment=512), *others), textures=(Texture("A"),))
    with refused("CG5007", "`A`", "512-byte alignment"):
        check_call(textures, arguments(A=OnGpu((6, 4), address=(1 << 20) + 256)), device=0)
    memory = np.zeros(1024, np.float32)
    start = -memory.ctypes.data // 4 % 128 + 1
    given = {"A": memory[start : start + 24].reshape(6, 4), "C": np.zeros((6, 8), np.float32)[:, :4], "s": 1.0}
    assert check_call(textures, given, device=CPU).params["M"] == 6
