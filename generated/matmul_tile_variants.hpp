// matmul_tile_variants_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from matmul_tile_variants.yaml for sm_90. Edit the spec, not this file.
#pragma once

#include "matmul_tile_variants__8.hpp"
#include "matmul_tile_variants__16.hpp"
#include "matmul_tile_variants__32.hpp"
#include "matmul_tile_variants.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> matmul_tile_variants_launch(cugen::Span<const float, 2> A,
    cugen::Span<const float, 2> B, cugen::Span<float, 2> C, cudaStream_t stream)
{
    int variant = 0;
    std::string reason;
    const cudaError_t status = matmul_tile_variants_variant(&variant, &reason);
    if (status == cudaErrorInvalidValue)
        return {status, "CG5009", reason};
    if (status == cudaErrorInvalidConfiguration)
        return {status, "CG5010", reason};
    if (status != cudaSuccess)
        return cugen::outcome(status, cudaGetErrorString);
    switch (variant) {
    case 0:
        return ::matmul_tile_variants__32_launch(A, B, C, stream);
    case 1:
        return ::matmul_tile_variants__16_launch(A, B, C, stream);
    default:
        return ::matmul_tile_variants__8_launch(A, B, C, stream);
    }
}

// Input e6819843f3aafc94, text e17ee724e1426f3c.
