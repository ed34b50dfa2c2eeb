// matmul_small_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from matmul_small.yaml (hash bd451781351463e6) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "matmul_small.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> matmul_small_launch(cugen::Span<const float, 3> A, cugen::Span<const float, 3> B,
    cugen::Span<const float, 1> bias, cugen::Span<float, 3> C, cudaStream_t stream)
{
    const long long Z = A.extents[0];
    cugen::Checks check;
    check.equal("Z", Z, "dimension 0 of `A`", B.extents[0], "dimension 0 of `B`");
    check.equal("Z", Z, "dimension 0 of `A`", C.extents[0], "dimension 0 of `C`");
    check.param("Z", Z, 0, 1000000, 1);
    check.array("A", A, {Z, 16, 12}, {192, 12, 1}, 16, "[Z, 16, 12]");
    check.array("B", B, {Z, 12, 16}, {192, 16, 1}, 16, "[Z, 12, 16]");
    check.array("bias", bias, {16}, {1}, 16);
    check.array("C", C, {Z, 16, 16}, {256, 16, 1}, 16, "[Z, 16, 16]");
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    check.disjoint("bias", bias, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(matmul_small_launch(A.data, B.data, bias.data, C.data, static_cast<int>(Z), stream),
        cudaGetErrorString);
}
