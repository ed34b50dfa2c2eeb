// conv_transposed_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from conv_transposed.yaml (hash cc72c12fbd4fa39c) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "conv_transposed.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> conv_transposed_launch(cugen::Span<const float, 3> x, cugen::Span<const float, 4> w,
    cugen::Span<float, 3> y, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {4, 17, 20}, {340, 20, 1}, 8);
    check.array("w", w, {4, 5, 4, 4}, {80, 16, 4, 1}, 4);
    check.array("y", y, {5, 34, 40}, {1360, 40, 1}, 16);
    check.disjoint("x", x, "y", y);
    check.disjoint("w", w, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(conv_transposed_launch(x.data, w.data, y.data, stream), cudaGetErrorString);
}
