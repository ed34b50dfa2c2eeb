// decimate_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from decimate.yaml (hash 2aa93fd33c8de8b3) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "decimate.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> decimate_launch(cugen::Span<const float, 1> x, cugen::Span<const float, 1> h,
    cugen::Span<float, 1> y, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {1200060}, {1}, 16);
    check.array("h", h, {32}, {1}, 4);
    check.array("y", y, {300007}, {1}, 16);
    check.disjoint("x", x, "y", y);
    check.disjoint("h", h, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(decimate_launch(x.data, h.data, y.data, stream), cudaGetErrorString);
}
