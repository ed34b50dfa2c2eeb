// saxpy: y = a·x + y
//
// A whole program round saxpy_launch: allocates, copies in, launches, copies out, checks, and prints bandwidths.
//
// y[i] += a * x[i]
//
//     nvcc -std=c++17 -arch=sm_90 saxpy_main.cpp saxpy.cu -o saxpy
//
// Made by cugen 0.1.0 from saxpy.yaml (hash ff79090ca7129df4) for sm_90. Edit the spec, not this file.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "saxpy.hpp"

// Ends the program where a call of CUDA fails.
#define CHECK(call)                                                                \
    do {                                                                           \
        const cudaError_t status = (call);                                         \
        if (status != cudaSuccess) {                                               \
            std::fprintf(stderr, "%s:%d: %s\n  %s\n", __FILE__, __LINE__, #call,   \
                         cudaGetErrorString(status));                              \
            std::exit(2);                                                          \
        }                                                                          \
    } while (false)

constexpr long long N = 100000;
constexpr float a = 0.75f;
constexpr long long x_elements = N;
constexpr long long y_elements = N;
constexpr double bytes_in = x_elements * sizeof(float) + y_elements * sizeof(float);
constexpr double bytes_out = y_elements * sizeof(float);
// Of device memory, each element read or written once.
constexpr double kernel_bytes = x_elements * sizeof(float) + 2 * y_elements * sizeof(float);
constexpr int runs = 20;  // timed launches
constexpr double link_peak = 63.0;  // GB/s in one direction: PCIe 5.0 x16, the link of an H200 to its host

// The arrays in one kind of memory.
struct Arrays {
    float* x;
    float* y;
};

// Pageable memory of the host, from which the driver copies by way of a buffer of its own.
Arrays allocate_pageable()
{
    Arrays pageable;
    pageable.x = new float[x_elements];
    pageable.y = new float[y_elements];
    return pageable;
}

// Pinned memory of the host, which the device's copy engines read and write by themselves.
Arrays allocate_pinned()
{
    Arrays pinned;
    CHECK(cudaMallocHost(&pinned.x, x_elements * sizeof(float)));
    CHECK(cudaMallocHost(&pinned.y, y_elements * sizeof(float)));
    return pinned;
}

Arrays allocate_device()
{
    Arrays device;
    CHECK(cudaMalloc(&device.x, x_elements * sizeof(float)));
    CHECK(cudaMalloc(&device.y, y_elements * sizeof(float)));
    return device;
}

void free_arrays(const Arrays& pageable, const Arrays& pinned, const Arrays& device)
{
    delete[] pageable.x;
    CHECK(cudaFreeHost(pinned.x));
    CHECK(cudaFree(device.x));
    delete[] pageable.y;
    CHECK(cudaFreeHost(pinned.y));
    CHECK(cudaFree(device.y));
}

// Random numbers from `low` to `high`, the same in each run.
template <typename T>
void draw_reals(T* array, long long elements, float low, float high)
{
    static std::mt19937 generator(1);
    std::uniform_real_distribution<float> number(low, high);
    std::generate(array, array + elements, [&] { return static_cast<T>(number(generator)); });
}

void draw(const Arrays& host)
{
    draw_reals(host.x, x_elements, -1, 1);
    draw_reals(host.y, y_elements, -1, 1);
}

void copy_on_host(const Arrays& to, const Arrays& from)
{
    std::copy(from.x, from.x + x_elements, to.x);
    std::copy(from.y, from.y + y_elements, to.y);
}

void copy_in(const Arrays& device, const Arrays& host, cudaStream_t stream)
{
    CHECK(cudaMemcpyAsync(device.x, host.x, x_elements * sizeof(float), cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(device.y, host.y, y_elements * sizeof(float), cudaMemcpyHostToDevice, stream));
}

void copy_out(const Arrays& host, const Arrays& device, cudaStream_t stream)
{
    CHECK(cudaMemcpyAsync(host.y, device.y, y_elements * sizeof(float), cudaMemcpyDeviceToHost, stream));
}

void launch(const Arrays& device, cudaStream_t stream)
{
    const auto error = saxpy_launch({device.x, N}, {device.y, N}, a, stream);
    if (error) {
        std::fprintf(stderr, "saxpy_launch: %s\n", error.message.c_str());
        std::exit(2);
    }
}

// Milliseconds of the stream's work, between two events.
template <typename Work>
float milliseconds(cudaStream_t stream, Work work)
{
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaEventRecord(begin, stream));
    work();
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaEventSynchronize(end));
    float time = 0;
    CHECK(cudaEventElapsedTime(&time, begin, end));
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    return time;
}

