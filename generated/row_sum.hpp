// row_sum_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from row_sum.yaml (hash c40e7c72b7405143) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "row_sum.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> row_sum_launch(cugen::Span<const float, 2> x, cugen::Span<float, 1> y,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {300, 513}, {513, 1}, 16);
    check.array("y", y, {300}, {1}, 4);
    check.disjoint("x", x, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(row_sum_launch(x.data, y.data, stream), cudaGetErrorString);
}
