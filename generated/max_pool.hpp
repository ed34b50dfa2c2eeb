// max_pool_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from max_pool.yaml (hash 0fc060bc6f9aa5f1) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "max_pool.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> max_pool_launch(cugen::Span<const float, 3> x, cugen::Span<float, 3> y,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {3, 61, 88}, {5368, 88, 1}, 16);
    check.array("y", y, {3, 31, 44}, {1364, 44, 1}, 8);
    check.disjoint("x", x, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(max_pool_launch(x.data, y.data, stream), cudaGetErrorString);
}
