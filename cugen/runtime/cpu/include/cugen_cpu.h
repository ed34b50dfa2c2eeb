// CUDA C++ for a host compiler: force this header in front of an unchanged .cu, and its kernels become functions that
// the runtime calls once per thread. `__CUDACC__` and `__CUDA_ARCH__` stay undefined, so host code and inline PTX, which
// no host compiler can read, are skipped in favour of the portable branch.
#pragma once

#define CUGEN_CPU 1

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
#include "cugen_cpu/atomics.h"
#include "cugen_cpu/memory.h"
