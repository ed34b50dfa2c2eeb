// table_gradient_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from table_gradient.yaml (hash 9e338c53309f8b83) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "table_gradient.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> table_gradient_launch(cugen::Span<const int, 1> id,
    cugen::Span<const __nv_bfloat16, 2> g, cugen::Span<float, 2> d, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("id", id, {4001}, {1}, 4);
    check.array("g", g, {4001, 128}, {128, 1}, 8);
    check.array("d", d, {2000, 128}, {128, 1}, 16);
    check.disjoint("id", id, "d", d);
    check.disjoint("g", g, "d", d);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(table_gradient_launch(id.data, g.data, d.data, stream), cudaGetErrorString);
}
