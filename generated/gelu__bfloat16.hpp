// gelu__bfloat16_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from gelu_variants.yaml (hash ecb50dc074892018) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "gelu__bfloat16.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> gelu__bfloat16_launch(cugen::Span<const __nv_bfloat16, 1> x,
    cugen::Span<__nv_bfloat16, 1> y, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {20011}, {1}, 16);
    check.array("y", y, {20011}, {1}, 16);
    check.disjoint("x", x, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(gelu__bfloat16_launch(x.data, y.data, stream), cudaGetErrorString);
}
