// blur_fused_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from blur_fused.yaml (hash 1e9471f4f9028c74) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "blur_fused.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> blur_fused_launch(cugen::Span<const float, 2> image, cugen::Span<float, 2> blurred,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("image", image, {150, 204}, {204, 1}, 16);
    check.array("blurred", blurred, {150, 204}, {204, 1}, 16);
    check.disjoint("image", image, "blurred", blurred);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(blur_fused_launch(image.data, blurred.data, stream), cudaGetErrorString);
}
