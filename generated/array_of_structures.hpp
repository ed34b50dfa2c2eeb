// array_of_structures_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from array_of_structures.yaml (hash 1b27b639b658c7ab) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "array_of_structures.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> array_of_structures_launch(cugen::Span<const float, 2> point,
    cugen::Span<float, 1> length, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("point", point, {60000, 3}, {3, 1}, 16);
    check.array("length", length, {60000}, {1}, 16);
    check.disjoint("point", point, "length", length);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(array_of_structures_launch(point.data, length.data, stream), cudaGetErrorString);
}
