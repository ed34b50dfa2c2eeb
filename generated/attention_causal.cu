// attention_causal: Attention of every head, in which a place looks at none after it
//
// computes                 score[b, h, i, j] = where(j <= i, scale * sum(q[b, h, i, d] * k[b, h, j, d], d), -inf)
//                          weight[b, h, i, j] = softmax(score[b, h, i, j], j)
//                          o[b, h, i, d] = sum(weight[b, h, i, j] * v[b, h, j, d], j)
// params                   B = 2, H = 3, T = 45, D = 24
// q                        input, float32 [2, 3, 45, 24]
// k                        input, float32 [2, 3, 45, 24], shared
// v                        input, float32 [2, 3, 45, 24]
// o                        output, float32 [2, 3, 45, 24]
// attention_causal_score   grid (3, 3, 6), block (16, 16, 1), 2048 bytes of shared memory; family tiled
// attention_causal_weight  grid (17, 1, 1), block (8, 16, 1); family rowwise
// attention_causal_o       grid (2, 3, 6), block (16, 16, 1), 2048 bytes of shared memory; family tiled
// bounds                   28 of 28 accesses proved
// analysis                 sm_90: 18 accesses, 12 ideal, 6 costly
//                          worst: score[((b * H + h) * T + i) * T + j], 6 sectors, ideal 3; 5.96 on average
//                          (80 bytes in 4 runs)
//
// Made by cugen 0.1.0 from attention_causal.yaml (hash 77c3ab256dbd225d) for sm_90. Edit the spec, not this file.
//
// Ideal accesses of attention_causal_score, without a remark in the code:
//   q[((b * H + h) * T + i) * D + d0 + tx]        4 sectors, ideal 4 (128 bytes in 2 runs)
//   qs[ty][tx]                                    1 wavefront, ideal 1 (conflict-free)
//   k[((b * H + h) * T + j0 + ty) * D + d0 + tx]  4 sectors, ideal 4 (128 bytes in 2 runs)
//   ks[ty][tx ^ ty]                               1 wavefront, ideal 1 (xor swizzle: 32 banks)
//   qs[ty][d]                                     1 wavefront, ideal 1 (conflict-free)
//   ks[tx][d ^ tx]                                1 wavefront, ideal 1 (xor swizzle: 16 banks)
//
// Ideal accesses of attention_causal_o, without a remark in the code:
//   weights[ty][tx]                         1 wavefront, ideal 1 (conflict-free)
//   v[((b * H + h) * T + j0 + ty) * D + d]  4 sectors, ideal 4 (128 bytes in 2 runs)
//   vs[ty][tx]                              1 wavefront, ideal 1 (conflict-free)
//   weights[ty][j]                          1 wavefront, ideal 1 (conflict-free)
//   vs[j][tx]                               1 wavefront, ideal 1 (conflict-free)
//   o[((b * H + h) * T + i) * D + d]        4 sectors, ideal 4 (128 bytes in 2 runs)

#include <math_constants.h>

constexpr int B = 2;
constexpr int H = 3;
constexpr int T = 45;
constexpr int D = 24;
constexpr float scale = 0.20412415f;

extern "C" __global__ void __launch_bounds__(256) attention_causal_score(
    const float* __restrict__ q,
    const float* __restrict__ k,
    float* __restrict__ score)
{
    constexpr int BM = 16, BN = 16, BK = 16;

    __shared__ float qs[BM][BK];
    __shared__ float ks[BN][BK];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int h = blockIdx.z % H;
    const int b = blockIdx.z / H;
    const int i0 = blockIdx.y * BM;
    const int j0 = blockIdx.x * BN;
    const int i = i0 + ty;
    const int j = j0 + tx;

    float acc = 0.0f;
    for (int d0 = 0; d0 < D; d0 += BK) {
        qs[ty][tx] = i < T && d0 + tx < D ? q[((b * H + h) * T + i) * D + d0 + tx] : 0.0f;
        ks[ty][tx ^ ty] = j0 + ty < T && d0 + tx < D ? k[((b * H + h) * T + j0 + ty) * D + d0 + tx] : 0.0f;
        __syncthreads();
        #pragma unroll
        for (int d = 0; d < BK; ++d) {
            acc += qs[ty][d] * ks[tx][d ^ tx];
        }
        __syncthreads();
    }

    if (i >= T || j >= T)
        return;
    // score[((b * H + h) * T + i) * T + j]: 6 sectors, ideal 4; 5.38 on average (128 bytes in 2 runs)
    score[((b * H + h) * T + i) * T + j] = j <= i ? scale * acc : -CUDART_INF_F;
}

