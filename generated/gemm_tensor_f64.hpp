// gemm_tensor_f64_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from gemm_tensor_f64.yaml (hash 007ef125d74857c9) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "gemm_tensor_f64.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> gemm_tensor_f64_launch(cugen::Span<const double, 2> A, cugen::Span<const double, 2> B,
    cugen::Span<double, 2> C, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {128, 64}, {64, 1}, 16);
    check.array("B", B, {64, 96}, {96, 1}, 16);
    check.array("C", C, {128, 96}, {96, 1}, 16);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(gemm_tensor_f64_launch(A.data, B.data, C.data, stream), cudaGetErrorString);
}
