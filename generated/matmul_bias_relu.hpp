// matmul_bias_relu_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from matmul_bias_relu.yaml (hash 4c16db40106eff77) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "matmul_bias_relu.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> matmul_bias_relu_launch(cugen::Span<const float, 2> A, cugen::Span<const float, 2> B,
    cugen::Span<const float, 1> bias, cugen::Span<float, 2> C, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {70, 96}, {96, 1}, 4);
    check.array("B", B, {96, 100}, {100, 1}, 4);
    check.array("bias", bias, {100}, {1}, 4);
    check.array("C", C, {70, 100}, {100, 1}, 4);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    check.disjoint("bias", bias, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(matmul_bias_relu_launch(A.data, B.data, bias.data, C.data, stream), cudaGetErrorString);
}
