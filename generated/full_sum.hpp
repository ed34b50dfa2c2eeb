// full_sum_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from full_sum.yaml (hash 64b8169916d00d7e) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "full_sum.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> full_sum_launch(cugen::Span<const float, 1> x, cugen::Span<float, 0> total,
    void* workspace, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {100003}, {1}, 16);
    check.array("total", total, {}, {}, 4);
    check.disjoint("x", x, "total", total);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(full_sum_launch(x.data, total.data, workspace, stream), cudaGetErrorString);
}
