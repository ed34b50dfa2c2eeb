// conv_strided_dilated_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from conv_strided_dilated.yaml (hash 62833fa70f9a732c) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "conv_strided_dilated.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> conv_strided_dilated_launch(cugen::Span<const float, 3> x,
    cugen::Span<const float, 4> w, cugen::Span<float, 3> y, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {4, 30, 37}, {1110, 37, 1}, 4);
    check.array("w", w, {6, 4, 3, 3}, {36, 9, 3, 1}, 4);
    check.array("y", y, {6, 15, 19}, {285, 19, 1}, 4);
    check.disjoint("x", x, "y", y);
    check.disjoint("w", w, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(conv_strided_dilated_launch(x.data, w.data, y.data, stream), cudaGetErrorString);
}
