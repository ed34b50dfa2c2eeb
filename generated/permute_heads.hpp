// permute_heads_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from permute_heads.yaml (hash 4afff64791754510) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "permute_heads.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> permute_heads_launch(cugen::Span<const __half, 4> K, cugen::Span<__half, 4> Kt,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("K", K, {2, 200, 3, 40}, {24000, 120, 40, 1}, 16);
    check.array("Kt", Kt, {2, 3, 40, 200}, {24000, 8000, 200, 1}, 16);
    check.disjoint("K", K, "Kt", Kt);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(permute_heads_launch(K.data, Kt.data, stream), cudaGetErrorString);
}
