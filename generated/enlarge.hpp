// enlarge_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from enlarge.yaml (hash 6f08bb8ddda3d5c2) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "enlarge.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> enlarge_launch(cugen::Span<const float, 2> x, cugen::Span<float, 2> y,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {270, 480}, {480, 1}, 512);
    check.array("y", y, {405, 720}, {720, 1}, 16);
    check.disjoint("x", x, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(enlarge_launch(x.data, y.data, stream), cudaGetErrorString);
}
