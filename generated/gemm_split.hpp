// gemm_split_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from gemm_split.yaml (hash f73ab29da4862260) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "gemm_split.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> gemm_split_launch(cugen::Span<const float, 2> A, cugen::Span<const float, 2> B,
    cugen::Span<float, 2> C, void* workspace, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {40, 128}, {128, 1}, 4);
    check.array("B", B, {128, 64}, {64, 1}, 16);
    check.array("C", C, {40, 64}, {64, 1}, 16);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(gemm_split_launch(A.data, B.data, C.data, workspace, stream), cudaGetErrorString);
}
