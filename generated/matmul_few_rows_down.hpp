// matmul_few_rows_down_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from matmul_few_rows_down.yaml (hash 19a5f38dfff67dd3) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "matmul_few_rows_down.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> matmul_few_rows_down_launch(cugen::Span<const float, 2> A,
    cugen::Span<const float, 2> B, cugen::Span<float, 2> C, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {3, 192}, {192, 1}, 16);
    check.array("B", B, {192, 260}, {260, 1}, 16);
    check.array("C", C, {3, 260}, {260, 1}, 4);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(matmul_few_rows_down_launch(A.data, B.data, C.data, stream), cudaGetErrorString);
}
