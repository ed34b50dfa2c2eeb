// autocorrelation_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from autocorrelation.yaml (hash c3958207ed0a87ba) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "autocorrelation.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> autocorrelation_launch(cugen::Span<const float, 2> x, cugen::Span<float, 2> r,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {30, 5000}, {5000, 1}, 16);
    check.array("r", r, {30, 100}, {100, 1}, 16);
    check.disjoint("x", x, "r", r);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(autocorrelation_launch(x.data, r.data, stream), cudaGetErrorString);
}
