// drawdown_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from drawdown.yaml (hash b63fad2d30b6963d) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "drawdown.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> drawdown_launch(cugen::Span<const float, 2> price, cugen::Span<float, 2> fall,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("price", price, {730, 300}, {300, 1}, 16);
    check.array("fall", fall, {730, 300}, {300, 1}, 16);
    check.disjoint("price", price, "fall", fall);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(drawdown_launch(price.data, fall.data, stream), cudaGetErrorString);
}
