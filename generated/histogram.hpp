// histogram_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from histogram.yaml (hash d9668b392c51185a) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "histogram.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> histogram_launch(cugen::Span<const float, 1> x, cugen::Span<int, 1> count,
    void* workspace, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {1000003}, {1}, 16);
    check.array("count", count, {200}, {1}, 16);
    check.disjoint("x", x, "count", count);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(histogram_launch(x.data, count.data, workspace, stream), cudaGetErrorString);
}
