// logistic_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from logistic.yaml (hash 9d0f7346e6409fdb) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "logistic.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> logistic_launch(cugen::Span<const __half, 1> x, cugen::Span<__half, 1> slope,
    float steepness, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {30001}, {1}, 16);
    check.array("slope", slope, {30001}, {1}, 16);
    check.disjoint("x", x, "slope", slope);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(logistic_launch(x.data, slope.data, steepness, stream), cudaGetErrorString);
}
