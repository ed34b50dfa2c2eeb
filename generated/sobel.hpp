// sobel_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from sobel.yaml (hash c8d75bd4541c3531) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "sobel.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> sobel_launch(cugen::Span<const float, 2> image, cugen::Span<float, 2> magnitude,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("image", image, {150, 201}, {201, 1}, 4);
    check.array("magnitude", magnitude, {150, 201}, {201, 1}, 4);
    check.disjoint("image", image, "magnitude", magnitude);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(sobel_launch(image.data, magnitude.data, stream), cudaGetErrorString);
}
