// blur_shared_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from blur_shared.yaml (hash 1bf89d0e4b55b95f) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "blur_shared.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> blur_shared_launch(cugen::Span<const float, 2> image, cugen::Span<float, 2> blurred,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("image", image, {150, 201}, {201, 1}, 4);
    check.array("blurred", blurred, {150, 201}, {201, 1}, 4);
    check.disjoint("image", image, "blurred", blurred);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(blur_shared_launch(image.data, blurred.data, stream), cudaGetErrorString);
}
