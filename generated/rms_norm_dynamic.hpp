// rms_norm_dynamic_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from rms_norm_dynamic.yaml (hash ddbd1abf96899ff0) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "rms_norm_dynamic.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> rms_norm_dynamic_launch(cugen::Span<const float, 2> x,
    cugen::Span<const float, 1> weight, cugen::Span<float, 2> y, float eps, cudaStream_t stream)
{
    const long long M = x.extents[0];
    const long long N = x.extents[1];
    cugen::Checks check;
    check.equal("M", M, "dimension 0 of `x`", y.extents[0], "dimension 0 of `y`");
    check.param("M", M, 0, 2147483647, 1);
    check.equal("N", N, "dimension 1 of `x`", weight.extents[0], "dimension 0 of `weight`");
    check.equal("N", N, "dimension 1 of `x`", y.extents[1], "dimension 1 of `y`");
    check.param("N", N, 64, 8192, 64);
    check.array("x", x, {M, N}, {N, 1}, 16, "[M, N]");
    check.array("weight", weight, {N}, {1}, 16, "[N]");
    check.array("y", y, {M, N}, {N, 1}, 16, "[M, N]");
    check.disjoint("x", x, "y", y);
    check.disjoint("weight", weight, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(rms_norm_dynamic_launch(x.data, weight.data, y.data, eps, static_cast<int>(M),
        static_cast<int>(N), stream), cudaGetErrorString);
}
