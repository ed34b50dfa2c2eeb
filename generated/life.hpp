// life_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from life.yaml (hash 28da8769c6753fe2) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "life.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> life_launch(cugen::Span<const unsigned char, 2> before,
    cugen::Span<unsigned char, 2> after, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("before", before, {61, 100}, {100, 1}, 4);
    check.array("after", after, {61, 100}, {100, 1}, 4);
    check.disjoint("before", before, "after", after);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(life_launch(before.data, after.data, stream), cudaGetErrorString);
}
