// matmul_int8_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from matmul_int8.yaml (hash e6e6a92724a564f5) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "matmul_int8.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> matmul_int8_launch(cugen::Span<const signed char, 2> A,
    cugen::Span<const signed char, 2> B, cugen::Span<int, 2> C, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {60, 200}, {200, 1}, 8);
    check.array("B", B, {200, 90}, {90, 1}, 1);
    check.array("C", C, {60, 90}, {90, 1}, 8);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(matmul_int8_launch(A.data, B.data, C.data, stream), cudaGetErrorString);
}
