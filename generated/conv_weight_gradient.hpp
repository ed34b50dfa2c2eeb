// conv_weight_gradient_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from conv_weight_gradient.yaml (hash 42f4b7ab438ffe60) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "conv_weight_gradient.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> conv_weight_gradient_launch(cugen::Span<const float, 4> x,
    cugen::Span<const float, 4> dy, cugen::Span<float, 4> dw, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {4, 12, 10, 24}, {2880, 240, 24, 1}, 16);
    check.array("dy", dy, {4, 12, 10, 32}, {3840, 320, 32, 1}, 16);
    check.array("dw", dw, {32, 3, 3, 24}, {216, 72, 24, 1}, 16);
    check.disjoint("x", x, "dw", dw);
    check.disjoint("dy", dy, "dw", dw);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(conv_weight_gradient_launch(x.data, dy.data, dw.data, stream), cudaGetErrorString);
}
