"""The C++ launcher for spans: what it accepts, and that it refuses a call in the words in which Python does."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from cugen.abi.errors import RunError
from cugen.kernel import Kernel, generate
from cugen.runtime.call.arguments import check_call
from cugen.spec.load import load_text
from cugen.spec.types import DTYPES
from cugen.toolchain import host, locations, process

# Params deduced from extents, by several, and by none; requirements that need floor division; a pitch, a column-major
# array, one without dimensions; a scalar, and one in constant memory.
SPEC = """
cugen: 1
kernel: full
params: {M: {range: [4, 100000], multiple_of: 4}, N: dynamic, K: 8, S: {range: [0, 7]}}
require: ["(M - N) % 3 == 0", "K > 3", "M - N < 60 and S * K < 50"]
scalars: {s: {dtype: float16, memory: constant}, v: {dtype: int32}}
arrays:
  A: {shape: [M, N], dtype: float32, pitch: 128}
  W: {shape: [K], dtype: float32, memory: constant}
  F: {shape: [N, M], dtype: float32, layout: column}
  status: {shape: [M + 4, K], dtype: bfloat16}
  total: {shape: [], dtype: float32}
compute: |
  status[i, k] = W[k] * s + v + S
  total = sum(A[i, j] * F[j, i], i, j)
"""
FIXED = """
cugen: 1
kernel: fixed
params: {N: 1000}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = 2 * x[i]
"""
BASE = 1 << 32


@dataclass(frozen=True)
class Given:
    """An array of a call: where it is, its extents, its strides in elements (None: row-major)."""

    address: int
    extents: tuple[int, ...]
    strides: tuple[int, ...] | None = None

    def cpp(self, element: str) -> str:
        extents = "".join(f", {n}" for n in self.extents)
        span = f"cugen::Span<{element}, {len(self.extents)}>(reinterpret_cast<{element}*>({self.address}ULL){extents})"
        return span if self.strides is None else f"{span}.with_strides({', '.join(map(str, self.strides))})"

    def view(self, dtype: str) -> OnGpu:
        size = DTYPES[dtype].bytes
        strides = None if self.strides is None else tuple(size * stride for stride in self.strides)
        return OnGpu(self.extents, self.address, {4: "<f4", 2: "|V2"}[size], strides)


class OnGpu:
    def __init__(self, shape, address, typestr, strides) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "data": (address, False),
            "strides": strides,
            "version": 3,
        }


def full(m: int = 12, n: int = 9, **changes: Given | int) -> dict[str, Given | int]:
    good: dict[str, Given | int] = {
        "A": Given(BASE, (m, n), (128 * ((n + 127) // 128), 1)),
        "W": Given(2 * BASE, (8,)),
        "F": Given(3 * BASE, (n, m), (1, n)),
        "status": Given(4 * BASE, (m + 4, 8)),
        "total": Given(5 * BASE, ()),
        "S": 2,
    }
    return good | changes


CALLS = {
    "two values of a param": full(F=Given(3 * BASE, (9, 16))),
    "two values of the second": full(F=Given(3 * BASE, (6, 12))),
    "a param below its range": full(m=0),
    "a param above its range": full(m=100004, n=99998),
    "no multiple": full(m=13, n=10),
    "a param that no extent gives": full(S=8),
    "a requirement with a negative remainder": full(m=12, n=13),
    "a requirement of two parts": full(m=72, n=9),
    "its second part": full(S=7),
    "a shape that follows from a param": full(status=Given(4 * BASE, (15, 8))),
    "a shape that is fixed": full(W=Given(2 * BASE, (9,))),
    "strides of a pitch": full(A=Given(BASE, (12, 9))),
    "strides of columns": full(F=Given(3 * BASE, (9, 12))),
    "nothing": full(A=Given(0, (12, 9), (128, 1))),
    "no address without dimensions": full(total=Given(0, ())),
    "an address between elements": full(A=Given(BASE + 2, (12, 9), (128, 1))),
    "an input that is also written": full(status=Given(BASE + 64, (16, 8))),
    "two results at one address": full(total=Given(4 * BASE + 128, ())),
    "adjacent": full(total=Given(4 * BASE + 16 * 8 * 2, ())),
    "right": full(),
    "empty": full(m=12, n=0, A=Given(0, (12, 0)), F=Given(3 * BASE, (0, 12))),
    "inputs at one address": full(W=Given(BASE, (8,))),
}
FIXED_CALLS = {
    "a shape": {"x": Given(BASE, (999,)), "y": Given(2 * BASE, (1000,))},
    "an address": {"x": Given(BASE, (1000,)), "y": Given(2 * BASE + 8, (1000,))},
    "one after another": {"x": Given(BASE, (1000,)), "y": Given(BASE + 4000, (1000,))},
    "one into another": {"x": Given(BASE, (1000,)), "y": Given(BASE + 3984, (1000,))},
}

MAIN = """
#include <cstdio>
#include "full.h"
#include "fixed.h"
#include "full.h"

