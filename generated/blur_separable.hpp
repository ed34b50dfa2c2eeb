// blur_separable_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from blur_separable.yaml (hash c1bedccbd0e827f5) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "blur_separable.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> blur_separable_launch(cugen::Span<const float, 2> image, cugen::Span<float, 2> blurred,
    void* workspace, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("image", image, {150, 201}, {201, 1}, 4);
    check.array("blurred", blurred, {150, 201}, {201, 1}, 4);
    check.disjoint("image", image, "blurred", blurred);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(blur_separable_launch(image.data, blurred.data, workspace, stream), cudaGetErrorString);
}
