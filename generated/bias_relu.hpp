// bias_relu_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from bias_relu.yaml (hash 68608e48dec82c6a) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "bias_relu.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> bias_relu_launch(cugen::Span<const __nv_bfloat16, 2> x,
    cugen::Span<const float, 1> bias, cugen::Span<const float, 1> gate, cugen::Span<__nv_bfloat16, 2> y,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {300, 520}, {520, 1}, 16);
    check.array("bias", bias, {520}, {1}, 16);
    check.array("gate", gate, {300}, {1}, 4);
    check.array("y", y, {300, 520}, {520, 1}, 16);
    check.disjoint("x", x, "y", y);
    check.disjoint("bias", bias, "y", y);
    check.disjoint("gate", gate, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(bias_relu_launch(x.data, bias.data, gate.data, y.data, stream), cudaGetErrorString);
}
