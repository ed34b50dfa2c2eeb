// outer_product_launch for C++17: takes spans, such as `{pointer, extent, …}`, and checks them
//
// Made by cugen 0.1.0 from outer_product.yaml (hash 0c40cd82ad777aad) for sm_90. Edit the spec, not this file.
#pragma once

#include "cugen_launch.hpp"
#include "outer_product.h"

// An invalid call launches nothing and returns an Error that converts to true, with the reason in `message`.
inline cugen::Error<cudaError_t> outer_product_launch(cugen::Span<const float, 1> a, cugen::Span<const float, 1> b,
    cugen::Span<float, 2> C, cudaStream_t stream)
{
    cugen::Checks check;
    check.array("a", a, {500}, {1}, 4);
    check.array("b", b, {384}, {1}, 16);
    check.array("C", C, {500, 384}, {384, 1}, 16);
    check.disjoint("a", a, "C", C);
    check.disjoint("b", b, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(outer_product_launch(a.data, b.data, C.data, stream), cudaGetErrorString);
}
