// saxpy_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from saxpy.yaml (hash ff79090ca7129df4) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "saxpy.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> saxpy_launch(cugen::Span<const float, 1> x, cugen::Span<float, 1> y, float a_value,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {100000}, {1}, 16);
    check.array("y", y, {100000}, {1}, 16);
    check.disjoint("x", x, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(saxpy_launch(x.data, y.data, a_value, stream), cudaGetErrorString);
}
