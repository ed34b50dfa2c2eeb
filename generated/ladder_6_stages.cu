// ladder_6_stages: step 6: A lies k-major, so that reads are 16 bytes wide; copies are asynchronous, and the next tile is on its way
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 256, N = 256, K = 256
// A         input, float32 [256, 256], shared
// B         input, float32 [256, 256], shared, aligned to 16 bytes
// C         output, float32 [256, 256], aligned to 16 bytes
// launch    grid (2, 2, 1), block (256, 1, 1), 16640 bytes of shared memory; family gemm
// analysis  sm_90: 15 accesses, 13 ideal, 2 costly
//           worst: As[stage][a_k][a_m + c], 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
//
// Made by cugen 0.1.0 from product_ladder.yaml (hash 4188962f5ecea6f3) for sm_90. Edit the spec, not this file.

#include <cuda_pipeline_primitives.h>

constexpr int N = 256;
constexpr int K = 256;

#ifndef CUGEN_VECTOR
#define CUGEN_VECTOR
// `count` elements that one access moves.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T at[count];
};
#endif

extern "C" __global__ void __launch_bounds__(256) ladder_6_stages(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    // a ring of 2 stages, in which k is slow: k-major
    __shared__ __align__(16) float As[2][8][132];
    __shared__ __align__(16) float Bs[2][8][128];

    const int m0 = blockIdx.y * 128;
    const int n0 = blockIdx.x * 128;
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp = thread / 32;
    // the warp's share is 32 x 64
    // its lanes lie 4 x 8, neighbours so that pairs read alike
    const int lane_row = 2 * (lane / 16) + lane % 2;
    const int lane_column = lane / 2 % 8;
    const int row = 32 * (warp / 2) + 4 * lane_row;
    const int column = 64 * (warp % 2) + 4 * lane_column;
    const int a_k = thread % 8;
    const int a_m = thread / 8;
    const int b_k = thread / 32;
    const int b_n = 4 * (thread % 32);

    float sum[8][8] = {};

    const float* a_from = &A[(m0 + a_m) * K + a_k];
    const float* b_from = &B[b_k * N + n0 + b_n];
    #pragma unroll
    for (int stage = 0; stage < 1; ++stage) {
        #pragma unroll
        for (int c = 0; c < 128; c += 32) {
            // a_from[c * K + 8 * stage]: 4 sectors, ideal 4 (128 bytes in 4 runs)
            // As[stage][a_k][a_m + c]: 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
            __pipeline_memcpy_async(&As[stage][a_k][a_m + c], &a_from[c * K + 8 * stage], 4);
        }
        // b_from[8 * stage * N]: 16 sectors, ideal 16 (512 bytes side by side)
        // Bs[stage][b_k][b_n]: 4 wavefronts, ideal 4 (128 words over 32 banks)
        __pipeline_memcpy_async(&Bs[stage][b_k][b_n], &b_from[8 * stage * N], 16);
        __pipeline_commit();
    }

    __pipeline_wait_prior(0);
    __syncthreads();
    // the values of one k and of the next: one is multiplied while the other is read
    Vector<float, 4> a4[2][2];
    Vector<float, 4> b4[2][2];
    #pragma unroll
    for (int u = 0; u < 2; ++u) {
        // As[0][0][row + 16 * u]: 2 wavefronts, ideal 2 (16 words, in different banks)
        a4[0][u] = *reinterpret_cast<const Vector<float, 4>*>(&As[0][0][row + 16 * u]);
    }
    #pragma unroll
    for (int u = 0; u < 2; ++u) {
        // Bs[0][0][column + 32 * u]: 2 wavefronts, ideal 2 (32 words, in different banks)
        b4[0][u] = *reinterpret_cast<const Vector<float, 4>*>(&Bs[0][0][column + 32 * u]);
    }
    for (int k0 = 0, current = 0; k0 < K; k0 += 8, current = 1 - current) {
        const int next = 1 - current;
        // behind the end of the sum its last step is copied again
        const int ahead = min(k0 + 8, K - 8);
        #pragma unroll
        for (int c = 0; c < 128; c += 32) {
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
            #pragma unroll
            for (int u = 0; u < 2; ++u) {
                // As[current][k][row + 16 * u]: 2 wavefronts, ideal 2 (16 words, in different banks)
                a4[k % 2][u] = *reinterpret_cast<const Vector<float, 4>*>(&As[current][k][row + 16 * u]);
            }
            #pragma unroll
            for (int u = 0; u < 2; ++u) {
                // Bs[current][k][column + 32 * u]: 2 wavefronts, ideal 2 (32 words, in different banks)
                b4[k % 2][u] = *reinterpret_cast<const Vector<float, 4>*>(&Bs[current][k][column + 32 * u]);
            }
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                #pragma unroll
                for (int j = 0; j < 8; ++j) {
                    sum[i][j] += a4[(k + 1) % 2][i / 4].at[i % 4] * b4[(k + 1) % 2][j / 4].at[j % 4];
                }
            }
        }
        __pipeline_wait_prior(0);
        __syncthreads();
        // what follows the last step is read in vain
        const int following = 1 - current;
        #pragma unroll
        for (int u = 0; u < 2; ++u) {
            // As[following][0][row + 16 * u]: 2 wavefronts, ideal 2 (16 words, in different banks)
            a4[0][u] = *reinterpret_cast<const Vector<float, 4>*>(&As[following][0][row + 16 * u]);
        }
        #pragma unroll
        for (int u = 0; u < 2; ++u) {
            // Bs[following][0][column + 32 * u]: 2 wavefronts, ideal 2 (32 words, in different banks)
            b4[0][u] = *reinterpret_cast<const Vector<float, 4>*>(&Bs[following][0][column + 32 * u]);
        }
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            #pragma unroll
            for (int j = 0; j < 8; ++j) {
                sum[i][j] += a4[1][i / 4].at[i % 4] * b4[1][j / 4].at[j % 4];
            }
        }
    }

    // unknown to the compiler: else the stores, not the sums, would decide in which registers these lie
    const float one = blockDim.z;
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int m = m0 + row + 16 * (i / 4) + i % 4;
        #pragma unroll
        for (int g = 0; g < 2; ++g) {
            const int n = n0 + column + 32 * g;
            Vector<float, 4> c4;
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                c4.at[v] = one * sum[i][4 * g + v];
            }
            // C[m * N + n]: 16 sectors, ideal 16 (512 bytes in 4 runs)
            *reinterpret_cast<Vector<float, 4>*>(&C[m * N + n]) = c4;
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 256;

extern "C" cudaError_t ladder_6_stages_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    ladder_6_stages<<<dim3((N + 127) / 128, (M + 127) / 128), dim3(256), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
