// prefix_sum_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from prefix_sum.yaml (hash ee7a70f666d5182d) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "prefix_sum.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> prefix_sum_launch(cugen::Span<const float, 1> x, cugen::Span<float, 1> y,
    void* workspace, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {200003}, {1}, 16);
    check.array("y", y, {200003}, {1}, 16);
    check.disjoint("x", x, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(prefix_sum_launch(x.data, y.data, workspace, stream), cudaGetErrorString);
}
