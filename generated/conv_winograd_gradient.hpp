// conv_winograd_gradient_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from conv_winograd_gradient.yaml (hash e1e4ced930bcc8c4) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "conv_winograd_gradient.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> conv_winograd_gradient_launch(cugen::Span<const float, 4> dy,
    cugen::Span<const float, 4> w, cugen::Span<float, 4> dx, void* workspace, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("dy", dy, {6, 19, 19, 128}, {46208, 2432, 128, 1}, 16);
    check.array("w", w, {3, 3, 128, 128}, {49152, 16384, 128, 1}, 16);
    check.array("dx", dx, {6, 19, 19, 128}, {46208, 2432, 128, 1}, 4);
    check.disjoint("dy", dy, "dx", dx);
    check.disjoint("w", w, "dx", dx);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(conv_winograd_gradient_launch(dy.data, w.data, dx.data, workspace, stream),
        cudaGetErrorString);
}
