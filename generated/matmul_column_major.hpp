// matmul_column_major_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from matmul_column_major.yaml (hash c093f6d8292cd20c) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "matmul_column_major.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> matmul_column_major_launch(cugen::Span<const float, 2> A,
    cugen::Span<const float, 2> B, cugen::Span<float, 2> C, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {96, 64}, {1, 96}, 16);
    check.array("B", B, {64, 80}, {1, 64}, 4);
    check.array("C", C, {96, 80}, {1, 96}, 16);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(matmul_column_major_launch(A.data, B.data, C.data, stream), cudaGetErrorString);
}
