// pitched_copy_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from pitched_copy.yaml (hash 78a62b81a68a0149) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "pitched_copy.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> pitched_copy_launch(cugen::Span<const float, 2> dense, cugen::Span<float, 2> pitched,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("dense", dense, {200, 250}, {250, 1}, 8);
    check.array("pitched", pitched, {200, 250}, {256, 1}, 8);
    check.disjoint("dense", dense, "pitched", pitched);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(pitched_copy_launch(dense.data, pitched.data, stream), cudaGetErrorString);
}
