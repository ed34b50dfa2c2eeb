// conv_reflect_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from conv_reflect.yaml (hash 19eaf03a6eb3ea6c) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "conv_reflect.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> conv_reflect_launch(cugen::Span<const float, 4> x, cugen::Span<const float, 4> w,
    cugen::Span<float, 4> y, void* workspace, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {1, 17, 16, 32}, {8704, 512, 32, 1}, 4);
    check.array("w", w, {3, 3, 32, 32}, {3072, 1024, 32, 1}, 16);
    check.array("y", y, {1, 17, 16, 32}, {8704, 512, 32, 1}, 16);
    check.disjoint("x", x, "y", y);
    check.disjoint("w", w, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(conv_reflect_launch(x.data, w.data, y.data, workspace, stream), cudaGetErrorString);
}
