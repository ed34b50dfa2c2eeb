// conv_channels_last: A convolution with channels last; an im2col launch lays out its windows as a matrix first
//
// computes                       y[n, i, j, k] = relu(sum(x[n, i + r - 1, j + s - 1, c] * w[r, s, c, k], r, s, c))
// params                         N = 1, H = 17, W = 16, C = 32, K = 32
// x                              input, float32 [1, 17, 16, 32], outside: zero, aligned to 16 bytes
// w                              input, float32 [3, 3, 32, 32]
// y                              output, float32 [1, 17, 16, 32]
// conv_channels_last_x_unfolded  grid (1, 1, 272), block (8, 4, 3); family map
// conv_channels_last_y           grid (2, 17, 1), block (16, 16, 1), 2048 bytes of shared memory; family tiled
// analysis                       sm_90: 9 accesses, 9 ideal
//
// Made by cugen 0.1.0 from conv_channels_last.yaml (hash 29a9220db5087265) for sm_90. Edit the spec, not this file.
//
// Ideal accesses of conv_channels_last_x_unfolded, without a remark in the code:
//   x[(h * W + w_) * C + c]                              12 sectors, ideal 12 (384 contiguous bytes)
//   x_unfolded[(((i * W + j) * 3 + r) * 3 + s) * C + c]  12 sectors, ideal 12 (384 contiguous bytes)
//
// Ideal accesses of conv_channels_last_y, without a remark in the code:
//   x_unfolded[ij * (9 * C) + rsc0 + tx]  4 sectors, ideal 4 (128 bytes in 2 runs)
//   x_unfoldeds[ty][tx]                   1 wavefront, ideal 1 (conflict-free)
//   w[(rsc0 + ty) * K + k]                4 sectors, ideal 4 (128 bytes in 2 runs)
//   ws[ty][tx]                            1 wavefront, ideal 1 (conflict-free)
//   x_unfoldeds[ty][rsc]                  1 wavefront, ideal 1 (conflict-free)
//   ws[rsc][tx]                           1 wavefront, ideal 1 (conflict-free)
//   y[ij * K + k]                         4 sectors, ideal 4 (128 bytes in 2 runs)

constexpr int H = 17;
constexpr int W = 16;
constexpr int C = 32;
constexpr int K = 32;

#ifndef CUGEN_VECTOR
#define CUGEN_VECTOR
// `count` elements, moved by one vector access.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T data[count];
};
#endif

#ifndef CUGEN_LOAD
#define CUGEN_LOAD
// Vector load of `count` elements.
template <int count, typename T>
__device__ __forceinline__ Vector<T, count> load(const T* address)
{
    return *reinterpret_cast<const Vector<T, count>*>(address);
}
#endif

#ifndef CUGEN_MAXIMUM_FLOAT
#define CUGEN_MAXIMUM_FLOAT
// Maximum; NaN if an operand is NaN.
__device__ __forceinline__ float maximum(float a, float b)
{
#if __CUDA_ARCH__ >= 800
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
#else
    return a > b || a != a ? a : b;
#endif
}
#endif

#ifndef CUGEN_STORE
#define CUGEN_STORE
// Vector store of `count` elements.
template <int count, typename T>
__device__ __forceinline__ void store(T* address, const Vector<T, count>& value)
{
    *reinterpret_cast<Vector<T, count>*>(address) = value;
}
#endif

extern "C" __global__ void __launch_bounds__(96) conv_channels_last_x_unfolded(
    const float* __restrict__ x,
    float* __restrict__ x_unfolded)
{
    const int i = blockIdx.z / W;
    const int j = blockIdx.z % W;
    const int r = threadIdx.z;
    const int s = blockIdx.y * 4 + threadIdx.y;
    const int c = blockIdx.x * 32 + threadIdx.x * 4;
    if (s >= 3)
        return;

    const int h = r + i - 1;
    const int w_ = s + j - 1;
    Vector<float, 4> x4 = {};
    if (h >= 0 && h < H && w_ >= 0 && w_ < W) {
        x4 = load<4>(&x[(h * W + w_) * C + c]);
    }
    Vector<float, 4> x_unfolded4;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        x_unfolded4.data[v] = x4.data[v];
    }
    store<4>(&x_unfolded[(((i * W + j) * 3 + r) * 3 + s) * C + c], x_unfolded4);
}

extern "C" __global__ void __launch_bounds__(256) conv_channels_last_y(
    const float* __restrict__ w,
    float* __restrict__ y,
    const float* __restrict__ x_unfolded)
{
    constexpr int BM = 16, BN = 16, BK = 16;

    __shared__ float x_unfoldeds[BM][BK];
    __shared__ float ws[BK][BN];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int ij0 = blockIdx.y * BM;
    const int k0 = blockIdx.x * BN;
    const int ij = ij0 + ty;
    const int k = k0 + tx;

    float acc = 0.0f;
    for (int rsc0 = 0; rsc0 < 9 * C; rsc0 += BK) {
        x_unfoldeds[ty][tx] = x_unfolded[ij * (9 * C) + rsc0 + tx];
        ws[ty][tx] = w[(rsc0 + ty) * K + k];
        __syncthreads();
        #pragma unroll
        for (int rsc = 0; rsc < BK; ++rsc) {
            acc += x_unfoldeds[ty][rsc] * ws[rsc][tx];
        }
        __syncthreads();
    }

    y[ij * K + k] = maximum(acc, 0.0f);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" size_t conv_channels_last_workspace_bytes(void)
{
    return 256LL * ((36 * C * H * W + 255) / 256);
}

extern "C" cudaError_t conv_channels_last_launch(
    const float* x,
    const float* w,
    float* y,
    void* workspace,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    void* const memory = workspace;
    if (memory == nullptr)
        status = cudaMallocAsync(&workspace, conv_channels_last_workspace_bytes(), stream);
    if (status != cudaSuccess)
        return status;
    float* const x_unfolded = reinterpret_cast<float*>(static_cast<char*>(workspace) + 0);
    conv_channels_last_x_unfolded<<<dim3((C + 31) / 32, 1, H * W), dim3(8, 4, 3), 0, stream>>>(x, x_unfolded);
    conv_channels_last_y<<<dim3((K + 15) / 16, (H * W + 15) / 16), dim3(16, 16), 0, stream>>>(w, y, x_unfolded);
    if (memory == nullptr)
        cudaFreeAsync(workspace, stream);
    return cudaGetLastError();
}

#endif
