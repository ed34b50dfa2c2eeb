// ladder_9_shared_out_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from product_ladder.yaml (hash 83906a9532927016) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "ladder_9_shared_out.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> ladder_9_shared_out_launch(cugen::Span<const float, 2> A,
    cugen::Span<const float, 2> B, cugen::Span<float, 2> C, void* workspace, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {256, 256}, {256, 1}, 4);
    check.array("B", B, {256, 256}, {256, 1}, 16);
    check.array("C", C, {256, 256}, {256, 1}, 16);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(ladder_9_shared_out_launch(A.data, B.data, C.data, workspace, stream), cudaGetErrorString);
}
