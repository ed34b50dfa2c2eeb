"""Intrinsics, saturating conversions, vector types and math functions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cugen.runtime.cpu import CpuDevice

SATURATION = r"""
extern "C" __global__ void k(const double* in, int* i, unsigned* u, long long* l, unsigned long long* v, int n) {
  const int t = threadIdx.x;
  const double d = in[t];
  const float f = (float)d;
  i[t] = __float2int_rz(f), i[n + t] = __double2int_rn(d), i[2 * n + t] = __float2int_rd(f);
  u[t] = __float2uint_rz(f), u[n + t] = __double2uint_ru(d);
  l[t] = __float2ll_rz(f), l[n + t] = __double2ll_rz(d);
  v[t] = __float2ull_rz(f), v[n + t] = __double2ull_rn(d);
}
"""


def clamped(values, lowest, highest, nan):
    return [nan if math.isnan(x) else int(max(lowest, min(highest, x))) for x in values]


def exact(function, values):
    """`function` on each value, in integers of any size; NaN and infinities pass."""
    return [function(x) if math.isfinite(x) else x for x in values]


@pytest.mark.slow
def test_conversions_to_integers_saturate_and_nan_is_what_the_hardware_gives(make_job):
    d = np.array(
        [
            0.5,
            1.5,
            2.5,
            -0.5,
            -1.5,
            -2.7,
            2.0**31 - 1,
            2.0**31,
            -(2.0**31),
            -(2.0**31) - 1,
            2.0**32,
            2.0**63,
            -(2.0**63),
            2.0**64,
            1e300,
            -1e300,
            np.inf,
            -np.inf,
            np.nan,
            -0.0,
            3e9,
            1e19,
            -1.0,
        ]
    )
    n = len(d)
    with np.errstate(over="ignore"):
        f = d.astype(np.float32).astype(np.float64)
    job = make_job(
        SATURATION,
        {
            "in": d,
            "i": np.zeros(3 * n, np.int32),
            "u": np.zeros(2 * n, np.uint32),
            "l": np.zeros(2 * n, np.int64),
            "v": np.zeros(2 * n, np.uint64),
        },
        outputs=("i", "u", "l", "v"),
        params={"n": n},
        block=(n, 1, 1),
        alignment=8,
    )
    for device in (CpuDevice(), CpuDevice(sanitize=True)):
        outcome = device.run(job)
        assert outcome.faults == ()
        got = {name: outcome.buffers[name].tolist() for name in "iulv"}
        i32, u32, i64, u64 = (
            (-(1 << 31), (1 << 31) - 1),
            (0, (1 << 32) - 1),
            (-(1 << 63), (1 << 63) - 1),
            (0, (1 << 64) - 1),
        )
        assert got["i"][:n] == clamped(exact(math.trunc, f), *i32, 0)
        assert got["i"][n : 2 * n] == clamped(exact(round, d), *i32, -(1 << 31))
        assert got["i"][2 * n :] == clamped(exact(math.floor, f), *i32, 0)
        assert got["u"][:n] == clamped(exact(math.trunc, f), *u32, 0)
        assert got["u"][n:] == clamped(exact(math.ceil, d), *u32, 1 << 31)
        assert got["l"][:n] == clamped(exact(math.trunc, f), *i64, -(1 << 63))
        assert got["l"][n:] == clamped(exact(math.trunc, d), *i64, -(1 << 63))
        assert got["v"][:n] == clamped(exact(math.trunc, f), *u64, 1 << 63)
        assert got["v"][n:] == clamped(exact(round, d), *u64, 1 << 63)


LAYOUT = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#define AT(type, size, alignment) static_assert(sizeof(type) == size && alignof(type) == alignment, #type)
AT(char1, 1, 1); AT(char2, 2, 2); AT(char3, 3, 1); AT(char4, 4, 4); AT(uchar4, 4, 4);
AT(short2, 4, 4); AT(short3, 6, 2); AT(short4, 8, 8); AT(ushort4, 8, 8);
AT(int1, 4, 4); AT(int2, 8, 8); AT(int3, 12, 4); AT(int4, 16, 16); AT(uint4, 16, 16);
AT(longlong1, 8, 8); AT(longlong2, 16, 16); AT(longlong3, 24, 8); AT(ulonglong4, 32, 16);
AT(float1, 4, 4); AT(float2, 8, 8); AT(float3, 12, 4); AT(float4, 16, 16);
AT(double1, 8, 8); AT(double2, 16, 16); AT(double3, 24, 8); AT(double4, 32, 16);
AT(__half, 2, 2); AT(__half2, 4, 4); AT(__nv_bfloat16, 2, 2); AT(__nv_bfloat162, 4, 4);
AT(__nv_fp8_e4m3, 1, 1); AT(__nv_fp8_e5m2, 1, 1); AT(dim3, 12, 4);

extern "C" __global__ void k(const float4* in, float4* out) {
  __shared__ __half tile[4];
  const float4 v = __ldcs(in);
  tile[threadIdx.x] = __float2half(v.w);
  __stcs(out, make_float4(v.w, v.z, __half2float(tile[0]), v.x + make_int3(1, 2, 3).z));
  __pipeline_memcpy_async(out + 1, in + 1, 16);
  __pipeline_memcpy_async(&out[2].x, &in[1].x, 8, 4);
  __pipeline_commit();
  __pipeline_wait_prior(0);
}
"""


