// gemm_f32: C = alpha·A·B + bias, the product of a dense layer; sizes are small here, and any others do
//
// computes  C[m, n] = alpha * sum(A[m, k] * B[k, n], k) + bias[n]
// params    M = 100, K = 60, N = 132
// A         input, float32 [100, 60], shared
// B         input, float32 [60, 132], shared, aligned to 16 bytes
// bias      input, float32 [132], aligned to 16 bytes
// C         output, float32 [100, 132], aligned to 16 bytes
// launch    grid (3, 4, 1), block (64, 1, 1), 12800 bytes of shared memory; family gemm
// analysis  sm_90: 16 accesses, 6 ideal, 7 costly, 1 assumed, 2 unknown
//           worst: As[next][a_k][a_m + c], 2 wavefronts, ideal 1 (lanes 0 and 12 copy from one bank)
//
// Made by cugen 0.1.0 from gemm_f32.yaml (hash 8ea528310423ab20) for sm_90. Edit the spec, not this file.

#include <cuda_pipeline_primitives.h>

constexpr int M = 100;
constexpr int K = 60;
constexpr int N = 132;

#ifndef CUGEN_VECTOR
#define CUGEN_VECTOR
// `count` elements that one access moves.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T at[count];
};
#endif

extern "C" __global__ void __launch_bounds__(64) gemm_f32(
    const float* __restrict__ A,
    const float* __restrict__ B,
    const float* __restrict__ bias,
    float* __restrict__ C,
    float alpha)
{
    // a ring of 4 stages, in which k is slow: k-major
    __shared__ __align__(16) float As[4][8][36];
    __shared__ __align__(16) float Bs[4][8][64];

    const int m0 = min(blockIdx.y * 32, M - 32);
    const int n0 = min(blockIdx.x * 64, N - 64);
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp = thread / 32;
    // the warp's share is 32 x 32
    // its lanes lie 4 x 8, neighbours so that pairs read alike
    const int lane_row = 2 * (lane / 16) + lane % 2;
    const int lane_column = lane / 2 % 8;
    const int row = 4 * lane_row;
    const int column = 32 * warp + 4 * lane_column;
    const int a_k = thread % 8;
    const int a_m = thread / 8;
    const int b_k = thread / 16;
    const int b_n = 4 * (thread % 16);

    float sum[8][4] = {};

    const float* a_from = &A[(m0 + a_m) * K + a_k - 4];
    const float* b_from = &B[(b_k - 4) * N + n0 + b_n];
    #pragma unroll
    for (int stage = 0; stage < 3; ++stage) {
        #pragma unroll
        for (int c = 0; c < 32; c += 8) {
            // a_from[c * K + 8 * stage]: 6 sectors, ideal 4; 5.33 on average (128 bytes in 4 runs)
            // As[stage][a_k][a_m + c]: assumed: 2 wavefronts, ideal 1; 1.5 on average
            __pipeline_memcpy_async(&As[stage][a_k][a_m + c], &a_from[c * K + 8 * stage], 4,
                a_k + 8 * stage - 4 >= 0 ? 0 : 4);
        }
        #pragma unroll
        for (int r = 0; r < 8; r += 4) {
            // b_from[(8 * stage + r) * N]: 17 sectors, ideal 16 (512 bytes in 2 runs)
            // Bs[stage][b_k + r][b_n]: unknown: its warps may copy from different parts of lines of 128 bytes
            __pipeline_memcpy_async(&Bs[stage][b_k + r][b_n], &b_from[(8 * stage + r) * N], 16,
                b_k + 8 * stage + r - 4 >= 0 ? 0 : 16);
        }
        __pipeline_commit();
    }

    __pipeline_wait_prior(2);
    __syncthreads();
    // the values of one k and of the next: one is multiplied while the other is read
    Vector<float, 4> a4[2][2];
    Vector<float, 4> b4[2];
    #pragma unroll
    for (int u = 0; u < 2; ++u) {
        // As[0][0][row + 16 * u]: 2 wavefronts, ideal 2 (16 words, in different banks)
        a4[0][u] = *reinterpret_cast<const Vector<float, 4>*>(&As[0][0][row + 16 * u]);
    }
    // Bs[0][0][column]: 2 wavefronts, ideal 2 (32 words, in different banks)
    b4[0] = *reinterpret_cast<const Vector<float, 4>*>(&Bs[0][0][column]);
    for (int k0 = 0, current = 0; k0 < K + 4; k0 += 8, current = current < 3 ? current + 1 : 0) {
        const int next = current > 0 ? current - 1 : 3;
        // behind the end of the sum its last step is copied again
        const int ahead = min(k0 + 24, K - 4);
        #pragma unroll
        for (int c = 0; c < 32; c += 8) {
            // a_from[c * K + ahead]: 6 sectors, ideal 4 (128 bytes in 4 runs)
            // As[next][a_k][a_m + c]: 2 wavefronts, ideal 1 (lanes 0 and 12 copy from one bank)
            __pipeline_memcpy_async(&As[next][a_k][a_m + c], &a_from[c * K + ahead], 4);
        }
        #pragma unroll
        for (int r = 0; r < 8; r += 4) {
            // b_from[(r + ahead) * N]: 17 sectors, ideal 16 (512 bytes in 2 runs)
            // Bs[next][b_k + r][b_n]: unknown: its warps may copy from different parts of lines of 128 bytes
            __pipeline_memcpy_async(&Bs[next][b_k + r][b_n], &b_from[(r + ahead) * N], 16);
        }
        __pipeline_commit();
        #pragma unroll
        for (int k = 1; k < 8; ++k) {
            #pragma unroll
            for (int u = 0; u < 2; ++u) {
                // As[current][k][row + 16 * u]: 2 wavefronts, ideal 2 (16 words, in different banks)
                a4[k % 2][u] = *reinterpret_cast<const Vector<float, 4>*>(&As[current][k][row + 16 * u]);
            }
            // Bs[current][k][column]: 2 wavefronts, ideal 2 (32 words, in different banks)
            b4[k % 2] = *reinterpret_cast<const Vector<float, 4>*>(&Bs[current][k][column]);
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                #pragma unroll
                for (int t = 0; t < 4; ++t) {
                    // serpentine: every other row is walked backwards
                    const int j = i % 2 * (3 - 2 * t) + t;
                    sum[i][j] += a4[(k + 1) % 2][i / 4].at[i % 4] * b4[(k + 1) % 2].at[j];
                }
            }
        }
        __pipeline_wait_prior(2);
        __syncthreads();
        // what follows the last step is read in vain
        const int following = current < 3 ? current + 1 : 0;
        #pragma unroll
        for (int u = 0; u < 2; ++u) {
            // As[following][0][row + 16 * u]: 2 wavefronts, ideal 2 (16 words, in different banks)
            a4[0][u] = *reinterpret_cast<const Vector<float, 4>*>(&As[following][0][row + 16 * u]);
        }
        // Bs[following][0][column]: 2 wavefronts, ideal 2 (32 words, in different banks)
        b4[0] = *reinterpret_cast<const Vector<float, 4>*>(&Bs[following][0][column]);
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            #pragma unroll
            for (int t = 0; t < 4; ++t) {
                // serpentine: every other row is walked backwards
                const int j = i % 2 * (3 - 2 * t) + t;
                sum[i][j] += a4[1][i / 4].at[i % 4] * b4[1].at[j];
            }
        }
    }

    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int m = m0 + row + 16 * (i / 4) + i % 4;
        const int n = n0 + column;
        // bias[n]: 5 sectors, ideal 4; 4.33 on average (starts 16 bytes into a sector)
        const auto bias4 = *reinterpret_cast<const Vector<float, 4>*>(&bias[n]);
        Vector<float, 4> c4;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            c4.at[v] = alpha * sum[i][v] + bias4.at[v];
        }
        // C[m * N + n]: 20 sectors, ideal 16; 18 on average (512 bytes in 4 runs)
        *reinterpret_cast<Vector<float, 4>*>(&C[m * N + n]) = c4;
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t gemm_f32_launch(
    const float* A,
    const float* B,
    const float* bias,
    float* C,
    float alpha,
    cudaStream_t stream)
{
    gemm_f32<<<dim3((N + 63) / 64, (M + 31) / 32), dim3(64), 0, stream>>>(A, B, bias, C, alpha);
    return cudaGetLastError();
}

#endif
