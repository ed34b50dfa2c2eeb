// rms_norm_dynamic: Each row scaled to root mean square 1, for any number of rows
//
// rms_norm_dynamic_launch for a part of the rows at a time: while the kernel works on one part,
// the next one is copied in, and
// the one before is copied out. Prints the timeline, and checks the result.
//
// scale[i] = rsqrt(mean(x[i, j] * x[i, j], j) + eps)
// y[i, j] = x[i, j] * scale[i] * weight[j]
//
//     nvcc -std=c++17 -arch=sm_90 rms_norm_dynamic_main_overlap.cpp rms_norm_dynamic.cu -o rms_norm_dynamic
//
// Made by cugen 0.1.0 from rms_norm_dynamic.yaml (hash ddbd1abf96899ff0) for sm_90. Edit the spec, not this file.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "rms_norm_dynamic.hpp"

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

constexpr long long M = 100;  // at launch: a whole number from 0 to 2147483647
constexpr long long N = 256;  // at launch: a multiple of 64 from 64 to 8192
constexpr float eps = 0.75f;
constexpr long long x_elements = M * N;
constexpr long long weight_elements = N;
constexpr long long y_elements = M * N;
// Parts begin at multiples of 4 rows, which the kernel and the alignment of the arrays allow.
constexpr long long part_rows = (M / 32 / 4 + 1) * 4;
constexpr int parts = static_cast<int>((M + part_rows - 1) / part_rows);

// Rows that are copied and computed at a time.
struct Part {
    long long first;
    long long rows;
};

// The arrays in one kind of memory.
struct Arrays {
    float* x;
    float* weight;
    float* y;
};

// Pageable memory of the host, from which the driver copies by way of a buffer of its own.
Arrays allocate_pageable()
{
    Arrays pageable;
    pageable.x = new float[x_elements];
    pageable.weight = new float[weight_elements];
    pageable.y = new float[y_elements];
    return pageable;
}

// Pinned memory of the host, which the device's copy engines read and write by themselves.
Arrays allocate_pinned()
{
    Arrays pinned;
    CHECK(cudaMallocHost(&pinned.x, x_elements * sizeof(float)));
    CHECK(cudaMallocHost(&pinned.weight, weight_elements * sizeof(float)));
    CHECK(cudaMallocHost(&pinned.y, y_elements * sizeof(float)));
    return pinned;
}

Arrays allocate_device()
{
    Arrays device;
    CHECK(cudaMalloc(&device.x, x_elements * sizeof(float)));
    CHECK(cudaMalloc(&device.weight, weight_elements * sizeof(float)));
    CHECK(cudaMalloc(&device.y, y_elements * sizeof(float)));
    return device;
}

void free_arrays(const Arrays& pageable, const Arrays& pinned, const Arrays& device)
{
    delete[] pageable.x;
    CHECK(cudaFreeHost(pinned.x));
    CHECK(cudaFree(device.x));
    delete[] pageable.weight;
    CHECK(cudaFreeHost(pinned.weight));
    CHECK(cudaFree(device.weight));
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
    draw_reals(host.weight, weight_elements, -1, 1);
}

void copy_on_host(const Arrays& to, const Arrays& from)
{
    std::copy(from.x, from.x + x_elements, to.x);
    std::copy(from.weight, from.weight + weight_elements, to.weight);
}

// The arrays that all parts read.
void copy_in_whole(const Arrays& device, const Arrays& host, cudaStream_t stream)
{
    CHECK(cudaMemcpyAsync(device.weight, host.weight, weight_elements * sizeof(float), cudaMemcpyHostToDevice, stream));
}

void copy_in(const Arrays& device, const Arrays& host, const Part& part, cudaStream_t stream)
{
    CHECK(cudaMemcpyAsync(device.x + part.first * N, host.x + part.first * N, part.rows * N * sizeof(float),
        cudaMemcpyHostToDevice, stream));
}

void copy_out(const Arrays& host, const Arrays& device, const Part& part, cudaStream_t stream)
{
    CHECK(cudaMemcpyAsync(host.y + part.first * N, device.y + part.first * N, part.rows * N * sizeof(float),
        cudaMemcpyDeviceToHost, stream));
}

void launch(const Arrays& device, const Part& part, cudaStream_t stream)
{
    const auto error = rms_norm_dynamic_launch({device.x + part.first * N, part.rows, N}, {device.weight, N},
        {device.y + part.first * N, part.rows, N}, eps, stream);
    if (error) {
        std::fprintf(stderr, "rms_norm_dynamic_launch: %s\n", error.message.c_str());
        std::exit(2);
    }
}

// The copies in, the launches or the copies out: a stream, and events before and after each part.
struct Stage {
    cudaStream_t stream;
    cudaEvent_t begin[parts];
    cudaEvent_t end[parts];
};

Stage create_stage()
{
    Stage stage;
    CHECK(cudaStreamCreateWithFlags(&stage.stream, cudaStreamNonBlocking));
    for (int number = 0; number < parts; ++number) {
        CHECK(cudaEventCreate(&stage.begin[number]));
        CHECK(cudaEventCreate(&stage.end[number]));
    }
    return stage;
}

