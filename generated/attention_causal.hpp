// attention_causal_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from attention_causal.yaml (hash 77c3ab256dbd225d) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "attention_causal.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> attention_causal_launch(cugen::Span<const float, 4> q, cugen::Span<const float, 4> k,
    cugen::Span<const float, 4> v, cugen::Span<float, 4> o, void* workspace, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("q", q, {2, 3, 45, 24}, {3240, 1080, 24, 1}, 4);
    check.array("k", k, {2, 3, 45, 24}, {3240, 1080, 24, 1}, 4);
    check.array("v", v, {2, 3, 45, 24}, {3240, 1080, 24, 1}, 4);
    check.array("o", o, {2, 3, 45, 24}, {3240, 1080, 24, 1}, 4);
    check.disjoint("q", q, "o", o);
    check.disjoint("k", k, "o", o);
    check.disjoint("v", v, "o", o);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(attention_causal_launch(q.data, k.data, v.data, o.data, workspace, stream),
        cudaGetErrorString);
}
