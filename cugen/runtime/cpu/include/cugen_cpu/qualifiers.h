// CUDA's C++ qualifiers. `__shared__` depends on the build and on `extern`: the harness defines `cugen_shared_<line>` for
// each line of the .cu (see harness.py).
#pragma once

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
// Empty, because libstdc++ uses __attribute__((__noinline__)).
#define __noinline__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_assume(condition) ((void)0)

#define CUGEN_PASTE_EXPANDED(left, right) left##right
#define CUGEN_PASTE(left, right) CUGEN_PASTE_EXPANDED(left, right)
#define __shared__ CUGEN_PASTE(cugen_shared_, __LINE__)

// Inlined even at -O0 and artificial in debug information: accesses are attributed to the line of the call.
#define CUGEN_INLINE inline __attribute__((always_inline, artificial))
