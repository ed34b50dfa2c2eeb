// suffix_sums_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from suffix_sums.yaml (hash 530f808454868eaf) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "suffix_sums.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> suffix_sums_launch(cugen::Span<const __half, 2> x, cugen::Span<float, 2> y,
    cudaStream_t stream)
{
    const long long M = x.extents[0];
    const long long N = x.extents[1];
    cugen::Checks check;
    check.equal("M", M, "dimension 0 of `x`", y.extents[0], "dimension 0 of `y`");
    check.param("M", M, 0, 2147483647, 1);
    check.equal("N", N, "dimension 1 of `x`", y.extents[1], "dimension 1 of `y`");
    check.param("N", N, 0, 1048576, 8);
    check.array("x", x, {M, N}, {N, 1}, 8, "[M, N]");
    check.array("y", y, {M, N}, {N, 1}, 16, "[M, N]");
    check.disjoint("x", x, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(suffix_sums_launch(x.data, y.data, static_cast<int>(M), static_cast<int>(N), stream),
        cudaGetErrorString);
}
