// gemm_f32_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from gemm_f32.yaml (hash 0761c3e654d32c97) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "gemm_f32.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> gemm_f32_launch(cugen::Span<const float, 2> A, cugen::Span<const float, 2> B,
    cugen::Span<const float, 1> bias, cugen::Span<float, 2> C, float alpha, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {100, 60}, {60, 1}, 4);
    check.array("B", B, {60, 132}, {132, 1}, 16);
    check.array("bias", bias, {132}, {1}, 16);
    check.array("C", C, {100, 132}, {132, 1}, 16);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    check.disjoint("bias", bias, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(gemm_f32_launch(A.data, B.data, bias.data, C.data, alpha, stream), cudaGetErrorString);
}
