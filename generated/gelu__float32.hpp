// gelu__float32_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from gelu_variants.yaml (hash df89e23e8add69c9) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "gelu__float32.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> gelu__float32_launch(cugen::Span<const float, 1> x, cugen::Span<float, 1> y,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {20011}, {1}, 16);
    check.array("y", y, {20011}, {1}, 16);
    check.disjoint("x", x, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(gelu__float32_launch(x.data, y.data, stream), cudaGetErrorString);
}
