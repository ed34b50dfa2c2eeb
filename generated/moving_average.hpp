// moving_average_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from moving_average.yaml (hash e8033bd9a2101772) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "moving_average.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> moving_average_launch(cugen::Span<const float, 1> samples,
    cugen::Span<float, 1> smooth, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("samples", samples, {10007}, {1}, 4);
    check.array("smooth", smooth, {10007}, {1}, 4);
    check.disjoint("samples", samples, "smooth", smooth);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(moving_average_launch(samples.data, smooth.data, stream), cudaGetErrorString);
}
