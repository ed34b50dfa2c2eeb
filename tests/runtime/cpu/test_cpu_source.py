"""Declarations parsed from the text of a .cu."""

from __future__ import annotations

from cugen.runtime.cpu.source import declarations

SOURCE = """\
// __shared__ float in_a_comment[4];
/* extern __shared__ float
   also_not[]; */
__constant__ float taps[9];
static __device__ __align__(16) const float table[2][3] = {{1, 2, 3}, {4, 5, 6}};
__device__ int counter = 0;
__device__ __forceinline__ float half_of(float x) { return x / 2; }
extern "C" __global__ void one(float* out) {
  __shared__ __align__(16) float As[16][17], Bs[4];
  extern __shared__ __align__(16) unsigned char storage[];
  extern __shared__
      float other[];
}
extern "C" __global__ void two(float* out) { __shared__ int As[2]; extern __shared__ unsigned char storage[]; }
"""


def test_arrays_are_found_by_kind_in_the_order_of_the_text():
    declared = declarations(SOURCE)
    assert declared.static == ("As", "Bs")
    assert declared.dynamic == ("storage", "other")
    assert declared.globals == ("taps", "table", "counter")
    assert declared.lines == 15


def test_lines_of_dynamic_arrays_are_those_of_the_word_shared():
    assert declarations(SOURCE.rsplit('extern "C"', 1)[0]).dynamic_lines == {10, 11}


def test_a_source_without_shared_memory_has_none():
    declared = declarations('extern "C" __global__ void k(int* out) { out[0] = 1; }\n')
    assert (declared.static, declared.dynamic, declared.globals) == ((), (), ())
