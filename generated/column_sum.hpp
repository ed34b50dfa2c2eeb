// column_sum_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from column_sum.yaml (hash c35375f5e4ee601d) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "column_sum.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> column_sum_launch(cugen::Span<const float, 2> x, cugen::Span<float, 1> y,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {513, 300}, {300, 1}, 16);
    check.array("y", y, {300}, {1}, 16);
    check.disjoint("x", x, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(column_sum_launch(x.data, y.data, stream), cudaGetErrorString);
}
