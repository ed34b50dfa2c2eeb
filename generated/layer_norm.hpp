// layer_norm_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from layer_norm.yaml (hash 01977706383a6c00) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "layer_norm.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> layer_norm_launch(cugen::Span<const float, 2> x, cugen::Span<const float, 1> gamma_,
    cugen::Span<const float, 1> beta, cugen::Span<float, 2> y, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {96, 200}, {200, 1}, 16);
    check.array("gamma", gamma_, {200}, {1}, 16);
    check.array("beta", beta, {200}, {1}, 16);
    check.array("y", y, {96, 200}, {200, 1}, 16);
    check.disjoint("x", x, "y", y);
    check.disjoint("gamma", gamma_, "y", y);
    check.disjoint("beta", beta, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(layer_norm_launch(x.data, gamma_.data, beta.data, y.data, stream), cudaGetErrorString);
}
