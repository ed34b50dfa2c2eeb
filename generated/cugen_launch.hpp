// cugen_launch.hpp: spans, and checks of arguments, for the launchers of this folder
//
// A translation unit uses the first copy that it includes, also for kernels of other folders and versions. The inline
// namespace of the version keeps the copies of different translation units apart in a program.
//
// Made by cugen 0.1.0. Every call of `cugen generate` for the folder writes the same file.
#ifndef CUGEN_LAUNCH_HPP
#define CUGEN_LAUNCH_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <utility>

#ifndef CUGEN_SIZES
#define CUGEN_SIZES

// Floor division; 0 for b = 0.
static inline long long cugen_floor_quotient(long long a, long long b)
{
    return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
}

// Remainder of the floor division; 0 for b = 0.
static inline long long cugen_floor_remainder(long long a, long long b)
{
    return b == 0 ? 0 : a - b * cugen_floor_quotient(a, b);
}

static inline long long cugen_min(long long a, long long b)
{
    return a < b ? a : b;
}

static inline long long cugen_max(long long a, long long b)
{
    return a > b ? a : b;
}

#endif

namespace cugen {
inline namespace v0_1_0 {

// Array in device memory; extents and strides in elements.
template <typename T, std::size_t rank>
struct Span {
    T* data;
    std::array<long long, rank> extents;
    std::array<long long, rank> strides;

    // Dense row-major: `{A, 1000, 513}`.
    template <typename... Extents>
    Span(T* first, Extents... sizes) : data(first), extents{static_cast<long long>(sizes)...}, strides{}
    {
        static_assert(sizeof...(sizes) == rank, "a span takes one extent for each dimension");
        long long stride = 1;
        for (std::size_t dimension = rank; dimension-- > 0; stride *= extents[dimension])
            strides[dimension] = stride;
    }

    // Conversion to a span of const elements.
    template <typename U>
    Span(const Span<U, rank>& other) : data(other.data), extents(other.extents), strides(other.strides)
    {
    }

    // Explicit strides: `cugen::Span<float, 2>(A, 1000, 513).with_strides(520, 1)`.
    template <typename... Strides>
    Span with_strides(Strides... sizes) const
    {
        static_assert(sizeof...(sizes) == rank, "a span takes one stride for each dimension");
        Span strided = *this;
        strided.strides = {static_cast<long long>(sizes)...};
        return strided;
    }
};

// Result of a launch; converts to true on failure. See `cugen explain <code>`; `code` is empty for an error of CUDA.
template <typename Status>
struct [[nodiscard]] Error {
    Status status;
    std::string code;
    std::string message;

    explicit operator bool() const { return status != Status(); }
};

// Outcome of a launch; `describe` is that of CUDA's runtime.
template <typename Status>
Error<Status> outcome(Status status, const char* (*describe)(Status))
{
    return {status, "", status == Status() ? "" : describe(status)};
}

// Outcome of a launch; `describe` is that of CUDA's driver, and gives a null pointer for an unknown status.
template <typename Status>
Error<Status> outcome(Status status, Status (*describe)(Status, const char**))
{
    const char* text = nullptr;
    if (status != Status())
        describe(status, &text);
    return {status, "", text == nullptr ? "" : text};
}

// Argument checks of one call. The first failure is kept.
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
                std::string("`") + name + "` is " + std::to_string(value) + "; the kernel was made for multiples of "
                + std::to_string(multiple));
    }

    void equal(
        const char* name, long long value, const char* source, long long other_value, const char* other_source)
    {
        if (other_value != value)
            refuse("CG5009",
                std::string("`") + name + "` is " + std::to_string(value) + " in " + source + " and "
                + std::to_string(other_value) + " in " + other_source);
    }

    void requirement(
        bool holds, const char* condition, std::initializer_list<std::pair<const char*, long long>> values)
    {
        if (holds)
            return;
        std::string text;
        for (const auto& value : values)
            text += (text.empty() ? "" : ", ") + std::string(value.first) + " = " + std::to_string(value.second);
        refuse("CG5009", std::string("`") + condition + "` doesn't hold for " + text);
    }

    // `symbols` is the shape in the spec, where it depends on params.
    template <typename T, std::size_t rank>
    void array(
        const char* name,
        const Span<T, rank>& span,
        const std::array<long long, rank>& shape,
        const std::array<long long, rank>& strides,
        std::uintptr_t alignment,
        const char* symbols = "")
    {
        if (span.extents != shape) {
            std::string expected = list(shape);
            if (*symbols != '\0' && symbols != expected)
                expected = std::string(symbols) + " = " + expected;
            const std::string actual = list(span.extents);
            refuse("CG5002",
                std::string("`") + name + "` has shape " + actual + "; the kernel was made for " + expected);
        }
        if (empty(span))
            return;
        bool differ = false;
        std::size_t dimension = 0;
        for (const long long stride : strides) {
            differ = differ || (shape[dimension] > 1 && span.strides[dimension] != stride);
            ++dimension;
        }
        if (differ) {
            const std::string actual = list(span.strides, sizeof(T));
            const std::string expected = list(strides, sizeof(T));
            refuse("CG5006",
                std::string("`") + name + "` has strides of " + actual + " bytes; the kernel was made for " + expected);
        }
        const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(span.data);
        if (address == 0)
            refuse("CG5008", std::string("`") + name + "` is a null pointer");
        else if ((address & (alignment - 1)) != 0)
            refuse("CG5007",
                std::string("`") + name + "` is at address " + hexadecimal(address) + "; the kernel needs "
                + std::to_string(alignment) + "-byte alignment");
    }

    // Two arrays of which the kernel writes one.
    template <typename T, std::size_t rank, typename U, std::size_t other_rank>
    void disjoint(
        const char* name, const Span<T, rank>& span, const char* other_name, const Span<U, other_rank>& other_span)
    {
        const std::uintptr_t start = reinterpret_cast<std::uintptr_t>(span.data);
        const std::uintptr_t other_start = reinterpret_cast<std::uintptr_t>(other_span.data);
        if (!empty(span) && !empty(other_span) && start < other_start + bytes(other_span)
            && other_start < start + bytes(span))
            refuse("CG5014",
                std::string("`") + name + "` and `" + other_name + "` overlap, and one of them is written");
    }

  private:
    void refuse(const char* error_code, const std::string& reason)
    {
        if (failed())
            return;
        code = error_code;
        message = reason;
    }

    template <typename T, std::size_t rank>
    static bool empty(const Span<T, rank>& span)
    {
        bool is_empty = false;
        for (const long long extent : span.extents)
            is_empty = is_empty || extent == 0;
        return is_empty;
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

}  // namespace v0_1_0
}  // namespace cugen

#endif

// Input 8b53037725de57aa, text 14835408490e7dde.
