"""Helper functions, each in every type that a kernel can ask for: compiled for GPUs without a warning, and run."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cugen.emit.environment import environment, template_folder
from cugen.emit.printer.ctypes import c_name
from cugen.emit.printer.functions import function_text
from cugen.emit.printer.tensor_copies import tensor_copy_of
from cugen.kernel import generate
from cugen.machine.wgmma import INSTRUCTIONS, TF32, instruction_of_name
from cugen.spec.load import load_text
from cugen.spec.types import DTYPES, FLOAT32, FLOAT64, INT32, INT64
from cugen.toolchain import nvrtc
from cugen.toolchain.cuda import compile_cubin

INTEGERS = tuple(t for t in DTYPES.values() if t.is_integer)
SIGNED = tuple(t for t in INTEGERS if t.name.startswith("int"))
FLOATS = (FLOAT32, FLOAT64)
# Name -> number of operands and the types in which it exists.
FUNCTIONS = {
    "absolute": (1, SIGNED),
    "ceil_div": (2, (INT32,)),
    "divided_by": (2, (FLOAT32,)),
    "floor_div": (2, (INT32, INT64)),
    "floor_divide": (2, (*INTEGERS, *FLOATS)),
    "floor_mod": (2, (INT32, INT64)),
    "floor_modulo": (2, (*INTEGERS, *FLOATS)),
    "integer_power": (2, INTEGERS),
    "maximum": (2, FLOATS),
    "minimum": (2, FLOATS),
    "shift_left": (2, INTEGERS),
    "shift_right": (2, INTEGERS),
    "sign_of": (1, (*INTEGERS, *FLOATS)),
    "to_int32": (1, FLOATS),
    "to_int64": (1, FLOATS),
    "to_uint32": (1, FLOATS),
    "to_uint64": (1, FLOATS),
    "wrapping_add": (2, (INT32, INT64)),
    "wrapping_multiply": (2, (INT32, INT64)),
    "wrapping_negate": (1, (INT32, INT64)),
    "wrapping_subtract": (2, (INT32, INT64)),
}
GENERIC = {  # for all types at once
    "vector": "Vector<float, 4> x; x.data[3] = 1.0f; sink = x.data[threadIdx.x] + sizeof(Vector<char, 16>);",
    "load": "alignas(16) const float x[4] = {}; sink = load<4>(x).data[threadIdx.x];",
    "load_readonly": "alignas(16) const float x[4] = {}; sink = load_readonly<4>(x).data[threadIdx.x];",
    "load_streaming": "alignas(16) const float x[4] = {}; sink = load_streaming<4>(x).data[threadIdx.x];",
    "store": "alignas(16) float x[4]; store<4>(x, Vector<float, 4>{}); sink = x[threadIdx.x];",
    "funnel_shift": "const Vector<float, 4> x[2] = {}; sink = funnel_shift(x[0], x[1], threadIdx.x % 4).data[0];",
    "bfloat16_parts": "const float x[2] = {1.5f}; unsigned parts[3][1]; bfloat16_parts(x, parts); sink = parts[2][0];",
    "finite_bfloat16": "const unsigned x[1] = {threadIdx.x}; unsigned y[1]; finite_bfloat16(x, y); sink = y[0];",
    "float16_parts": "const unsigned x[1] = {threadIdx.x}; unsigned y[2][1]; float16_parts(x, y); sink = y[1][0];",
    "tf32_parts": "const float x[1] = {1.5f}; unsigned parts[2][1]; tf32_parts(x, parts); sink = parts[1][0];",
    "float16_as_float32": "const unsigned x[1] = {7}; unsigned y[1][2]; float16_as_float32(x, y); sink = y[0][1];",
    "bfloat16_as_float32": "const unsigned x[1] = {7}; unsigned y[1][2]; bfloat16_as_float32(x, y); sink = y[0][1];",
    "load_byte": "const bool yes = true; sink = load_byte(&yes);",
}
ON_TENSOR_CORES = tuple(f"mma_m16n8k{depth}" for depth in (4, 8, 16))  # of sm_80 and newer
# Of fragments of four and two registers, by the first target that has them.
OF_WORDS = {
    "mma_m16n8k16_f16": 75,
    "mma_m16n8k16_bf16": 80,
    "mma_m16n8k8_tf32": 80,
    **dict.fromkeys((f"mma_m16n8k32_{kinds}" for kinds in ("s8", "u8", "s8_u8", "u8_s8")), 80),
    **dict.fromkeys((f"mma_m16n8k32_{kinds}" for kinds in ("e4m3", "e5m2", "e4m3_e5m2", "e5m2_e4m3")), 89),
    **dict.fromkeys((f"mma_m16n8k32_{kinds}_as_f16" for kinds in ("e4m3", "e5m2", "e4m3_e5m2", "e5m2_e4m3")), 89),
}
ROUNDING = ("to_tf32",)  # of sm_80 and newer
LOADS_OF_MATRICES = ("ldmatrix_x4", "ldmatrix_x4_trans")
# Of asynchronous pipelines, by their uses; for sm_90a.
OF_PIPELINES = {
    "prefetch_tensor_map": "prefetch_tensor_map(&map)",
    "elect_one": "if (elect_one()) prefetch_tensor_map(&map)",
    "mbarrier_init": "mbarrier_init(&full, 1)",
    "mbarrier_init_fence": "mbarrier_init_fence()",
    "mbarrier_arrive": "mbarrier_arrive(&full)",
    "mbarrier_arrive_cluster": "mbarrier_arrive_cluster(&full, 1)",
    "mbarrier_arrive_expect_tx": "mbarrier_arrive_expect_tx(&full, 1024)",
    "mbarrier_wait": "mbarrier_wait(&full, 0)",
    "tma_load_2d": "tma_load_2d(tile, &map, &full, 1, 2)",
    "tma_load_3d": "tma_load_3d(tile, &map, &full, 1, 2, 3)",
    "tma_load_4d": "tma_load_4d(tile, &map, &full, 1, 2, 3, 4)",
    "tma_load_5d": "tma_load_5d(tile, &map, &full, 1, 2, 3, 4, 5)",
    "tma_load_im2col_3d": "tma_load_im2col_3d(tile, &map, &full, 1, 2, 3, 4)",
    "tma_load_im2col_4d": "tma_load_im2col_4d(tile, &map, &full, 1, 2, 3, 4, 5, 6)",
    "tma_load_im2col_5d": "tma_load_im2col_5d(tile, &map, &full, 1, 2, 3, 4, 5, 6, 7, 8)",
    "tma_load_2d_multicast": "tma_load_2d_multicast(tile, &map, &full, 3, 1, 2)",
    "tma_load_3d_multicast": "tma_load_3d_multicast(tile, &map, &full, 3, 1, 2, 3)",
    "tma_load_4d_multicast": "tma_load_4d_multicast(tile, &map, &full, 3, 1, 2, 3, 4)",
    "tma_load_5d_multicast": "tma_load_5d_multicast(tile, &map, &full, 3, 1, 2, 3, 4, 5)",
    "tma_store_2d": "tma_store_2d(&map, tile, 1, 2)",
    "tma_store_3d": "tma_store_3d(&map, tile, 1, 2, 3)",
    "tma_store_4d": "tma_store_4d(&map, tile, 1, 2, 3, 4)",
    "tma_store_5d": "tma_store_5d(&map, tile, 1, 2, 3, 4, 5)",
    "tma_store_commit": "tma_store_commit()",
    "tma_store_wait_read": "tma_store_wait_read<1>()",
    "fence_proxy_async": "fence_proxy_async()",
    "stmatrix_x4": "stmatrix_x4(tile, {1U, 2U, 3U, 4U})",
    "stmatrix_x4_trans": "stmatrix_x4_trans(tile, {1U, 2U, 3U, 4U})",
    "stmatrix_x2_trans": "stmatrix_x2_trans(tile, {1U, 2U})",
    "setmaxnreg_dec": "setmaxnreg_dec<40>()",
    "setmaxnreg_inc": "setmaxnreg_inc<232>()",
    "wgmma_fence": "wgmma_fence()",
    "wgmma_commit": "wgmma_commit()",
    "wgmma_wait": "wgmma_wait<0>()",
}
MATRICES = ("k_major_matrix", "mn_major_matrix")
WGMMAS = tuple(instruction.name(n) for instruction in (*INSTRUCTIONS.values(), TF32) for n in (32, 256))
CASES = [(name, dtype) for name, (_, types) in FUNCTIONS.items() for dtype in types]


def wrap(value, dtype):
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if value > dtype.highest else value


def saturated(value, low, high):
    return 0 if math.isnan(value) else low if value <= low else high if value >= high else int(value)


def power(a, b, dtype):
    if b < 0:
        return {1: 1, -1: 1 if b % 2 == 0 else -1}.get(a, 0)
    return wrap(pow(a, b, 1 << dtype.bits), dtype)


def wanted(name, dtype, a, b):
    """What Python makes of it."""
    match name:
        case "absolute":
            return wrap(abs(a), dtype)
        case "ceil_div":
            return -(-a // b)
        case "floor_div":
            return a // b
        case "floor_mod":
            return a % b
        case "floor_divide" if dtype.is_float:
            return np.floor(np.divide(a, b))
        case "floor_divide":
            return wrap(a // b, dtype) if b else 0
        case "floor_modulo" if dtype.is_float:
            return np.mod(a, b)
        case "floor_modulo":
            return a % b if b else 0
        case "integer_power":
            return power(a, b, dtype)
        case "maximum":
            return np.maximum(a, b)
        case "minimum":
            return np.minimum(a, b)
        case "divided_by":
            return np.divide(a, b)
        case "shift_left":
            return wrap(a << b, dtype) if 0 <= b < dtype.bits else 0
        case "shift_right":
            return a >> b if 0 <= b < dtype.bits else -1 if a < 0 else 0
        case "sign_of" if dtype.is_float:
            return np.sign(a)
        case "sign_of":
            return (a > 0) - (a < 0)
        case "wrapping_add":
            return wrap(a + b, dtype)
        case "wrapping_subtract":
            return wrap(a - b, dtype)
        case "wrapping_multiply":
            return wrap(a * b, dtype)
        case "wrapping_negate":
            return wrap(-a, dtype)
    to = DTYPES[name.removeprefix("to_")]
    return saturated(float(a), to.lowest, to.highest)


def samples(dtype):
    if dtype.is_float:
        kind = np.dtype(dtype.name).type
        numbers = (
            0.0,
            -0.0,
            0.5,
            1.0,
            -1.0,
            2.5,
            -2.5,
            3.0,
            -7.25,
            1e-30,
            255.9,
            2.0**31,
            -(2.0**31),
            2.0**63,
            2.0**64,
        )
        return [kind(x) for x in (*numbers, -1e30, math.inf, -math.inf, math.nan)]
    near = {0, 1, 2, 3, 7, dtype.bits - 1, dtype.bits, dtype.highest, dtype.highest - 1, dtype.highest // 2}
    return sorted(near | {-n for n in near if dtype.lowest} | {dtype.lowest})


def spelled(value, dtype):
    if not dtype.is_float:
        return "(-9223372036854775807LL - 1)" if value == -(2**63) else f"{value}{'ULL' if value > 2**63 else ''}"
    if np.isnan(value):
        return "NAN"
    return ("-" if value < 0 else "") + "INFINITY" if np.isinf(value) else float(value).hex()


def test_every_template_is_in_this_table():
    files = {path.name.removesuffix(".cu.j2") for path in (template_folder() / "functions").iterdir()}
    on_tensor_cores = {*ON_TENSOR_CORES, *OF_WORDS, *LOADS_OF_MATRICES, *ROUNDING}
    in_gallery = {"wgmma", "load_cached", "store_cached", "load_ptx", "store_ptx"}  # whose machine code tests read
    copies = {name: tensor_copy_of(name) for name in OF_PIPELINES}
    of_pipelines = {name if copy is None else copy[0] for name, copy in copies.items()}
    assert files == set(FUNCTIONS) | set(GENERIC) | on_tensor_cores | of_pipelines | {*MATRICES, *in_gallery}


@pytest.fixture(scope="module")
def texts():
    env = environment()
    return {(name, dtype): function_text(env, name, c_name(dtype)) for name, dtype in CASES}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90"])
def test_every_function_compiles_for_gpus_without_a_warning(texts, target):
    if nvrtc.find() is None:
        pytest.skip("NO NVRTC, HELPER FUNCTIONS ARE COMPILED FOR THE HOST ALONE")
    calls = []
    for name, dtype in CASES:
        operands = ", ".join([f"({c_name(dtype)})n"] * FUNCTIONS[name][0])
        calls.append(f"    sink = {name}({operands});")
    generic = [function_text(environment(), name, "") for name in GENERIC]
    uses = [f"    {{ {use} }}" for use in GENERIC.values()]
    body = "\n".join(['extern "C" __global__ void k(volatile double& sink, long long n) {', *calls, *uses, "}"])
    cubin = compile_cubin("\n".join(["#include <cuda_fp16.h>", *texts.values(), *generic, body]), "k", target)
    assert [str(warning) for warning in cubin.warnings] == []


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
def test_tensor_cores_multiply_without_a_warning(target):
    if nvrtc.find() is None:
        pytest.skip("NO NVRTC, HELPER FUNCTIONS ARE COMPILED FOR THE HOST ALONE")
    functions = [function_text(environment(), name, "") for name in (*ON_TENSOR_CORES, *ROUNDING)]
    calls = [f"    {name}(sums, sums + 2, a{name[9:]}, b{name[9:]});" for name in ON_TENSOR_CORES]
    factors = [f"    const double ak{k}[{k // 2}] = {{x}}, bk{k}[{k // 4}] = {{x}};" for k in (4, 8, 16)]
    head = 'extern "C" __global__ void k(double* out, double x) {\n    double sums[4] = {};'
    rounded = "    out[32] = to_tf32(1.5f) + to_tf32(threadIdx.x);"
    body = [head, *factors, *calls, rounded, "    out[threadIdx.x] = sums[0] + sums[1] + sums[2] + sums[3];", "}"]
    cubin = compile_cubin("\n".join([*functions, *body]), "k", target)
    assert [str(warning) for warning in cubin.warnings] == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", [75, 80, 86, 89, 90, 100, 120])
def test_tensor_cores_load_and_multiply_every_type_without_a_warning(target):
    if nvrtc.find() is None:
        pytest.skip("NO NVRTC, HELPER FUNCTIONS ARE COMPILED FOR THE HOST ALONE")
    names = [name for name, oldest in OF_WORDS.items() if target >= oldest]
    functions = [function_text(environment(), name, "") for name in (*LOADS_OF_MATRICES, *names)]
    body = [
        'extern "C" __global__ void k(float* out, int* counts) {',
        "    __shared__ __align__(16) unsigned tile[128];",
        "    tile[threadIdx.x] = threadIdx.x;",
        "    __syncthreads();",
        "    float sums[4] = {};",
        "    int counters[4] = {};",
        "    unsigned a[4] = {}, b[2] = {};",
        *(
            f"    {name}(a, tile + threadIdx.x % 32 * 4);\n    out[threadIdx.x] = a[0] + b[0];"
            for name in LOADS_OF_MATRICES
        ),
        *(f"    {name}({sums}, {sums} + 2, a, b);" for name in names for sums in [_accumulators(name)]),
        "    out[threadIdx.x] = sums[0] + sums[1] + sums[2] + sums[3];",
        "    counts[threadIdx.x] = counters[0] + counters[1] + counters[2] + counters[3];",
        "}",
    ]
    cubin = compile_cubin("\n".join([*functions, *body]), "k", f"sm_{target}")
    assert [str(warning) for warning in cubin.warnings] == []


def test_pipelines_compile_for_sm_90a_without_a_warning():
    if nvrtc.find() is None:
        pytest.skip("NO NVRTC, HELPER FUNCTIONS ARE COMPILED FOR THE HOST ALONE")
    functions = [function_text(environment(), name, "") for name in (*OF_PIPELINES, *MATRICES)]
    body = [
        "struct alignas(64) CUtensorMap { unsigned long long opaque[16]; };",
        *functions,
        'extern "C" __global__ void k(const __grid_constant__ CUtensorMap map, unsigned long long* out) {',
        "    __shared__ __align__(1024) float tile[256];",
        "    __shared__ unsigned long long full;",
        *(f"    {use};" for use in OF_PIPELINES.values()),
        "    out[threadIdx.x] = k_major_matrix(tile, 16) + mn_major_matrix<8192>(tile, 16);",
        "}",
    ]
    assert [str(warning) for warning in compile_cubin("\n".join(body), "k", "sm_90a").warnings] == []


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if "n32" in n else pytest.mark.slow) for n in WGMMAS])
def test_warpgroups_multiply_every_type_without_a_warning(name):
    if nvrtc.find() is None:
        pytest.skip("NO NVRTC, HELPER FUNCTIONS ARE COMPILED FOR THE HOST ALONE")
    instruction, n = instruction_of_name(name)
    kind = "int" if instruction.is_integer else "float"
    layouts = [f"<{a}, {b}>" for a in ("false", "true") for b in ("false", "true")]
    calls = [
        f"    wgmma_fence(); {name}{layout}(sums[0], sums[1], a, b, true); wgmma_commit(); wgmma_wait<0>();"
        for layout in (layouts if instruction.may_be_mn_major else [""])
    ]
    body = [
        *(function_text(environment(), name, "") for name in ("wgmma_fence", "wgmma_commit", "wgmma_wait", name)),
        f'extern "C" __global__ void k({kind}* out, unsigned long long a, unsigned long long b) {{',
        f"    {kind} sums[2][{n // 4}] = {{}};",
        *calls,
        f"    for (int i = 0; i < {n // 4}; ++i)",
        "        out[i * 128 + threadIdx.x] = sums[0][i] + sums[1][i];",
        "}",
    ]
    assert [str(warning) for warning in compile_cubin("\n".join(body), "k", "sm_90a").warnings] == []


def _accumulators(name):
    return "counters" if name[-2:] in ("s8", "u8") else "sums"


def test_every_function_computes_what_python_does(texts, batch):
    """All pairs of corner values, in one program."""
    functions, runs, expected = [], [], []
    for number, (name, dtype) in enumerate(CASES):
        binary = FUNCTIONS[name][0] == 2
        corners = samples(dtype)
        first = [a for a in corners if a >= 0 or name != "ceil_div"]
        second = [b for b in corners if b > 0 or name not in ("ceil_div", "floor_div", "floor_mod")]
        second = second if binary else corners[:1]
        with np.errstate(all="ignore"):
            expected += [(name, dtype.name, a, b, wanted(name, dtype, a, b)) for a in first for b in second]
        functions.append(f"namespace n{number} {{\n{texts[name, dtype]}}}")
        kind, arguments = c_name(dtype), "a, b" if binary else "a"
        runs.append(
            f"    for ({kind} a : {{{_list(first, dtype)}}})\n        for ({kind} b : {{{_list(second, dtype)}}})\n"
            f"            (void)b, show(n{number}::{name}({arguments}));"
        )
    show = [
        "#include <cstdio>",
        'static void show(double x) { printf("%a\\n", x); }',
        'static void show(float x) { printf("%a\\n", (double)x); }',
    ]
    show += [f'static void show({c_name(t)} x) {{ printf("%lld\\n", (long long)x); }}' for t in SIGNED]
    unsigned = [t for t in INTEGERS if t not in SIGNED]
    show += [f'static void show({c_name(t)} x) {{ printf("%llu\\n", (unsigned long long)x); }}' for t in unsigned]
    output = batch("\n".join([*show, *functions, "int main() {", *runs, "}"]))
    assert len(output) == len(expected), output[-3:]
    wrong = [(case, line) for line, case in zip(output, expected, strict=True) if not _same(line, case[-1], case[0])]
    assert wrong == []


def _list(values, dtype):
    return ", ".join(f"({c_name(dtype)}){spelled(value, dtype)}" for value in values)


def _same(line, value, name):
    if isinstance(value, int):
        return int(line) == value
    if np.isnan(value):
        return "nan" in line
    if name == "sign_of" and line.startswith("-0x0"):
        return False  # the sign of a negative zero is 0
    return float.fromhex(line) == float(value)


def test_two_sources_that_need_the_same_helpers_may_stand_in_one_program():
    text = """
cugen: 1
kernel: {name}
params: {{N: {{range: [4, 100000], multiple_of: 4}}}}
arrays: {{x: {{shape: [N], dtype: float32}}, y: {{shape: [N], dtype: float32}}}}
compute: y[i] = maximum(x[i], {value})
"""
    sources = [
        generate(load_text(text.format(name=name, value=value))[0]).source for name, value in (("one", 1), ("two", 2))
    ]
    assert all("struct alignas(count * sizeof(T)) Vector" in source for source in sources)
    assert set(compile_cubin("\n".join(sources), "both", "sm_90").kernels) == {"one", "two"}
