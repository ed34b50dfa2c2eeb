// group_means_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from group_means.yaml (hash 533bb1ed07e94cf3) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "group_means.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> group_means_launch(cugen::Span<const unsigned char, 1> key,
    cugen::Span<const float, 1> x, cugen::Span<float, 1> mean, void* workspace, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("key", key, {200003}, {1}, 1);
    check.array("x", x, {200003}, {1}, 4);
    check.array("mean", mean, {40}, {1}, 4);
    check.disjoint("key", key, "mean", mean);
    check.disjoint("x", x, "mean", mean);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(group_means_launch(key.data, x.data, mean.data, workspace, stream), cudaGetErrorString);
}
