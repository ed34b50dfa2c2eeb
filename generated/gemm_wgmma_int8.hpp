// gemm_wgmma_int8_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from gemm_wgmma_int8.yaml (hash d1039c605c1a6655) for sm_90a. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "gemm_wgmma_int8.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> gemm_wgmma_int8_launch(cugen::Span<const signed char, 2> A,
    cugen::Span<const signed char, 2> B, cugen::Span<int, 2> C, void* workspace, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {64, 256}, {256, 1}, 16);
    check.array("B", B, {256, 96}, {96, 1}, 8);
    check.array("C", C, {64, 96}, {96, 1}, 8);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(gemm_wgmma_int8_launch(A.data, B.data, C.data, workspace, stream), cudaGetErrorString);
}
