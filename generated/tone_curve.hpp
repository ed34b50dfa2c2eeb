// tone_curve_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from tone_curve.yaml (hash 80bccdab91be4374) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "tone_curve.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> tone_curve_launch(cugen::Span<const unsigned char, 2> photo,
    cugen::Span<const float, 1> curve, cugen::Span<float, 2> toned, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("photo", photo, {270, 481}, {481, 1}, 1);
    check.array("curve", curve, {256}, {1}, 512);
    check.array("toned", toned, {270, 481}, {481, 1}, 4);
    check.disjoint("photo", photo, "toned", toned);
    check.disjoint("curve", curve, "toned", toned);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(tone_curve_launch(photo.data, curve.data, toned.data, stream), cudaGetErrorString);
}
