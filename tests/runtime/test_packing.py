"""Kernel arguments are packed as the compiled code reads them."""

import pytest

from cugen.abi.manifest import ArrayArgument, Manifest
from cugen.kernel import generate
from cugen.runtime.packing import pack_number, parameter_buffer
from cugen.spec.load import load_text
from cugen.spec.types import DTYPES
from cugen.toolchain.binary.elf import Parameter, parameters
from cugen.toolchain.cuda import compile_cubin

PRODUCT = """\
cugen: 1
kernel: product
target: sm_90a
params: {M: dynamic, N: 512, K: 512}
scalars: {a: {dtype: float16}}
arrays:
  A: {shape: [M, K], dtype: bfloat16}
  B: {shape: [K, N], dtype: bfloat16}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = a * sum(A[m, k] * B[k, n], k)
"""
POINTER = 8


def size_of(name: str, manifest: Manifest) -> int:
    argument = next((a for a in manifest.arguments if a.name == name), None)
    return POINTER if argument is None or isinstance(argument, ArrayArgument) else DTYPES[argument.dtype].bytes


def test_a_buffer_has_gaps_where_the_compiler_leaves_them() -> None:
    layout = parameter_buffer([Parameter(48, 128), Parameter(176, 8), Parameter(184, 1), Parameter(188, 4)])
    packed = layout.pack(b"m" * 128, b"p" * 8, b"b", b"int4")
    assert packed == bytes(48) + b"m" * 128 + b"p" * 8 + b"b" + bytes(3) + b"int4"
    assert parameter_buffer([]).pack() == b""


def test_the_arguments_of_a_wgmma_kernel_lie_where_its_code_reads_them() -> None:
    kernel = generate(load_text(PRODUCT)[0])
    image = compile_cubin(kernel.source, kernel.name, "sm_90a").image
    assert kernel.manifest.tensor_maps
    for launch in kernel.manifest.launches:
        sizes = [*(128 for _ in launch.tensor_maps), *(size_of(name, kernel.manifest) for name in launch.arguments)]
        locations = parameters(image, launch.kernel)
        assert [location.size for location in locations] == sizes
        arguments = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
        packed = parameter_buffer(locations).pack(*arguments)
        for location, argument in zip(locations, arguments, strict=True):
            assert packed[location.offset : location.offset + location.size] == argument


@pytest.mark.parametrize(
    ("name", "value", "raw"),
    [
        ("float16", 1.5, "003e"),
        ("bfloat16", 1.5, "c03f"),
        ("float8_e4m3", 1.5, "3c"),
        ("float32", 1.5, "0000c03f"),
        ("float64", 1.5, "000000000000f83f"),
        ("bool", True, "01"),
        ("int8", -1, "ff"),
        ("uint16", 65535, "ffff"),
        ("int32", -2, "feffffff"),
        ("uint64", 2**64 - 1, "ff" * 8),
        ("int64", -1, "ff" * 8),
    ],
)
def test_numbers_are_packed_in_their_own_bytes(name: str, value: float, raw: str) -> None:
    assert pack_number(value, DTYPES[name]).hex() == raw
