// matmul_batched_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from matmul_batched.yaml (hash 00cb35dd99443467) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "matmul_batched.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> matmul_batched_launch(cugen::Span<const float, 3> A, cugen::Span<const float, 3> B,
    cugen::Span<float, 3> C, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {12, 33, 20}, {660, 20, 1}, 4);
    check.array("B", B, {12, 20, 40}, {800, 40, 1}, 4);
    check.array("C", C, {12, 33, 40}, {1320, 40, 1}, 4);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(matmul_batched_launch(A.data, B.data, C.data, stream), cudaGetErrorString);
}
