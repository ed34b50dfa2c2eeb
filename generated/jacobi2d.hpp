// jacobi2d_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from jacobi2d.yaml (hash d670d56827bffe08) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "jacobi2d.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> jacobi2d_launch(cugen::Span<const float, 2> u, cugen::Span<float, 2> next,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("u", u, {130, 170}, {170, 1}, 8);
    check.array("next", next, {130, 170}, {170, 1}, 8);
    check.disjoint("u", u, "next", next);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(jacobi2d_launch(u.data, next.data, stream), cudaGetErrorString);
}
