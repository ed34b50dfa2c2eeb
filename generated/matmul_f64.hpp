// matmul_f64_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from matmul_f64.yaml (hash 31c1480e3643ba22) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "matmul_f64.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> matmul_f64_launch(cugen::Span<const double, 2> A, cugen::Span<const double, 2> B,
    cugen::Span<double, 2> C, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {64, 100}, {100, 1}, 8);
    check.array("B", B, {100, 72}, {72, 1}, 8);
    check.array("C", C, {64, 72}, {72, 1}, 8);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(matmul_f64_launch(A.data, B.data, C.data, stream), cudaGetErrorString);
}
