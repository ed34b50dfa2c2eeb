// gemm_split: C = A·B where outputs are few and sums long; several blocks share every sum, and the last one adds their parts in order
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 40, K = 128, N = 64
// A         input, float32 [40, 128]
// B         input, float32 [128, 64], aligned to 16 bytes
// C         output, float32 [40, 64], aligned to 16 bytes
// launch    grid (8, 1, 1), block (128, 1, 1), 12804 bytes of shared memory; family gemm
//
// Made by cugen 0.1.0 from gemm_split.yaml (hash 0129a28a0fd7c447) for sm_90. Edit the spec, not this file.
#pragma once

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// Bytes that `workspace` must hold.
size_t gemm_split_workspace_bytes(void);

// Launches on `stream` and returns without waiting. All pointers are to device memory.
// B must be aligned to 16 bytes.
// C must be aligned to 16 bytes.
// `workspace` may be null: the launch then allocates and frees its own, in the stream's order.
cudaError_t gemm_split_launch(
    const float* A,
    const float* B,
    float* C,
    void* workspace,
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
inline cugen::Error<cudaError_t> gemm_split_launch(
    cugen::Span<const float, 2> A,
    cugen::Span<const float, 2> B,
    cugen::Span<float, 2> C,
    void* workspace,
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

inline cugen::Error<cudaError_t> gemm_split_launch(
    cugen::Span<const float, 2> A,
    cugen::Span<const float, 2> B,
    cugen::Span<float, 2> C,
    void* workspace,
    cudaStream_t stream)
{
    cugen::Checks check;
    check.array("A", A, {40, 128}, {128, 1}, 4);
    check.array("B", B, {128, 64}, {64, 1}, 16);
    check.array("C", C, {40, 64}, {64, 1}, 16);
    check.apart("A", A, "C", C);
    check.apart("B", B, "C", C);
    if (check.failed())
        return check.error(cudaErrorInvalidValue);
    return cugen::outcome(gemm_split_launch(A.data, B.data, C.data, workspace, stream));
}

#endif