// Peak bandwidth of device memory in GB/s, two transfers a clock over the whole bus; 0 where the device doesn't say.
double memory_peak()
{
    int kilohertz = 0, bits = 0;
    CHECK(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrMemoryClockRate, 0));
    CHECK(cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, 0));
    return 2.0 * kilohertz * bits / 8 / 1e6;
}

void print_rate(const char* what, float milliseconds, double bytes, double peak)
{
    const double rate = bytes / milliseconds / 1e6;
    std::printf("%-24s %10.4f ms %10.3f MB %9.2f GB/s", what, milliseconds, bytes / 1e6, rate);
    if (peak > 0)
        std::printf(", %.3g %% of %.1f", 100 * rate / peak, peak);
    std::printf("\n");
}

// y[i] += a * x[i]
void compute_y(const std::vector<double>& x, std::vector<double>& y)
{
    for (long long i = 0; i < N; ++i)
        y[i] += a * x[i];
}

// Of finite numbers.
double largest_magnitude(const std::vector<double>& numbers)
{
    double largest = 0;
    for (const double number : numbers)
        if (std::isfinite(number))
            largest = std::max(largest, std::abs(number));
    return largest;
}

// Elements of the device beside those of the host.
struct Comparison {
    double tolerance;
    long long elements = 0;
    long long wrong = 0;
    double largest_error = 0;

    explicit Comparison(double tolerance) : tolerance(tolerance) {}

    void add(double actual, double expected)
    {
        ++elements;
        if (actual == expected || (std::isnan(actual) && std::isnan(expected)))
            return;
        const double error = std::abs(actual - expected);
        wrong += !(error <= tolerance);
        largest_error = std::max(largest_error, error);
    }

    bool print(const char* name) const
    {
        std::printf("%s: %lld elements checked, %lld wrong; largest error %.2g, allowed %.2g\n", name, elements, wrong,
            largest_error, tolerance);
        return wrong == 0;
    }
};

// Floats may differ by roundings, relative to the largest of them.
bool compare_y(const std::vector<double>& y, const float* actual)
{
    Comparison comparison(2.4e-07 * largest_magnitude(y));
    for (long long i = 0; i < N; ++i)
        comparison.add(actual[i], y[i]);
    return comparison.print("y");
}

// Computes the statements of the spec in double precision, and compares the arrays that the kernel wrote.
bool check(const Arrays& given, const Arrays& results)
{
    const std::vector<double> x(given.x, given.x + x_elements);
    std::vector<double> y(given.y, given.y + y_elements);
    compute_y(x, y);
    bool is_right = compare_y(y, results.y);
    return is_right;
}

int main()
{
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    std::printf("saxpy on %s\n", properties.name);

    const Arrays pageable = allocate_pageable();
    const Arrays pinned = allocate_pinned();
    const Arrays device = allocate_device();
    draw(pageable);
    copy_on_host(pinned, pageable);

    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    const float pageable_in = milliseconds(stream, [&] { copy_in(device, pageable, stream); });
    const float pinned_in = milliseconds(stream, [&] { copy_in(device, pinned, stream); });
    launch(device, stream);  // the first one loads the kernel, and isn't timed
    const float kernel = milliseconds(stream, [&] {
        for (int run = 0; run < runs; ++run)
            launch(device, stream);
    }) / runs;

    // The launches changed what they read: once more from the beginning.
    copy_on_host(pinned, pageable);
    copy_in(device, pinned, stream);
    launch(device, stream);
    const float pinned_out = milliseconds(stream, [&] { copy_out(pinned, device, stream); });
    CHECK(cudaStreamSynchronize(stream));
    const bool is_right = check(pageable, pinned);
    const float pageable_out = milliseconds(stream, [&] { copy_out(pageable, device, stream); });

    print_rate("copy in, pageable", pageable_in, bytes_in, link_peak);
    print_rate("copy in, pinned", pinned_in, bytes_in, link_peak);
    print_rate("kernel", kernel, kernel_bytes, memory_peak());
    print_rate("copy out, pinned", pinned_out, bytes_out, link_peak);
    print_rate("copy out, pageable", pageable_out, bytes_out, link_peak);

    CHECK(cudaStreamDestroy(stream));
    free_arrays(pageable, pinned, device);
    return is_right ? 0 : 1;
}