@pytest.mark.slow
def test_vector_types_have_cudas_layout_and_copies_their_width(make_job, nans):
    job = make_job(LAYOUT, {"in": np.arange(8, dtype=np.float32), "out": nans(12)}, block=(1, 1, 1), alignment=16)
    outcome = CpuDevice(sanitize=True).run(job)
    assert outcome.faults == ()
    np.testing.assert_array_equal(outcome.buffers["out"][:10], [3, 2, 3, 3, 4, 5, 6, 7, 4, 0])


INTEGERS = r"""
extern "C" __global__ void k(const int* in, int* out) {
  const int a = in[2 * threadIdx.x], b = in[2 * threadIdx.x + 1];
  int* o = out + 16 * threadIdx.x;
  o[0] = __popc(a), o[1] = __clz(a), o[2] = __ffs(a), o[3] = (int)__brev(a), o[4] = __mulhi(a, b);
  o[5] = (int)__umulhi(a, b), o[6] = __mul24(a, b), o[7] = min(a, b), o[8] = max(a, b), o[9] = max((unsigned)a, 5);
  o[10] = (int)__byte_perm(a, b, 0x5412), o[11] = (int)__funnelshift_r(a, b, 8), o[12] = __dp4a(a, b, 7);
  o[13] = __float_as_int(__int_as_float(a)), o[14] = (int)__sad(a, b, 1u);
  o[15] = __double2hiint(__hiloint2double(a, b));
}
"""


@pytest.mark.slow
def test_integer_intrinsics_follow_their_definition(make_job):
    pairs = np.array([[0, 0], [1, -1], [-1, -1], [0x12345678, -2023406815], [-(2**31), 2**31 - 1], [77, 123456]])
    job = make_job(INTEGERS, {"in": pairs.astype(np.int32), "out": np.zeros(96, np.int32)}, block=(6, 1, 1))
    got = CpuDevice().run(job).buffers["out"].reshape(6, 16)

    def signed(x, bits=32):
        x &= (1 << bits) - 1
        return x - (1 << bits) if x >> (bits - 1) else x

    for (a, b), row in zip(pairs.tolist(), got.tolist(), strict=True):
        ua, ub = a & 0xFFFFFFFF, b & 0xFFFFFFFF
        wide = ub << 32 | ua
        octets = [wide >> 8 * i & 0xFF for i in range(8)]
        assert row == [
            ua.bit_count(), 32 - ua.bit_length(), (ua & -ua).bit_length(), signed(int(f"{ua:032b}"[::-1], 2)),
            a * b >> 32, signed(ua * ub >> 32), signed(signed(a, 24) * signed(b, 24)), min(a, b), max(a, b),
            signed(max(ua, 5)), signed(octets[2] | octets[1] << 8 | octets[4] << 16 | octets[5] << 24),
            signed(wide >> 8), 7 + sum(signed(ua >> s, 8) * signed(ub >> s, 8) for s in (0, 8, 16, 24)), a,
            signed(abs(a - b) + 1), a,
        ]  # fmt: skip


FUNCTIONS = r"""
extern "C" __global__ void k(const double* in, double* out, float* outf, int n) {
  const int t = threadIdx.x;
  const double x = in[t];
  const float f = (float)x;
  int row = 0;
#define PUT(wide, narrow) out[row * n + t] = (wide); outf[row++ * n + t] = (narrow)
  PUT(rsqrt(x), rsqrtf(f));
  PUT(cbrt(x), cbrtf(f));
  PUT(sinpi(x), sinpif(f));
  PUT(cospi(x), cospif(f));
  PUT(erfinv(x / 8), erfinvf(f / 8));
  PUT(normcdf(x), normcdff(f));
  PUT(erfcx(x), erfcxf(f));
  PUT(lgamma(x), lgammaf(f));
  PUT(exp2(x), exp2f(f));
  PUT(rhypot(x, 2.0), rhypotf(f, 2.0f));
  PUT(max(x, 1.0), fmaxf(f, 1.0f));
  PUT(exp(x), __expf(f));
}
"""


def test_math_functions_agree_with_pythons(make_job):
    x = np.array([0.25, 0.5, 1.0, 1.5, 2.75, 5.0, 7.5])
    n, rows = len(x), 12
    job = make_job(
        FUNCTIONS,
        {"in": x, "out": np.zeros(rows * n), "outf": np.zeros(rows * n, np.float32)},
        outputs=("out", "outf"),
        params={"n": n},
        block=(n, 1, 1),
        alignment=8,
    )
    outcome = CpuDevice().run(job)
    assert outcome.faults == ()
    expected = np.array([
        [1 / math.sqrt(v), math.cbrt(v) if hasattr(math, "cbrt") else v ** (1 / 3), math.sin(math.pi * v),
         math.cos(math.pi * v), v / 8, math.erfc(-v / math.sqrt(2)) / 2, math.exp(v * v) * math.erfc(v), math.lgamma(v),
         2**v, 1 / math.hypot(v, 2), max(v, 1.0), math.exp(v)]
        for v in x
    ]).T  # fmt: skip
    for name, tolerance in (("out", 1e-13), ("outf", 1e-6)):
        got = outcome.buffers[name].reshape(rows, n).astype(np.float64)
        got[4] = [math.erf(v) for v in got[4]]  # erfinv against its definition
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