void destroy_stage(const Stage& stage)
{
    for (int number = 0; number < parts; ++number) {
        CHECK(cudaEventDestroy(stage.begin[number]));
        CHECK(cudaEventDestroy(stage.end[number]));
    }
    CHECK(cudaStreamDestroy(stage.stream));
}

// A stage waits for the one before it on the same part, and for nothing else.
void run_parts(const Arrays& device, const Arrays& host, const Stage& in, const Stage& kernel, const Stage& out)
{
    for (int number = 0; number < parts; ++number) {
        const long long first = number * part_rows;
        const Part part = {first, std::min(part_rows, M - first)};

        CHECK(cudaEventRecord(in.begin[number], in.stream));
        if (number == 0)
            copy_in_whole(device, host, in.stream);
        copy_in(device, host, part, in.stream);
        CHECK(cudaEventRecord(in.end[number], in.stream));

        CHECK(cudaStreamWaitEvent(kernel.stream, in.end[number], 0));
        CHECK(cudaEventRecord(kernel.begin[number], kernel.stream));
        launch(device, part, kernel.stream);
        CHECK(cudaEventRecord(kernel.end[number], kernel.stream));

        CHECK(cudaStreamWaitEvent(out.stream, kernel.end[number], 0));
        CHECK(cudaEventRecord(out.begin[number], out.stream));
        copy_out(host, device, part, out.stream);
        CHECK(cudaEventRecord(out.end[number], out.stream));
    }
    CHECK(cudaStreamSynchronize(out.stream));
}

float milliseconds(cudaEvent_t begin, cudaEvent_t end)
{
    float time = 0;
    CHECK(cudaEventElapsedTime(&time, begin, end));
    return time;
}

float busy_milliseconds(const Stage& stage)
{
    float time = 0;
    for (int number = 0; number < parts; ++number)
        time += milliseconds(stage.begin[number], stage.end[number]);
    return time;
}

void print_timeline(const Stage& in, const Stage& kernel, const Stage& out)
{
    std::printf("part           copy in            kernel          copy out  (begin and end in ms)\n");
    for (int number = 0; number < parts; ++number) {
        std::printf("%4d", number);
        for (const Stage* stage : {&in, &kernel, &out})
            std::printf(" %8.4f %8.4f", milliseconds(in.begin[0], stage->begin[number]),
                milliseconds(in.begin[0], stage->end[number]));
        std::printf("\n");
    }
    const float in_time = busy_milliseconds(in), kernel_time = busy_milliseconds(kernel),
        out_time = busy_milliseconds(out);
    const float longest = std::max({in_time, kernel_time, out_time});
    const float time = milliseconds(in.begin[0], out.end[parts - 1]);
    std::printf("copy in %.4f ms, kernel %.4f ms, copy out %.4f ms\n", in_time, kernel_time, out_time);
    std::printf("one after another %.4f ms, overlapped %.4f ms: %.2f times the longest of the three\n",
        in_time + kernel_time + out_time, time, time / longest);
}

// scale[i] = rsqrt(mean(x[i, j] * x[i, j], j) + eps)
void compute_scale(const std::vector<double>& x, std::vector<double>& scale)
{
    for (long long i = 0; i < M; ++i) {
        double sum = 0.0;
        for (long long j = 0; j < N; ++j)
            sum += x[i * N + j] * x[i * N + j];
        scale[i] = 1.0 / std::sqrt(sum / N + eps);
    }
}

// y[i, j] = x[i, j] * scale[i] * weight[j]
void compute_y(const std::vector<double>& x, const std::vector<double>& scale, const std::vector<double>& weight,
    std::vector<double>& y)
{
    for (long long i = 0; i < M; ++i)
        for (long long j = 0; j < N; ++j)
            y[i * N + j] = x[i * N + j] * scale[i] * weight[j];
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
    Comparison comparison(9.1e-06 * largest_magnitude(y));
    for (long long i = 0; i < M; ++i)
        for (long long j = 0; j < N; ++j)
            comparison.add(actual[i * N + j], y[i * N + j]);
    return comparison.print("y");
}

// Computes the statements of the spec in double precision, and compares the arrays that the kernel wrote.
bool check(const Arrays& given, const Arrays& results)
{
    const std::vector<double> x(given.x, given.x + x_elements);
    const std::vector<double> weight(given.weight, given.weight + weight_elements);
    std::vector<double> y(y_elements);
    std::vector<double> scale(M);
    compute_scale(x, scale);
    compute_y(x, scale, weight, y);
    bool is_right = compare_y(y, results.y);
    return is_right;
}

int main()
{
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    std::printf("rms_norm_dynamic on %s: %d parts of %lld rows\n", properties.name, parts, part_rows);

    const Arrays pageable = allocate_pageable();
    const Arrays pinned = allocate_pinned();  // copies from pageable memory would not overlap
    const Arrays device = allocate_device();
    draw(pageable);
    copy_on_host(pinned, pageable);

    const Stage in = create_stage(), kernel = create_stage(), out = create_stage();
    run_parts(device, pinned, in, kernel, out);  // loads the kernel
    run_parts(device, pinned, in, kernel, out);
    print_timeline(in, kernel, out);
    const bool is_right = check(pageable, pinned);

    destroy_stage(in);
    destroy_stage(kernel);
    destroy_stage(out);
    free_arrays(pageable, pinned, device);
    return is_right ? 0 : 1;
}
