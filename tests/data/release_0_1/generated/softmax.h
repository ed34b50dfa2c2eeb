// softmax: The softmax of each row, safe for scores whose exp overflows
//
// computes  y[i, j] = softmax(x[i, j], j)
// params    M = 100, N = 257
// x         input, float32 [100, 257]
// y         output, float32 [100, 257]
// launch    grid (25, 1, 1), block (32, 4, 1); family rowwise
//
// Made by cugen 0.1.0 from softmax.yaml (hash 14abdfa67b01bcfc) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Launches on `stream` and returns without waiting. All pointers are to device memory.
cudaError_t softmax_launch(
    const float* x,
    float* y,
    cudaStream_t stream);

#ifdef __cplusplus
}

#include <cstddef>

namespace cugen {

template <typename T, std::size_t rank>
struct Span;
template <typename Status>
struct Error;

}  // namespace cugen

// The same for C++17, with arrays that know their extents: `{pointer, extent, …}` where a Span is asked for. A call that
// can't be made launches nothing, and the error, which is true then, has a `message` that says why.
inline cugen::Error<cudaError_t> softmax_launch(
    cugen::Span<const float, 2> x,
    cugen::Span<float, 2> y,
    cudaStream_t stream);

#ifndef CUGEN_CHECKS
#define CUGEN_CHECKS

// What the launchers of all kernels share: every header has it, and a program takes it once.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <utility>

namespace cugen {

// An array in device memory; extents and strides count elements.
template <typename T, std::size_t rank>
struct Span {
    T* data;
    std::array<long long, rank> extents;
    std::array<long long, rank> strides;

    // Row-major without gaps: `{A, 1000, 513}`.
    template <typename... Extents>
    Span(T* first, Extents... sizes) : data(first), extents{static_cast<long long>(sizes)...}, strides{}
    {
        static_assert(sizeof...(sizes) == rank, "a span takes one extent for each dimension");
        long long stride = 1;
        for (std::size_t dimension = rank; dimension-- > 0; stride *= extents[dimension])
            strides[dimension] = stride;
    }

    // What may be written may be read.
    template <typename U>
    Span(const Span<U, rank>& other) : data(other.data), extents(other.extents), strides(other.strides)
    {
    }

    // In another order or with gaps: `cugen::Span<float, 2>(A, 1000, 513).with_strides(520, 1)`.
    template <typename... Strides>
    Span with_strides(Strides... sizes) const
    {
        static_assert(sizeof...(sizes) == rank, "a span takes one stride for each dimension");
        Span changed = *this;
        changed.strides = {static_cast<long long>(sizes)...};
        return changed;
    }
};

// What came of a launch; true where it failed. `cugen explain` says more of the code, which is empty where CUDA refused.
template <typename Status>
struct [[nodiscard]] Error {
    Status status;
    std::string code;
    std::string message;

    explicit operator bool() const { return status != Status(); }
};

// The checks of one call in their order. The first that fails is kept.
class Checks {
  public:
    std::string code;
    std::string message;

    bool failed() const { return !code.empty(); }

    template <typename Status>
    Error<Status> error(Status status) const
    {
        return {status, code, message};
    }

    void param(const char* name, long long value, long long low, long long high, long long multiple)
    {
        if (value < low || value > high)
            refuse("CG5009",
                std::string("`") + name + "` is " + std::to_string(value) + "; the kernel was made for "
                + std::to_string(low) + " .. " + std::to_string(high));
        else if (multiple > 1 && value % multiple != 0)
            refuse("CG5009",
                std::string("`") + name + "` is " + std::to_string(value)
                + "; the kernel was made for multiples of " + std::to_string(multiple));
    }

    void same(const char* name, long long value, const char* place, long long other, const char* other_place)
    {
        if (other != value)
            refuse("CG5009",
                std::string("`") + name + "` is " + std::to_string(value) + " in " + place + " and "
                + std::to_string(other) + " in " + other_place);
    }

    void requirement(
        bool holds, const char* condition, std::initializer_list<std::pair<const char*, long long>> values)
    {
        if (holds)
            return;
        std::string text;
        for (const auto& value : values)
            text += (text.empty() ? "" : ", ") + std::string(value.first) + " = "
                + std::to_string(value.second);
        refuse("CG5009", std::string("`") + condition + "` doesn't hold for " + text);
    }

