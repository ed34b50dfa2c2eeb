// matmul_tile_variants__8_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from matmul_tile_variants.yaml (hash d3f3e111a66f0651) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "matmul_tile_variants__8.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> matmul_tile_variants__8_launch(cugen::Span<const float, 2> A,
    cugen::Span<const float, 2> B, cugen::Span<float, 2> C, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {70, 45}, {45, 1}, 4);
    check.array("B", B, {45, 83}, {83, 1}, 4);
    check.array("C", C, {70, 83}, {83, 1}, 4);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(matmul_tile_variants__8_launch(A.data, B.data, C.data, stream), cudaGetErrorString);
}
