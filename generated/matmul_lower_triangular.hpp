// matmul_lower_triangular_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from matmul_lower_triangular.yaml (hash 163faebee414c40c) for
// sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "matmul_lower_triangular.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> matmul_lower_triangular_launch(cugen::Span<const float, 2> L,
    cugen::Span<const float, 2> B, cugen::Span<float, 2> C, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("L", L, {120, 120}, {120, 1}, 4);
    check.array("B", B, {120, 75}, {75, 1}, 4);
    check.array("C", C, {120, 75}, {75, 1}, 4);
    check.disjoint("L", L, "C", C);
    check.disjoint("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(matmul_lower_triangular_launch(L.data, B.data, C.data, stream), cudaGetErrorString);
}