    // `symbols` is the shape as the spec has it, where it depends on params.
    template <typename T, std::size_t rank>
    void array(
        const char* name,
        const Span<T, rank>& given,
        const std::array<long long, rank>& shape,
        const std::array<long long, rank>& strides,
        std::uintptr_t alignment,
        const char* symbols = "")
    {
        if (given.extents != shape) {
            std::string wanted = list(shape);
            if (*symbols != '\0' && symbols != wanted)
                wanted = std::string(symbols) + " = " + wanted;
            const std::string found = list(given.extents);
            refuse("CG5002",
                std::string("`") + name + "` has shape " + found + "; the kernel was made for " + wanted);
        }
        if (empty(given))
            return;
        bool differ = false;
        std::size_t dimension = 0;
        for (const long long stride : strides) {
            differ = differ || (shape[dimension] > 1 && given.strides[dimension] != stride);
            ++dimension;
        }
        if (differ) {
            const std::string found = list(given.strides, sizeof(T));
            const std::string wanted = list(strides, sizeof(T));
            refuse("CG5006",
                std::string("`") + name + "` has strides of " + found + " bytes; the kernel was made for "
                + wanted);
        }
        const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(given.data);
        if (address == 0)
            refuse("CG5008", std::string("`") + name + "` is a null pointer");
        else if ((address & (alignment - 1)) != 0)
            refuse("CG5007",
                std::string("`") + name + "` begins at address " + hexadecimal(address)
                + "; the kernel needs a multiple of " + std::to_string(alignment) + " bytes");
    }

    // Of two arrays of which one is written.
    template <typename T, std::size_t rank, typename U, std::size_t other_rank>
    void apart(
        const char* name, const Span<T, rank>& one, const char* other_name, const Span<U, other_rank>& other)
    {
        const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(one.data);
        const std::uintptr_t second = reinterpret_cast<std::uintptr_t>(other.data);
        if (!empty(one) && !empty(other) && first < second + bytes(other) && second < first + bytes(one))
            refuse("CG5014",
                std::string("`") + name + "` and `" + other_name
                + "` share memory, and one of them is written");
    }

  private:
    void refuse(const char* with_code, const std::string& why)
    {
        if (failed())
            return;
        code = with_code;
        message = why;
    }

    template <typename T, std::size_t rank>
    static bool empty(const Span<T, rank>& span)
    {
        bool found = false;
        for (const long long extent : span.extents)
            found = found || extent == 0;
        return found;
    }

    template <typename T, std::size_t rank>
    static std::uintptr_t bytes(const Span<T, rank>& span)
    {
        std::uintptr_t elements = 1;
        std::size_t dimension = 0;
        for (const long long stride : span.strides)
            elements += static_cast<std::uintptr_t>((span.extents[dimension++] - 1) * stride);
        return elements * sizeof(T);
    }

    template <std::size_t rank>
    static std::string list(const std::array<long long, rank>& numbers, std::size_t scale = 1)
    {
        std::string text;
        for (const long long number : numbers)
            text += (text.empty() ? "" : ", ") + std::to_string(number * static_cast<long long>(scale));
        return "[" + text + "]";
    }

    static std::string hexadecimal(std::uintptr_t address)
    {
        char text[24];
        std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
        return text;
    }
};

}  // namespace cugen

#endif

#ifndef CUGEN_RUNTIME
#define CUGEN_RUNTIME

namespace cugen {

inline Error<cudaError_t> outcome(cudaError_t status)
{
    return {status, "", status == cudaSuccess ? "" : cudaGetErrorString(status)};
}

}  // namespace cugen

#endif

inline cugen::Error<cudaError_t> softmax_launch(
    cugen::Span<const float, 2> x,
    cugen::Span<float, 2> y,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("x", x, {100, 257}, {257, 1}, 4);
    check.array("y", y, {100, 257}, {257, 1}, 4);
    check.apart("x", x, "y", y);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(softmax_launch(x.data, y.data, stream));
}

#endif
