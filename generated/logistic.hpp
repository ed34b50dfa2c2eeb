// logistic_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from logistic.yaml (hash 135f90719356457e) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "logistic.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> logistic_launch(cugen::Span<const float, 1> x, cugen::Span<float, 1> curve,
    cugen::Span<float, 1> slope, float steepness, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {30001}, {1}, 16);
    check.array("curve", curve, {30001}, {1}, 16);
    check.array("slope", slope, {30001}, {1}, 16);
    check.disjoint("x", x, "curve", curve);
    check.disjoint("x", x, "slope", slope);
    check.disjoint("curve", curve, "slope", slope);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(logistic_launch(x.data, curve.data, slope.data, steepness, stream), cudaGetErrorString);
}
