// matmul_dynamic_shared_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from matmul_dynamic_shared.yaml (hash 7dd5ab814c249891) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "matmul_dynamic_shared.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> matmul_dynamic_shared_launch(cugen::Span<const float, 2> A,
    cugen::Span<const float, 2> B, cugen::Span<float, 2> C, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {100, 130}, {130, 1}, 4);
    check.array("B", B, {130, 140}, {140, 1}, 4);
    check.array("C", C, {100, 140}, {140, 1}, 4);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(matmul_dynamic_shared_launch(A.data, B.data, C.data, stream), cudaGetErrorString);
}
