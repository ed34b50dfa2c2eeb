// rms_norm_dynamic: Each row scaled to root mean square 1, for any number of rows; `cugen run` needs `--set M=100 --set N=256`
//
// computes                scale[i] = rsqrt(mean(x[i, j] * x[i, j], j) + eps)
//                         y[i, j] = x[i, j] * scale[i] * weight[j]
// params                  M, N
// x                       input, float32 [M, N], aligned to 16 bytes
// weight                  input, float32 [N], aligned to 16 bytes
// y                       output, float32 [M, N], aligned to 16 bytes
// rms_norm_dynamic_scale  grid (M, 1, 1), block (256, 1, 1), 32 bytes of shared memory; family reduce
// rms_norm_dynamic_y      grid (((M + 7) // 8) * ((N + 127) // 128), 1, 1), block (32, 8, 1); family map
// analysis                sm_90: 8 accesses, 8 ideal
//
// Made by cugen 0.1.0 from rms_norm_dynamic.yaml (hash 3230bb9065250842) for sm_90. Edit the spec, not this file.

// `count` elements that one access moves.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T at[count];
};

extern "C" __global__ void __launch_bounds__(256) rms_norm_dynamic_scale(
    const float* __restrict__ x,
    float* __restrict__ scale,
    float eps,
    int N)
{
    const int i = blockIdx.x;

    float sum = 0.0f;
    for (int j = threadIdx.x; j < N; j += 256) {
        // x[(long long)i * N + j]: 4 sectors, ideal 4 (at any M, N)
        const float x_i_j = x[(long long)i * N + j];
        sum += x_i_j * x_i_j;
    }

    // A butterfly of shuffles: after it every lane holds the result of its warp.
    sum += __shfl_xor_sync(0xffffffff, sum, 16);
    sum += __shfl_xor_sync(0xffffffff, sum, 8);
    sum += __shfl_xor_sync(0xffffffff, sum, 4);
    sum += __shfl_xor_sync(0xffffffff, sum, 2);
    sum += __shfl_xor_sync(0xffffffff, sum, 1);

    // The warps meet in shared memory, where the first thread combines their results in order.
    __shared__ float warp_results[8];
    if (threadIdx.x % 32 == 0) {
        // warp_results[threadIdx.x / 32]: 1 wavefront, ideal 1 (at any M, N)
        warp_results[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    for (int warp = 1; warp < 8; ++warp) {
        // warp_results[warp]: 1 wavefront, ideal 1 (at any M, N)
        sum += warp_results[warp];
    }

    // scale[i]: 1 sector, ideal 1 (at any M, N)
    scale[i] = rsqrtf(sum / N + eps);
}

extern "C" __global__ void __launch_bounds__(256) rms_norm_dynamic_y(
    const float* __restrict__ x,
    const float* __restrict__ weight,
    float* __restrict__ y,
    const float* __restrict__ scale,
    int M,
    int N)
{
    const long long i = (long long)blockIdx.x / ((N + 127) / 128) * 8 + threadIdx.y;
    const int j = blockIdx.x % ((N + 127) / 128) * 128 + threadIdx.x * 4;
    if (i >= M || j >= N)
        return;

    // x[(long long)i * N + j]: 16 sectors, ideal 16 (at any M, N)
    const auto x4 = *reinterpret_cast<const Vector<float, 4>*>(&x[(long long)i * N + j]);
    // weight[j]: 16 sectors, ideal 16 (at any M, N)
    const auto weight4 = *reinterpret_cast<const Vector<float, 4>*>(&weight[j]);
    // scale[i]: 1 sector, ideal 1 (at any M, N)
    const float scale_i = scale[i];
    Vector<float, 4> y4;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        y4.at[v] = x4.at[v] * scale_i * weight4.at[v];
    }
    // y[(long long)i * N + j]: 16 sectors, ideal 16 (at any M, N)
    *reinterpret_cast<Vector<float, 4>*>(&y[(long long)i * N + j]) = y4;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" size_t rms_norm_dynamic_workspace_bytes(int M, int /* N */)
{
    return 256LL * ((4LL * M + 255) / 256);
}

extern "C" cudaError_t rms_norm_dynamic_launch(
    const float* x,
    const float* weight,
    float* y,
    float eps,
    int M,
    int N,
    void* workspace,
    cudaStream_t stream)
{
    if (M < 0)
        return cudaErrorInvalidValue;
    if (N < 64 || N > 8192 || N % 64 != 0)
        return cudaErrorInvalidValue;
    cudaError_t status = cudaSuccess;
    void* const memory = workspace;
    if (memory == nullptr)
        status = cudaMallocAsync(&workspace, rms_norm_dynamic_workspace_bytes(M, N), stream);
    if (status != cudaSuccess)
        return status;
    float* const scale = reinterpret_cast<float*>(static_cast<char*>(workspace) + 0);
    if (M > 0)
        rms_norm_dynamic_scale<<<dim3(M), dim3(256), 0, stream>>>(x, scale, eps, N);
    if (((long long)M + 7) / 8 * ((N + 127) / 128) > 0)
        rms_norm_dynamic_y<<<dim3(((long long)M + 7) / 8 * ((N + 127) / 128)), dim3(32, 8), 0,
            stream>>>(x, weight, y, scale, M, N);
    if (memory == nullptr)
        cudaFreeAsync(workspace, stream);
    return cudaGetLastError();
}

#endif
