// gemm_tensor_int8_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from gemm_tensor_int8.yaml (hash 3ff9b1b3fff17cf3) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "gemm_tensor_int8.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> gemm_tensor_int8_launch(cugen::Span<const unsigned char, 2> A,
    cugen::Span<const signed char, 2> B, cugen::Span<int, 2> C, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {48, 128}, {128, 1}, 16);
    check.array("B", B, {128, 64}, {64, 1}, 1);
    check.array("C", C, {48, 64}, {64, 1}, 8);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(gemm_tensor_int8_launch(A.data, B.data, C.data, stream), cudaGetErrorString);
}
