// transpose_f64_kepler_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from transpose_f64_kepler.yaml (hash dfe9107471ce439e) for sm_35. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "transpose_f64_kepler.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> transpose_f64_kepler_launch(cugen::Span<const double, 2> A, cugen::Span<double, 2> B,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {300, 200}, {200, 1}, 8);
    check.array("B", B, {200, 300}, {300, 1}, 8);
    check.disjoint("A", A, "B", B);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(transpose_f64_kepler_launch(A.data, B.data, stream), cudaGetErrorString);
}
