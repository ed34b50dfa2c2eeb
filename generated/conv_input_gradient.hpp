// conv_input_gradient_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from conv_input_gradient.yaml (hash bcb1f05ad2ec2cbe) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "conv_input_gradient.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> conv_input_gradient_launch(cugen::Span<const float, 4> dy,
    cugen::Span<const float, 4> w, cugen::Span<float, 4> dx, void* workspace, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("dy", dy, {4, 32, 12, 10}, {3840, 120, 10, 1}, 4);
    check.array("w", w, {32, 24, 3, 3}, {216, 9, 3, 1}, 4);
    check.array("dx", dx, {4, 24, 12, 10}, {2880, 120, 10, 1}, 16);
    check.disjoint("dy", dy, "dx", dx);
    check.disjoint("w", w, "dx", dx);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(conv_input_gradient_launch(dy.data, w.data, dx.data, workspace, stream), cudaGetErrorString);
}
