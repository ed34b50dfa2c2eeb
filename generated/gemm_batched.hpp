// gemm_batched_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from gemm_batched.yaml (hash e87cda77cc0c4b4c) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "gemm_batched.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> gemm_batched_launch(cugen::Span<const float, 3> A, cugen::Span<const float, 3> B,
    cugen::Span<const float, 3> residual, cugen::Span<float, 3> C, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {2, 30, 20}, {600, 20, 1}, 4);
    check.array("B", B, {2, 20, 40}, {800, 40, 1}, 16);
    check.array("residual", residual, {2, 30, 40}, {1200, 40, 1}, 16);
    check.array("C", C, {2, 30, 40}, {1200, 40, 1}, 16);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    check.disjoint("residual", residual, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(gemm_batched_launch(A.data, B.data, residual.data, C.data, stream), cudaGetErrorString);
}
