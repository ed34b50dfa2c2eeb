// gemm_wgmma_swap_ab_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from gemm_wgmma_swap_ab.yaml (hash 5b03439163c0f32d) for sm_90a. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "gemm_wgmma_swap_ab.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> gemm_wgmma_swap_ab_launch(cugen::Span<const __half, 2> A,
    cugen::Span<const __half, 2> B, cugen::Span<const float, 1> bias, cugen::Span<__half, 2> C, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {200, 160}, {160, 1}, 16);
    check.array("B", B, {136, 160}, {160, 1}, 16);
    check.array("bias", bias, {200}, {1}, 4);
    check.array("C", C, {200, 136}, {136, 1}, 16);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    check.disjoint("bias", bias, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(gemm_wgmma_swap_ab_launch(A.data, B.data, bias.data, C.data, stream), cudaGetErrorString);
}
