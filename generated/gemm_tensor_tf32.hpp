// gemm_tensor_tf32_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from gemm_tensor_tf32.yaml (hash 361258e9517747fe) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "gemm_tensor_tf32.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> gemm_tensor_tf32_launch(cugen::Span<const float, 2> A, cugen::Span<const float, 2> B,
    cugen::Span<float, 2> C, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {66, 72}, {72, 1}, 16);
    check.array("B", B, {72, 100}, {100, 1}, 16);
    check.array("C", C, {66, 100}, {100, 1}, 8);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(gemm_tensor_tf32_launch(A.data, B.data, C.data, stream), cudaGetErrorString);
}