extern "C" __global__ void __launch_bounds__(128) attention_causal_weight(
    const float* __restrict__ score,
    float* __restrict__ weight)
{
    const int group_row = blockIdx.x * 16 + threadIdx.y;
    const int row = min(group_row, B * H * T - 1);
    const int b = row / (H * T);
    const int h = row / T % H;
    const int i = row % T;

    float row_[6];
    #pragma unroll
    for (int s = 0; s < 5; ++s) {
        const int j = threadIdx.x + 8 * s;
        // score[((b * H + h) * T + i) * T + j]: 8 sectors, ideal 4; 7.44 on average (128 bytes in 4 runs)
        row_[s] = score[((b * H + h) * T + i) * T + j];
    }
    if (threadIdx.x + 40 < T) {
        const int j = threadIdx.x + 40;
        // score[((b * H + h) * T + i) * T + j]: 6 sectors, ideal 3; 5.96 on average (80 bytes in 4 runs)
        row_[5] = score[((b * H + h) * T + i) * T + j];
    }

    float largest = -CUDART_INF_F;
    #pragma unroll
    for (int s = 0; s < 5; ++s) {
        largest = fmaxf(largest, row_[s]);
    }
    if (threadIdx.x + 40 < T) {
        largest = fmaxf(largest, row_[5]);
    }
    #pragma unroll
    for (int lanes = 4; lanes > 0; lanes /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, lanes));
    }

    float sum = 0.0f;
    #pragma unroll
    for (int s = 0; s < 5; ++s) {
        const float exp_value = expf(row_[s] - largest);
        row_[s] = exp_value;
        sum += exp_value;
    }
    if (threadIdx.x + 40 < T) {
        const float exp_value = expf(row_[5] - largest);
        row_[5] = exp_value;
        sum += exp_value;
    }
    #pragma unroll
    for (int lanes = 4; lanes > 0; lanes /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, lanes);
    }

    if (group_row < B * H * T) {
        #pragma unroll
        for (int s = 0; s < 5; ++s) {
            const int j = threadIdx.x + 8 * s;
            // weight[((b * H + h) * T + i) * T + j]: 8 sectors, ideal 4; 7.44 on average (128 bytes in 4 runs)
            weight[((b * H + h) * T + i) * T + j] = row_[s] / sum;
        }
    }
    if (threadIdx.x + 40 < T && group_row < B * H * T) {
        const int j = threadIdx.x + 40;
        // weight[((b * H + h) * T + i) * T + j]: 6 sectors, ideal 3; 5.96 on average (80 bytes in 4 runs)
        weight[((b * H + h) * T + i) * T + j] = row_[5] / sum;
    }
}

extern "C" __global__ void __launch_bounds__(256) attention_causal_o(
    const float* __restrict__ v,
    float* __restrict__ o,
    const float* __restrict__ weight)
{
    constexpr int BM = 16, BN = 16, BK = 16;

    __shared__ float weights[BM][BK];
    __shared__ float vs[BK][BN];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int h = blockIdx.z % H;
    const int b = blockIdx.z / H;
    const int i0 = blockIdx.y * BM;
    const int d0 = blockIdx.x * BN;
    const int i = i0 + ty;
    const int d = d0 + tx;

    float acc = 0.0f;
    for (int j0 = 0; j0 < T; j0 += BK) {
        // weight[((b * H + h) * T + i) * T + j0 + tx]: 6 sectors, ideal 4; 5.38 on average (128 bytes in 2 runs)
        weights[ty][tx] = i < T && j0 + tx < T ? weight[((b * H + h) * T + i) * T + j0 + tx] : 0.0f;
        vs[ty][tx] = j0 + ty < T && d < D ? v[((b * H + h) * T + j0 + ty) * D + d] : 0.0f;
        __syncthreads();
        #pragma unroll
        for (int j = 0; j < BK; ++j) {
            acc += weights[ty][j] * vs[j][tx];
        }
        __syncthreads();
    }

    if (i >= T || d >= D)
        return;
    o[((b * H + h) * T + i) * D + d] = acc;
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" size_t attention_causal_workspace_bytes(void)
{
    return 512 * ((4 * B * H * (T * T) + 255) / 256);
}

extern "C" cudaError_t attention_causal_launch(
    const float* q,
    const float* k,
    const float* v,
    float* o,
    void* workspace,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    const bool allocates = workspace == nullptr;
    if (allocates)
        status = cudaMallocAsync(&workspace, attention_causal_workspace_bytes(), stream);
    if (status != cudaSuccess)
        return status;
    float* const score = static_cast<float*>(workspace);
    float* const weight =
        reinterpret_cast<float*>(static_cast<char*>(workspace) + 256 * ((4 * B * H * (T * T) + 255) / 256));
    attention_causal_score<<<dim3((T + 15) / 16, (T + 15) / 16, B * H), dim3(16, 16), 0, stream>>>(q, k, score);
    attention_causal_weight<<<dim3((B * H * T + 15) / 16), dim3(8, 16), 0, stream>>>(score, weight);
    attention_causal_o<<<dim3((D + 15) / 16, (T + 15) / 16, B * H), dim3(16, 16), 0, stream>>>(v, o, weight);
    if (allocates)
        cudaFreeAsync(workspace, stream);
    return cudaGetLastError();
}

#endif
