// cumulative_sum_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from cumulative_sum.yaml (hash e6ea8f5f180d3d4a) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "cumulative_sum.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> cumulative_sum_launch(cugen::Span<const float, 2> x, cugen::Span<float, 2> y,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {50, 300}, {300, 1}, 16);
    check.array("y", y, {50, 300}, {300, 1}, 16);
    check.disjoint("x", x, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(cumulative_sum_launch(x.data, y.data, stream), cudaGetErrorString);
}
