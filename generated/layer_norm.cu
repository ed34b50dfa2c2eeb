// layer_norm: Each row brought to mean 0 and variance 1, then scaled and shifted
//
// computes       mu[i] = mean(x[i, j], j)
//                scale[i] = rsqrt(var(x[i, j], j) + eps)
//                y[i, j] = (x[i, j] - mu[i]) * scale[i] * gamma[j] + beta[j]
// params         M = 96, N = 200
// x              input, float32 [96, 200], aligned to 16 bytes
// gamma          input, float32 [200], aligned to 16 bytes
// beta           input, float32 [200], aligned to 16 bytes
// y              output, float32 [96, 200], aligned to 16 bytes
// layer_norm_mu  grid (1, 1, 1), block (256, 1, 1); family direct
// layer_norm_y   grid (2, 12, 1), block (32, 8, 1); family map
// analysis       sm_90: 10 accesses, 8 ideal, 2 costly
//                worst: x[i * N + j], 32 sectors, ideal 4 (lanes 800 bytes apart)
//
// Made by cugen 0.1.0 from layer_norm.yaml (hash 01977706383a6c00) for sm_90. Edit the spec, not this file.

constexpr int M = 96;
constexpr int N = 200;
constexpr float eps = 1e-05f;

// `count` elements that one access moves.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T at[count];
};

extern "C" __global__ void __launch_bounds__(256) layer_norm_mu(
    const float* __restrict__ x,
    float* __restrict__ mu,
    float* __restrict__ scale)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= M)
        return;

    float sum = 0.0f;
    for (int j = 0; j < N; ++j) {
        // x[i * N + j]: 32 sectors, ideal 4 (lanes 800 bytes apart)
        const float x_i_j = x[i * N + j];
        sum += x_i_j;
    }
    const float mean = sum / N;
    // mu[i]: 4 sectors, ideal 4 (128 bytes side by side)
    mu[i] = mean;
    float sum_ = 0.0f;
    for (int j_1 = 0; j_1 < N; ++j_1) {
        // x[i * N + j_1]: 32 sectors, ideal 4 (lanes 800 bytes apart)
        const float x_i_j_1 = x[i * N + j_1];
        const float difference = x_i_j_1 - mean;
        sum_ += difference * difference;
    }
    // scale[i]: 4 sectors, ideal 4 (128 bytes side by side)
    scale[i] = rsqrtf(sum_ / N + eps);
}

extern "C" __global__ void __launch_bounds__(256) layer_norm_y(
    const float* __restrict__ x,
    const float* __restrict__ gamma_,
    const float* __restrict__ beta,
    float* __restrict__ y,
    const float* __restrict__ mu,
    const float* __restrict__ scale)
{
    const int i = blockIdx.y * 8 + threadIdx.y;
    const int j = blockIdx.x * 128 + threadIdx.x * 4;
    if (j >= N)
        return;

    // x[i * N + j]: 16 sectors, ideal 16 (512 bytes side by side)
    const auto x4 = *reinterpret_cast<const Vector<float, 4>*>(&x[i * N + j]);
    // gamma_[j]: 16 sectors, ideal 16 (512 bytes side by side)
    const auto gamma4 = *reinterpret_cast<const Vector<float, 4>*>(&gamma_[j]);
    // beta[j]: 16 sectors, ideal 16 (512 bytes side by side)
    const auto beta4 = *reinterpret_cast<const Vector<float, 4>*>(&beta[j]);
    // mu[i]: 1 sector, ideal 1 (one address for all lanes)
    const float mu_i = mu[i];
    // scale[i]: 1 sector, ideal 1 (one address for all lanes)
    const float scale_i = scale[i];
    Vector<float, 4> y4;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        y4.at[v] = (x4.at[v] - mu_i) * scale_i * gamma4.at[v] + beta4.at[v];
    }
    // y[i * N + j]: 16 sectors, ideal 16 (512 bytes side by side)
    *reinterpret_cast<Vector<float, 4>*>(&y[i * N + j]) = y4;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" size_t layer_norm_workspace_bytes(void)
{
    return 512LL * ((4 * M + 255) / 256);
}

extern "C" cudaError_t layer_norm_launch(
    const float* x,
    const float* gamma_,
    const float* beta,
    float* y,
    void* workspace,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    void* const memory = workspace;
    if (memory == nullptr)
        status = cudaMallocAsync(&workspace, layer_norm_workspace_bytes(), stream);
    if (status != cudaSuccess)
        return status;
    float* const mu = reinterpret_cast<float*>(static_cast<char*>(workspace) + 0);
    float* const scale = reinterpret_cast<float*>(static_cast<char*>(workspace)
        + 256LL * ((4 * M + 255) / 256));
    layer_norm_mu<<<dim3((M + 255) / 256), dim3(256), 0, stream>>>(x, mu, scale);
    layer_norm_y<<<dim3((N + 127) / 128, (M + 7) / 8), dim3(32, 8), 0, stream>>>(x, gamma_, beta, y, mu, scale);
    if (memory == nullptr)
        cudaFreeAsync(workspace, stream);
    return cudaGetLastError();
}

#endif
