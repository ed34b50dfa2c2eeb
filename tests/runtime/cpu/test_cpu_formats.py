"""Narrow floating formats: every code and a million values against NumPy and ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from cugen.runtime.cpu import CpuDevice

CONVERSIONS = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void widen(float* half_out, float* bfloat_out, float* e4m3_out, float* e5m2_out) {
  const unsigned code = blockIdx.x * 256 + threadIdx.x;
  half_out[code] = __half2float(__ushort_as_half((unsigned short)code));
  bfloat_out[code] = __bfloat162float(__ushort_as_bfloat16((unsigned short)code));
  if (code < 256) {
    __nv_fp8_e4m3 a;
    __nv_fp8_e5m2 b;
    a.__x = b.__x = (unsigned char)code;
    e4m3_out[code] = float(a);
    e5m2_out[code] = float(b);
  }
}

extern "C" __global__ void narrow(const float* in, __half* h, __nv_bfloat16* b, __nv_fp8_e4m3* x,
                                  __nv_fp8_e5m2* y, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  h[i] = __float2half_rn(in[i]);
  b[i] = __float2bfloat16(in[i]);
  x[i] = __nv_fp8_e4m3(in[i]);
  y[i] = __nv_fp8_e5m2(in[i]);
}

extern "C" __global__ void whole(const long long* in, const unsigned long long* u, __nv_fp8_e4m3* x,
                                 __nv_fp8_e5m2* y) {
  x[threadIdx.x] = __nv_fp8_e4m3(in[threadIdx.x]);
  y[threadIdx.x] = __nv_fp8_e5m2(u[threadIdx.x]);
}

extern "C" __global__ void arithmetic(const __half* a, const __half* b, __half* out, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  out[i] = a[i] + b[i];
  out[n + i] = __hmul(a[i], b[i]);
  out[2 * n + i] = a[i] / b[i];
  out[3 * n + i] = hsqrt(a[i]);
  const __half2 pair = __floats2half2_rn(__half2float(a[i]), 1.0f);
  out[4 * n + i] = __low2half(__hfma2(pair, pair, pair));
  out[5 * n + i] = __hmax(a[i], b[i]);
}
"""

E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


def run(job):
    outcome = CpuDevice().run(job)
    assert outcome.faults == ()
    return outcome.buffers


def test_every_code_has_the_value_that_numpy_gives_it(make_job, nans):
    outputs = {"half_out": nans(65536), "bfloat_out": nans(65536), "e4m3_out": nans(256), "e5m2_out": nans(256)}
    got = run(
        make_job(
            CONVERSIONS,
            outputs,
            outputs=tuple(outputs),
            grid=(256, 1, 1),
            block=(256, 1, 1),
            launches=(("widen", tuple(outputs)),),
        )
    )
    codes, bytes_ = np.arange(65536, dtype=np.uint16), np.arange(256, dtype=np.uint8)
    np.testing.assert_array_equal(got["half_out"], codes.view(np.float16).astype(np.float32))
    np.testing.assert_array_equal(got["bfloat_out"], codes.view(ml_dtypes.bfloat16).astype(np.float32))
    np.testing.assert_array_equal(got["e4m3_out"], bytes_.view(E4M3).astype(np.float32))
    np.testing.assert_array_equal(got["e5m2_out"], bytes_.view(E5M2).astype(np.float32))


def interesting_floats():
    """Every code of every format, the midpoints between consecutive ones, the floats next to these, and random bits."""
    codes = np.arange(65536, dtype=np.uint16)
    with np.errstate(all="ignore"):
        exact = np.concatenate(
            [codes.view(t).astype(np.float32) for t in (np.float16, ml_dtypes.bfloat16)]
            + [np.arange(256, dtype=np.uint8).view(t).astype(np.float32) for t in (E4M3, E5M2)]
        )
        exact = exact[np.isfinite(exact)]
        ordered = np.unique(exact)
        middle = (ordered[1:].astype(np.float64) / 2 + ordered[:-1].astype(np.float64) / 2).astype(np.float32)
        near = np.concatenate([np.nextafter(middle, np.float32(s * np.inf)) for s in (-1, 1)])
    random = np.random.default_rng(3).integers(0, 1 << 32, 300_000, dtype=np.uint32).view(np.float32)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 65519.99, 65520.0, 464.0, 1e38], np.float32)
    return np.concatenate([exact, middle, near, random, special])


def same_bits(got, expected):
    """Equal bit for bit, or both NaN."""
    a, b = np.isnan(got.astype(np.float32)), np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(a, b)
    unsigned = f"u{got.dtype.itemsize}"
    np.testing.assert_array_equal(got.view(unsigned)[~a], expected.view(unsigned)[~a])


def test_conversions_round_to_nearest_even_and_float8_saturates(make_job):
    values = interesting_floats()
    n = len(values)
    arrays = {
        "in": values,
        "h": np.zeros(n, np.uint16),
        "b": np.zeros(n, np.uint16),
        "x": np.zeros(n, np.uint8),
        "y": np.zeros(n, np.uint8),
    }
    got = run(
        make_job(
            CONVERSIONS,
            arrays,
            outputs=("h", "b", "x", "y"),
            params={"n": n},
            grid=("(n + 255) // 256", 1, 1),
            block=(256, 1, 1),
            launches=(("narrow", (*arrays, "n")),),
        )
    )
    with np.errstate(all="ignore"):
        same_bits(got["h"].view(np.float16), values.astype(np.float16))
        same_bits(got["b"].view(ml_dtypes.bfloat16), values.astype(ml_dtypes.bfloat16))
        same_bits(got["x"].view(E4M3), np.clip(values, -448, 448).astype(E4M3))
        same_bits(got["y"].view(E5M2), np.clip(values, -57344, 57344).astype(E5M2))


def test_integers_of_64_bits_become_float8(make_job):
    values = np.array([0, 1, -3, 17, 27, 447, 449, -(2**63), 2**63 - 1], np.int64)
    arrays = {"in": values, "u": np.abs(values.astype(np.float64)).astype(np.uint64)}
    arrays |= {name: np.zeros(len(values), np.uint8) for name in ("x", "y")}
    launches = (("whole", tuple(arrays)),)
    got = run(make_job(CONVERSIONS, arrays, outputs=("x", "y"), block=(len(values), 1, 1), launches=launches))
    same_bits(got["x"].view(E4M3), np.clip(values, -448, 448).astype(E4M3))
    same_bits(got["y"].view(E5M2), np.clip(arrays["u"], 0, 57344).astype(E5M2))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [0, 1])
def test_half_arithmetic_is_correctly_rounded(make_job, seed):
    n = 20000
    a, b = np.random.default_rng(seed).integers(0, 65536, (2, n)).astype(np.uint16).view(np.float16)
    arrays = {"a": a.view(np.uint16), "b": b.view(np.uint16), "out": np.zeros(6 * n, np.uint16)}
    got = (
        run(
            make_job(
                CONVERSIONS,
                arrays,
                params={"n": n},
                grid=("(n + 255) // 256", 1, 1),
                block=(256, 1, 1),
                launches=(("arithmetic", ("a", "b", "out", "n")),),
            )
        )["out"]
        .view(np.float16)
        .reshape(6, n)
    )
    with np.errstate(all="ignore"):
        wide = a.astype(np.float64)
        for row, expected in enumerate((a + b, a * b, a / b, np.sqrt(a), (wide * wide + wide).astype(np.float16))):
            np.testing.assert_array_equal(got[row], expected, err_msg=f"row {row}")
        np.testing.assert_array_equal(got[5], np.fmax(a, b))
