// transpose_f16_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from transpose_f16.yaml (hash ed38cea96f7b9d5e) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "transpose_f16.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> transpose_f16_launch(cugen::Span<const __half, 2> A, cugen::Span<const float, 1> scale,
    cugen::Span<__half, 2> B, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {320, 264}, {264, 1}, 16);
    check.array("scale", scale, {320}, {1}, 16);
    check.array("B", B, {264, 320}, {320, 1}, 16);
    check.disjoint("A", A, "B", B);
    check.disjoint("scale", scale, "B", B);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(transpose_f16_launch(A.data, scale.data, B.data, stream), cudaGetErrorString);
}
