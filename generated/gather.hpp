// gather_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from gather.yaml (hash b57a38e1bde92913) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "gather.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> gather_launch(cugen::Span<const float, 2> table, cugen::Span<const int, 1> ids,
    cugen::Span<float, 2> rows, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("table", table, {1000, 64}, {64, 1}, 16);
    check.array("ids", ids, {300}, {1}, 4);
    check.array("rows", rows, {300, 64}, {64, 1}, 16);
    check.disjoint("table", table, "rows", rows);
    check.disjoint("ids", ids, "rows", rows);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(gather_launch(table.data, ids.data, rows.data, stream), cudaGetErrorString);
}
