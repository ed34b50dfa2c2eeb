// CUDA C++ for a host compiler: force-included before an unchanged .cu, whose kernels become functions that the runtime
// calls once per thread. `__CUDACC__` and `__CUDA_ARCH__` are undefined, which selects the portable branches in place of
// launchers and inline PTX.
#pragma once

#define CUGEN_CPU 1

// libstdc++ would instantiate the special functions of C++17, which CUDA C++ lacks, for each kernel: a quarter of the
// compiler's time.
#define _GLIBCXX_BITS_SPECFUN_H 1

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cugen_cpu/qualifiers.h"
#include "cugen_cpu/vectors.h"

#include "cugen_cpu/runtime.h"

#include "cugen_cpu/builtins.h"
#include "cugen_cpu/integers.h"
#include "cugen_cpu/conversions.h"
#include "cugen_cpu/math.h"
#include "cugen_cpu/warp.h"
#include "cugen_cpu/tensor.h"
#include "cugen_cpu/tensor_map.h"
#include "cugen_cpu/mbarrier.h"
#include "cugen_cpu/tma.h"
#include "cugen_cpu/wgmma.h"
#include "cugen_cpu/atomics.h"
#include "cugen_cpu/memory.h"
#include "cugen_cpu/texture.h"
