// matmul_naive_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from matmul_naive.yaml (hash fca00ad20e41979a) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "matmul_naive.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> matmul_naive_launch(cugen::Span<const float, 2> A, cugen::Span<const float, 2> B,
    cugen::Span<float, 2> C, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {128, 96}, {96, 1}, 4);
    check.array("B", B, {96, 160}, {160, 1}, 4);
    check.array("C", C, {128, 160}, {160, 1}, 4);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(matmul_naive_launch(A.data, B.data, C.data, stream), cudaGetErrorString);
}
