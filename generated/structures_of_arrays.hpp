// structures_of_arrays_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from structures_of_arrays.yaml (hash f83a26f9968c244f) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "structures_of_arrays.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> structures_of_arrays_launch(cugen::Span<const float, 1> x,
    cugen::Span<const float, 1> y, cugen::Span<const float, 1> z, cugen::Span<float, 1> length, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {60000}, {1}, 16);
    check.array("y", y, {60000}, {1}, 16);
    check.array("z", z, {60000}, {1}, 16);
    check.array("length", length, {60000}, {1}, 16);
    check.disjoint("x", x, "length", length);
    check.disjoint("y", y, "length", length);
    check.disjoint("z", z, "length", length);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(structures_of_arrays_launch(x.data, y.data, z.data, length.data, stream), cudaGetErrorString);
}
