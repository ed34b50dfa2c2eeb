// tensor_ladder_6_wgmma_wide_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from product_ladder_bf16.yaml (hash f49c2df1f705214d) for sm_90a. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "tensor_ladder_6_wgmma_wide.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> tensor_ladder_6_wgmma_wide_launch(cugen::Span<const __nv_bfloat16, 2> A,
    cugen::Span<const __nv_bfloat16, 2> B, cugen::Span<__nv_bfloat16, 2> C, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {128, 96}, {96, 1}, 16);
    check.array("B", B, {96, 256}, {256, 1}, 16);
    check.array("C", C, {128, 256}, {256, 1}, 16);
    check.disjoint("A", A, "C", C);
    check.disjoint("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(tensor_ladder_6_wgmma_wide_launch(A.data, B.data, C.data, stream), cudaGetErrorString);
}
