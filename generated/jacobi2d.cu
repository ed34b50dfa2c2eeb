// jacobi2d: One Jacobi step for Laplace's equation; the values on the edge are given and stay as they are
//
// computes  next[i, j] = where(0 < i and i < H - 1 and 0 < j and j < W - 1, 0.25 * (u[i - 1, j] + u[i + 1, j] +
//           u[i, j - 1] + u[i, j + 1]), u[i, j])
// params    H = 130, W = 170
// u         input, float32 [130, 170]
// next      output, float32 [130, 170]
// launch    grid (6, 17, 1), block (32, 8, 1); family direct
// analysis  sm_90: 6 accesses, 6 costly
//           worst: u[i * W + j - 1], 5 sectors, ideal 4; 4.46 on average (starts 4 bytes into a sector)
//
// Made by cugen 0.1.0 from jacobi2d.yaml (hash d670d56827bffe08) for sm_90. Edit the spec, not this file.

constexpr int H = 130;
constexpr int W = 170;

extern "C" __global__ void __launch_bounds__(256) jacobi2d(
    const float* __restrict__ u,
    float* __restrict__ next)
{
    const int i = blockIdx.y * 8 + threadIdx.y;
    const int j = blockIdx.x * 32 + threadIdx.x;
    if (i >= H || j >= W)
        return;

    float chosen;
    if (0 < i && i < H - 1 && 0 < j && j < W - 1) {
        // u[(i - 1) * W + j]: 5 sectors, ideal 4; 4.29 on average (starts 8 bytes into a sector)
        const float u_im1_j = u[(i - 1) * W + j];
        // u[(i + 1) * W + j]: 5 sectors, ideal 4; 4.29 on average (starts 16 bytes into a sector)
        const float u_ip1_j = u[(i + 1) * W + j];
        // u[i * W + j - 1]: 5 sectors, ideal 4; 4.46 on average (starts 4 bytes into a sector)
        const float u_i_jm1 = u[i * W + j - 1];
        // u[i * W + j + 1]: 5 sectors, ideal 4; 4.46 on average (starts 12 bytes into a sector)
        const float u_i_jp1 = u[i * W + j + 1];
        chosen = 0.25f * (u_im1_j + u_ip1_j + u_i_jm1 + u_i_jp1);
    } else {
        // u[i * W + j]: 5 sectors, ideal 4; 1.14 on average (starts 8 bytes into a sector)
        chosen = u[i * W + j];
    }
    // next[i * W + j]: 5 sectors, ideal 4; 4.29 on average (starts 8 bytes into a sector)
    next[i * W + j] = chosen;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t jacobi2d_launch(
    const float* u,
    float* next,
    cudaStream_t stream)
{
    jacobi2d<<<dim3((W + 31) / 32, (H + 7) / 8), dim3(32, 8), 0, stream>>>(u, next);
    return cudaGetLastError();
}

#endif
