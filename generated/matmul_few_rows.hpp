// matmul_few_rows_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from matmul_few_rows.yaml (hash 7f85a821d01a09c0) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "matmul_few_rows.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> matmul_few_rows_launch(cugen::Span<const __half, 2> x, cugen::Span<const __half, 2> w,
    cugen::Span<const __half, 1> bias, cugen::Span<__half, 2> y, void* workspace, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {4, 1024}, {1024, 1}, 16);
    check.array("w", w, {300, 1024}, {1024, 1}, 16);
    check.array("bias", bias, {300}, {1}, 2);
    check.array("y", y, {4, 300}, {300, 1}, 8);
    check.disjoint("x", x, "y", y);
    check.disjoint("w", w, "y", y);
    check.disjoint("bias", bias, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(matmul_few_rows_launch(x.data, w.data, bias.data, y.data, workspace, stream),
        cudaGetErrorString);
}
