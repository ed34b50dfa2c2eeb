// polynomial_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from polynomial.yaml (hash d7f448f1bd1b0f08) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "polynomial.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> polynomial_launch(cugen::Span<const float, 1> c, cugen::Span<const float, 1> x,
    cugen::Span<float, 1> y, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("c", c, {6}, {1}, 4);
    check.array("x", x, {50001}, {1}, 16);
    check.array("y", y, {50001}, {1}, 16);
    check.disjoint("c", c, "y", y);
    check.disjoint("x", x, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(polynomial_launch(c.data, x.data, y.data, stream), cudaGetErrorString);
}
