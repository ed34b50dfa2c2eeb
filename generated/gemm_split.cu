// gemm_split: C = A·B where outputs are few and sums long; several blocks share every sum, and the last one adds their parts in order
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 40, K = 128, N = 64
// A         input, float32 [40, 128]
// B         input, float32 [128, 64], aligned to 16 bytes
// C         output, float32 [40, 64], aligned to 16 bytes
// launch    grid (8, 1, 1), block (128, 1, 1), 12804 bytes of shared memory; family gemm
// analysis  sm_90: 21 accesses, 18 ideal, 2 costly, 1 assumed
//           worst: As[stage][a_k][a_m + c], 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
//
// Made by cugen 0.1.0 from gemm_split.yaml (hash 0129a28a0fd7c447) for sm_90. Edit the spec, not this file.

#include <cuda_pipeline_primitives.h>

constexpr int M = 40;
constexpr int K = 128;
constexpr int N = 64;

#ifndef CUGEN_VECTOR
#define CUGEN_VECTOR
// `count` elements that one access moves.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T at[count];
};
#endif

extern "C" __global__ void __launch_bounds__(128) gemm_split(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C,
    unsigned int* C_arrived,
    float* C_parts)
{
    // a ring of 4 stages, in which k is slow: k-major
    __shared__ __align__(16) float As[4][8][36];
    __shared__ __align__(16) float Bs[4][8][64];

    // 4 blocks share a tile, each has its part of k
    const int tile = blockIdx.x / 4;
    const int part = blockIdx.x % 4;
    const int begin = K / 4 * part;
    const int m0 = min(32 * (tile / ((N + 63) / 64)), M - 32);
    const int n0 = 64 * (tile % ((N + 63) / 64));
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp = thread / 32;
    // the warp's share is 16 x 32
    // its lanes lie 4 x 8, neighbours so that pairs read alike
    const int lane_row = 2 * (lane / 16) + lane % 2;
    const int lane_column = lane / 2 % 8;
    const int row = 16 * (warp / 2) + 4 * lane_row;
    const int column = 32 * (warp % 2) + 4 * lane_column;
    const int a_k = thread % 8;
    const int a_m = thread / 8;
    const int b_k = thread / 16;
    const int b_n = 4 * (thread % 16);

    float sum[4][4] = {};

    const float* a_from = &A[(m0 + a_m) * K + begin + a_k];
    const float* b_from = &B[(begin + b_k) * N + n0 + b_n];
    #pragma unroll
    for (int stage = 0; stage < 3; ++stage) {
        #pragma unroll
        for (int c = 0; c < 32; c += 16) {
            // a_from[c * K + 8 * stage]: 4 sectors, ideal 4 (128 bytes in 4 runs)
            // As[stage][a_k][a_m + c]: 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
            __pipeline_memcpy_async(&As[stage][a_k][a_m + c], &a_from[c * K + 8 * stage], 4);
        }
        // b_from[8 * stage * N]: 16 sectors, ideal 16 (512 bytes side by side)
        // Bs[stage][b_k][b_n]: 4 wavefronts, ideal 4 (128 words over 32 banks)
        __pipeline_memcpy_async(&Bs[stage][b_k][b_n], &b_from[8 * stage * N], 16);
        __pipeline_commit();
    }

    __pipeline_wait_prior(2);
    __syncthreads();
    // the values of one k and of the next: one is multiplied while the other is read
    Vector<float, 4> a4[2];
    Vector<float, 4> b4[2];
    // As[0][0][row]: 2 wavefronts, ideal 2 (16 words, in different banks)
    a4[0] = *reinterpret_cast<const Vector<float, 4>*>(&As[0][0][row]);
    // Bs[0][0][column]: 2 wavefronts, ideal 2 (32 words, in different banks)
    b4[0] = *reinterpret_cast<const Vector<float, 4>*>(&Bs[0][0][column]);
    for (int k0 = 0; k0 < K / 4; k0 += 8) {
        const int current = k0 / 8;
        const int next = (k0 / 8 + 3) % 4;
        // behind the end of the sum its last step is copied again
        const int ahead = min(k0 + 24, K / 4 - 8);
        #pragma unroll
        for (int c = 0; c < 32; c += 16) {
            // a_from[c * K + ahead]: 4 sectors, ideal 4 (128 bytes in 4 runs)
            // As[next][a_k][a_m + c]: 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
            __pipeline_memcpy_async(&As[next][a_k][a_m + c], &a_from[c * K + ahead], 4);
        }
        // b_from[ahead * N]: 16 sectors, ideal 16 (512 bytes side by side)
        // Bs[next][b_k][b_n]: 4 wavefronts, ideal 4 (128 words over 32 banks)
        __pipeline_memcpy_async(&Bs[next][b_k][b_n], &b_from[ahead * N], 16);
        __pipeline_commit();
        #pragma unroll
        for (int k = 1; k < 8; ++k) {
            // As[current][k][row]: 2 wavefronts, ideal 2 (16 words, in different banks)
            a4[k % 2] = *reinterpret_cast<const Vector<float, 4>*>(&As[current][k][row]);
            // Bs[current][k][column]: 2 wavefronts, ideal 2 (32 words, in different banks)
            b4[k % 2] = *reinterpret_cast<const Vector<float, 4>*>(&Bs[current][k][column]);
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                #pragma unroll
                for (int t = 0; t < 4; ++t) {
                    // serpentine: every other row is walked backwards
                    const int j = i % 2 * (3 - 2 * t) + t;
                    sum[i][j] += a4[(k + 1) % 2].at[i] * b4[(k + 1) % 2].at[j];
                }
            }
        }
        __pipeline_wait_prior(2);
        __syncthreads();
        // what follows the last step is read in vain
        const int following = (k0 / 8 + 1) % 4;
        // As[following][0][row]: 2 wavefronts, ideal 2 (16 words, in different banks)
        a4[0] = *reinterpret_cast<const Vector<float, 4>*>(&As[following][0][row]);
        // Bs[following][0][column]: 2 wavefronts, ideal 2 (32 words, in different banks)
        b4[0] = *reinterpret_cast<const Vector<float, 4>*>(&Bs[following][0][column]);
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int t = 0; t < 4; ++t) {
                // serpentine: every other row is walked backwards
                const int j = i % 2 * (3 - 2 * t) + t;
                sum[i][j] += a4[1].at[i] * b4[1].at[j];
            }
        }
    }

    // each block leaves its part of the sums
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            // C_parts[((4 * tile + part) * 16 + 4 * i + j) * 128 + thread]: 4 sectors, ideal 4 (128 bytes side by side)
            C_parts[((4 * tile + part) * 16 + 4 * i + j) * 128 + thread] = sum[i][j];
        }
    }
    __shared__ int arrival_of_block;
    __syncthreads();
    if (thread == 0) {
        // arrival_of_block: 1 wavefront, ideal 1 (all lanes in one word: a broadcast)
        // C_arrived[tile]: assumed: 1 sector, ideal 1 (one address for all lanes)
        __threadfence();
        arrival_of_block = atomicInc(&C_arrived[tile], 3);
        __threadfence();
    }
    __syncthreads();
    // arrival_of_block: 1 wavefront, ideal 1 (all lanes in one word: a broadcast)
    const int arrival = arrival_of_block;
    if (arrival == 3) {
        // the last one adds them up, in the order of the parts
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                // C_parts[(4 * tile * 16 + 4 * i + j) * 128 + thread]: 4 sectors, ideal 4 (128 bytes side by side)
                sum[i][j] = C_parts[(4 * tile * 16 + 4 * i + j) * 128 + thread];
            }
        }
        #pragma unroll 1
        for (int p = 1; p < 4; ++p) {
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                #pragma unroll
                for (int j = 0; j < 4; ++j) {
                    // C_parts[((4 * tile + p) * 16 + 4 * i + j) * 128 + thread]: 4 sectors, ideal 4 (128 bytes side by side)
                    sum[i][j] += C_parts[((4 * tile + p) * 16 + 4 * i + j) * 128 + thread];
                }
            }
        }
        // unknown to the compiler: else the stores, not the sums, would decide in which registers these lie
        const float one = blockDim.z;
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int m = m0 + row + i;
            const int n = n0 + column;
            Vector<float, 4> c4;
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                c4.at[v] = one * sum[i][v];
            }
            // C[m * N + n]: 16 sectors, ideal 16 (512 bytes in 4 runs)
            *reinterpret_cast<Vector<float, 4>*>(&C[m * N + n]) = c4;
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" size_t gemm_split_workspace_bytes(void)
{
    return 256LL * ((32768 * ((M + 31) / 32) * ((N + 63) / 64) + 255) / 256)
        + 256 * ((4 * ((M + 31) / 32) * ((N + 63) / 64) + 255) / 256);
}

extern "C" cudaError_t gemm_split_launch(
    const float* A,
    const float* B,
    float* C,
    void* workspace,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    void* const memory = workspace;
    if (memory == nullptr)
        status = cudaMallocAsync(&workspace, gemm_split_workspace_bytes(), stream);
    if (status != cudaSuccess)
        return status;
    unsigned int* const C_arrived = reinterpret_cast<unsigned int*>(static_cast<char*>(workspace) + 0);
    float* const C_parts = reinterpret_cast<float*>(static_cast<char*>(workspace)
        + 256LL * ((4 * ((M + 31) / 32) * ((N + 63) / 64) + 255) / 256));
    cudaMemsetAsync(C_arrived, 0, 4LL * ((M + 31) / 32) * ((N + 63) / 64), stream);
    gemm_split<<<dim3(4 * ((M + 31) / 32) * ((N + 63) / 64)), dim3(128), 0,
        stream>>>(A, B, C, C_arrived, C_parts);
    if (memory == nullptr)
        cudaFreeAsync(workspace, stream);
    return cudaGetLastError();
}

#endif
