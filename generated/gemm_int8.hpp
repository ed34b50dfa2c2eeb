// gemm_int8_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from gemm_int8.yaml (hash 78c79e275cfb03cd) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "gemm_int8.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> gemm_int8_launch(cugen::Span<const signed char, 2> A,
    cugen::Span<const signed char, 2> B, cugen::Span<int, 2> C, cudaStream_t stream)
{
    const long long N = B.extents[1];
    cugen::Checks check;
    check.equal("N", N, "dimension 1 of `B`", C.extents[1], "dimension 1 of `C`");
    check.param("N", N, 1, 65536, 16);
    check.array("A", A, {40, 24}, {24, 1}, 1);
    check.array("B", B, {24, N}, {N, 1}, 16, "[24, N]");
    check.array("C", C, {40, N}, {N, 1}, 16, "[40, N]");
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(gemm_int8_launch(A.data, B.data, C.data, static_cast<int>(N), stream), cudaGetErrorString);
}
