// matmul_tiled: C = A·B; tiles of A and B are staged through shared memory
//
// A whole program round matmul_tiled_launch: allocates, copies in, launches, copies out, checks, and prints bandwidths.
//
// C[m, n] = sum(A[m, k] * B[k, n], k)
//
//     nvcc -std=c++17 -arch=sm_90 matmul_tiled_main.cpp matmul_tiled.cu -o matmul_tiled
//
// Made by cugen 0.1.0 from matmul_tiled.yaml (hash 481af32f968e1a87) for sm_90. Edit the spec, not this file.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "matmul_tiled.hpp"

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

constexpr long long M = 1000;
constexpr long long K = 513;
constexpr long long N = 777;
constexpr long long A_elements = M * K;
constexpr long long B_elements = K * N;
constexpr long long C_elements = M * N;
constexpr double bytes_in = A_elements * sizeof(float) + B_elements * sizeof(float);
constexpr double bytes_out = C_elements * sizeof(float);
// Of device memory, each element read or written once.
constexpr double kernel_bytes = A_elements * sizeof(float) + B_elements * sizeof(float) + C_elements * sizeof(float);
constexpr int runs = 20;  // timed launches
constexpr double link_peak = 63.0;  // GB/s in one direction: PCIe 5.0 x16, the link of an H200 to its host

// The arrays in one kind of memory.
struct Arrays {
    float* A;
    float* B;
    float* C;
};

// Pageable memory of the host, from which the driver copies by way of a buffer of its own.
Arrays allocate_pageable()
{
    Arrays pageable;
    pageable.A = new float[A_elements];
    pageable.B = new float[B_elements];
    pageable.C = new float[C_elements];
    return pageable;
}

// Pinned memory of the host, which the device's copy engines read and write by themselves.
Arrays allocate_pinned()
{
    Arrays pinned;
    CHECK(cudaMallocHost(&pinned.A, A_elements * sizeof(float)));
    CHECK(cudaMallocHost(&pinned.B, B_elements * sizeof(float)));
    CHECK(cudaMallocHost(&pinned.C, C_elements * sizeof(float)));
    return pinned;
}

Arrays allocate_device()
{
    Arrays device;
    CHECK(cudaMalloc(&device.A, A_elements * sizeof(float)));
    CHECK(cudaMalloc(&device.B, B_elements * sizeof(float)));
    CHECK(cudaMalloc(&device.C, C_elements * sizeof(float)));
    return device;
}

void free_arrays(const Arrays& pageable, const Arrays& pinned, const Arrays& device)
{
    delete[] pageable.A;
    CHECK(cudaFreeHost(pinned.A));
    CHECK(cudaFree(device.A));
    delete[] pageable.B;
    CHECK(cudaFreeHost(pinned.B));
    CHECK(cudaFree(device.B));
    delete[] pageable.C;
    CHECK(cudaFreeHost(pinned.C));
    CHECK(cudaFree(device.C));
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
    draw_reals(host.A, A_elements, -1, 1);
    draw_reals(host.B, B_elements, -1, 1);
}

void copy_on_host(const Arrays& to, const Arrays& from)
{
    std::copy(from.A, from.A + A_elements, to.A);
    std::copy(from.B, from.B + B_elements, to.B);
}

void copy_in(const Arrays& device, const Arrays& host, cudaStream_t stream)
{
    CHECK(cudaMemcpyAsync(device.A, host.A, A_elements * sizeof(float), cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(device.B, host.B, B_elements * sizeof(float), cudaMemcpyHostToDevice, stream));
}

void copy_out(const Arrays& host, const Arrays& device, cudaStream_t stream)
{
    CHECK(cudaMemcpyAsync(host.C, device.C, C_elements * sizeof(float), cudaMemcpyDeviceToHost, stream));
}

void launch(const Arrays& device, cudaStream_t stream)
{
    const auto error = matmul_tiled_launch({device.A, M, K}, {device.B, K, N}, {device.C, M, N}, stream);
    if (error) {
        std::fprintf(stderr, "matmul_tiled_launch: %s\n", error.message.c_str());
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

// C[m, n] = sum(A[m, k] * B[k, n], k)
void compute_C(const std::vector<double>& A, const std::vector<double>& B, std::vector<double>& C)
{
    for (long long m = 0; m < M; ++m)
        for (long long n = 0; n < N; ++n) {
            double sum = 0.0;
            for (long long k = 0; k < K; ++k)
                sum += A[m * K + k] * B[k * N + n];
            C[m * N + n] = sum;
        }
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
bool compare_C(const std::vector<double>& C, const float* actual)
{
    Comparison comparison(1.1e-05 * largest_magnitude(C));
    for (long long i = 0; i < M; ++i)
        for (long long j = 0; j < N; ++j)
            comparison.add(actual[i * N + j], C[i * N + j]);
    return comparison.print("C");
}

// Computes the statements of the spec in double precision, and compares the arrays that the kernel wrote.
bool check(const Arrays& given, const Arrays& results)
{
    const std::vector<double> A(given.A, given.A + A_elements);
    const std::vector<double> B(given.B, given.B + B_elements);
    std::vector<double> C(C_elements);
    compute_C(A, B, C);
    bool is_right = compare_C(C, results.C);
    return is_right;
}

int main()
{
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    std::printf("matmul_tiled on %s\n", properties.name);

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