const char* cudaGetErrorString(cudaError_t status) { return status == cudaErrorNotReady ? "not yet" : "other"; }
extern "C" size_t full_workspace_bytes(int, int, int) { return 0; }
extern "C" cudaError_t full_launch(const float* A, const float* W, const float* F, __nv_bfloat16* status_, float* total,
    __half, int v, int M, int N, int S, WORKSPACE cudaStream_t stream)
{
    const bool same = W && F && status_ && total && (A || N == 0) && v == 3;
    std::printf(same ? "launched %d %d %d" : "other arguments", M, N, S);
    return stream == nullptr ? cudaSuccess : cudaErrorNotReady;
}
extern "C" cudaError_t fixed_launch(const float*, float*, cudaStream_t)
{
    std::printf("launched");
    return cudaSuccess;
}

template <typename Error>
static void print(const Error& error)
{
    std::printf("|%d|%s|%s\\n", error.status, error.code.c_str(), error.message.c_str());
}

int main()
{
    const __half s{};
CALLS
    return 0;
}
"""


@pytest.fixture(scope="module")
def kernels() -> dict[str, Kernel]:
    return {spec.kernel: generate(spec, analysis=False) for text in (SPEC, FIXED) for spec in load_text(text)}


@pytest.fixture(scope="module")
def answers(kernels: dict[str, Kernel]) -> dict[str, str]:
    """What the launchers say of each call, from one program."""
    workspace = ["nullptr"] if kernels["full"].plan.workspace else []
    lines = []
    for call in CALLS.values():
        spans = [
            given.cpp({"status": "__nv_bfloat16", "total": "float"}.get(name, "const float"))
            for name, given in call.items()
            if isinstance(given, Given)
        ]
        lines.append(f"print(full_launch({', '.join([*spans, 's', '3', str(call['S']), *workspace, 'nullptr'])}));")
    for call in FIXED_CALLS.values():
        lines.append(f"print(fixed_launch({call['x'].cpp('const float')}, {call['y'].cpp('float')}, nullptr));")
    text = MAIN.replace("CALLS", "\n".join(f"    {line}" for line in lines))
    text = text.replace("WORKSPACE", "void*," if workspace else "")
    headers = {name: text for kernel in kernels.values() for name, text in kernel.headers.items()}
    sources = headers | {"main.cpp": text}
    flags = ("-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror", "-O0")
    systems = [f"-isystem{folder}" for folder in locations.include_folders()]
    built = host.build(sources, "main.cpp", (*flags, *systems))
    finished = process.run([str(built.path)], "main.cpp")
    assert finished.status == 0
    return dict(zip((*CALLS, *(f"fixed: {name}" for name in FIXED_CALLS)), finished.output.splitlines(), strict=True))


def said_by_python(kernel: Kernel, call: dict[str, Given | int]) -> str:
    dtypes = {argument.name: argument.dtype for argument in kernel.manifest.arguments}
    given = {name: g.view(dtypes[name]) if isinstance(g, Given) else g for name, g in call.items()}
    try:
        check_call(kernel.manifest, given | {name: 1 for name in ("s", "v") if name in dtypes}, device=0)
    except RunError as error:
        return f"|1|{error.code}|{error.message}"
    return ""


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_refused_in_pythons_words(kernels, answers, name) -> None:
    said = said_by_python(kernels["full"], CALLS[name])
    launched, _, refused = answers[name].partition("|")
    assert (launched[:8], f"|{refused}") == (("", said) if said else ("launched", "|0||"))


@pytest.mark.parametrize("name", FIXED_CALLS)
def test_fixed_sizes_too(kernels, answers, name) -> None:
    said = said_by_python(kernels["fixed"], FIXED_CALLS[name])
    assert answers[f"fixed: {name}"] == (said or "launched|0||")


def test_the_calls_are_refused_for_all_reasons_there_are(answers) -> None:
    from cugen.abi import codes

    met = {answer.split("|")[2] for answer in answers.values()}
    reasons = {codes.WRONG_SHAPE, codes.WRONG_STRIDES, codes.MISALIGNED, codes.PARAM_REFUSED, codes.OVERLAP}
    assert met == {"", codes.WRONG_DEVICE, *reasons}


def test_extents_tell_the_params(answers) -> None:
    assert answers["right"] == "launched 12 9 2|0||"


def test_what_python_says_of_a_null_pointer(kernels) -> None:
    assert said_by_python(kernels["full"], CALLS["nothing"]) == "|1|CG5008|`A` is a null pointer"
