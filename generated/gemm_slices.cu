// gemm_slices: C = A·B where blocks are few; groups of warps share out the sum of each, and add theirs in a fixed order
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 96, K = 160, N = 128
// A         input, float32 [96, 160]
// B         input, float32 [160, 128], aligned to 16 bytes
// C         output, float32 [96, 128], aligned to 16 bytes
// launch    grid (2, 3, 1), block (256, 1, 1), 38400 bytes of dynamic shared memory; family gemm
// analysis  sm_90: 17 accesses, 15 ideal, 2 costly
//           worst: As[stage][a_k][a_m + c], 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
//
// Made by cugen 0.1.0 from gemm_slices.yaml (hash a9b127e69217fdcd) for sm_90. Edit the spec, not this file.

#include <cuda_pipeline_primitives.h>

constexpr int K = 160;
constexpr int N = 128;

#ifndef CUGEN_VECTOR
#define CUGEN_VECTOR
// `count` elements that one access moves.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T at[count];
};
#endif

extern "C" __global__ void __launch_bounds__(256) gemm_slices(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    extern __shared__ __align__(16) unsigned char shared_memory[];

    // a ring of 3 stages, in which k is slow: k-major
    float (*As)[32][36] = reinterpret_cast<float (*)[32][36]>(shared_memory);
    float (*Bs)[32][64] = reinterpret_cast<float (*)[32][64]>(shared_memory + 13824);
    float (*parts)[32][68] = reinterpret_cast<float (*)[32][68]>(shared_memory);

    const int m0 = blockIdx.y * 32;
    const int n0 = blockIdx.x * 64;
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    // each of 4 slices takes 8 of every 32 products; it copies these itself, and waits for no other
    const int slice = thread / 64;
    const int thread_in_slice = thread % 64;
    const int warp = thread_in_slice / 32;
    // the warp's share is 16 x 64
    // its lanes lie 4 x 8, neighbours so that pairs read alike
    const int lane_row = 2 * (lane / 16) + lane % 2;
    const int lane_column = lane / 2 % 8;
    const int row = 16 * warp + 4 * lane_row;
    const int column = 4 * lane_column;
    const int a_k = 8 * slice + thread_in_slice % 8;
    const int a_m = thread_in_slice / 8;
    const int b_k = 8 * slice + thread_in_slice / 16;
    const int b_n = 4 * (thread_in_slice % 16);

    float sum[4][8] = {};

    const float* a_from = &A[(m0 + a_m) * K + a_k];
    const float* b_from = &B[b_k * N + n0 + b_n];
    #pragma unroll
    for (int stage = 0; stage < 2; ++stage) {
        #pragma unroll
        for (int c = 0; c < 32; c += 8) {
            // a_from[c * K + 32 * stage]: 4 sectors, ideal 4 (128 bytes in 4 runs)
            // As[stage][a_k][a_m + c]: 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
            __pipeline_memcpy_async(&As[stage][a_k][a_m + c], &a_from[c * K + 32 * stage], 4);
        }
        #pragma unroll
        for (int r = 0; r < 8; r += 4) {
            // b_from[(32 * stage + r) * N]: 16 sectors, ideal 16 (512 bytes in 2 runs)
            // Bs[stage][b_k + r][b_n]: 4 wavefronts, ideal 4 (128 words over 32 banks)
            __pipeline_memcpy_async(&Bs[stage][b_k + r][b_n], &b_from[(32 * stage + r) * N], 16);
        }
        __pipeline_commit();
    }

    __pipeline_wait_prior(1);
    __barrier_sync_count(slice + 1, 64);
    // the values of one k and of the next: one is multiplied while the other is read
    const float (*a_own)[32][36] = reinterpret_cast<const float (*)[32][36]>(&As[0][8 * slice][row]);
    const float (*b_own)[32][64] = reinterpret_cast<const float (*)[32][64]>(&Bs[0][8 * slice][column]);
    Vector<float, 4> a4[2];
    Vector<float, 4> b4[2][2];
    // a_own[0][0][0]: 2 wavefronts, ideal 2 (16 words, in different banks)
    a4[0] = *reinterpret_cast<const Vector<float, 4>*>(&a_own[0][0][0]);
    #pragma unroll
    for (int u = 0; u < 2; ++u) {
        // b_own[0][0][32 * u]: 2 wavefronts, ideal 2 (32 words, in different banks)
        b4[0][u] = *reinterpret_cast<const Vector<float, 4>*>(&b_own[0][0][32 * u]);
    }
    for (int k0 = 0, current = 0; k0 < K; k0 += 32, current = current < 2 ? current + 1 : 0) {
        const int next = current > 0 ? current - 1 : 2;
        // behind the end of the sum its last step is copied again
        const int ahead = min(k0 + 64, K - 32);
        #pragma unroll
        for (int k = 1; k < 8; ++k) {
            if (k == 2) {
                #pragma unroll
                for (int c = 0; c < 32; c += 8) {
                    // a_from[c * K + ahead]: 4 sectors, ideal 4 (128 bytes in 4 runs)
                    // As[next][a_k][a_m + c]: 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
                    __pipeline_memcpy_async(&As[next][a_k][a_m + c], &a_from[c * K + ahead], 4);
                }
            }
            if (k == 4) {
                #pragma unroll
                for (int r = 0; r < 8; r += 4) {
                    // b_from[(r + ahead) * N]: 16 sectors, ideal 16 (512 bytes in 2 runs)
                    // Bs[next][b_k + r][b_n]: 4 wavefronts, ideal 4 (128 words over 32 banks)
                    __pipeline_memcpy_async(&Bs[next][b_k + r][b_n], &b_from[(r + ahead) * N], 16);
                }
                __pipeline_commit();
            }
            // a_own[current][k][0]: 2 wavefronts, ideal 2 (16 words, in different banks)
            a4[k % 2] = *reinterpret_cast<const Vector<float, 4>*>(&a_own[current][k][0]);
            #pragma unroll
            for (int u = 0; u < 2; ++u) {
                // b_own[current][k][32 * u]: 2 wavefronts, ideal 2 (32 words, in different banks)
                b4[k % 2][u] = *reinterpret_cast<const Vector<float, 4>*>(&b_own[current][k][32 * u]);
            }
            #pragma unroll
            for (int j = 0; j < 8; ++j) {
                #pragma unroll
                for (int t = 0; t < 4; ++t) {
                    // serpentine: every other column is walked backwards
                    const int i = j % 2 * (3 - 2 * t) + t;
                    sum[i][j] += a4[(k + 1) % 2].at[i] * b4[(k + 1) % 2][j / 4].at[j % 4];
                }
            }
        }
        __pipeline_wait_prior(1);
        __barrier_sync_count(slice + 1, 64);
        // what follows the last step is read in vain
        const int following = current < 2 ? current + 1 : 0;
        // a_own[following][0][0]: 2 wavefronts, ideal 2 (16 words, in different banks)
        a4[0] = *reinterpret_cast<const Vector<float, 4>*>(&a_own[following][0][0]);
        #pragma unroll
        for (int u = 0; u < 2; ++u) {
            // b_own[following][0][32 * u]: 2 wavefronts, ideal 2 (32 words, in different banks)
            b4[0][u] = *reinterpret_cast<const Vector<float, 4>*>(&b_own[following][0][32 * u]);
        }
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            #pragma unroll
            for (int t = 0; t < 4; ++t) {
                // serpentine: every other column is walked backwards
                const int i = j % 2 * (3 - 2 * t) + t;
                sum[i][j] += a4[1].at[i] * b4[1][j / 4].at[j % 4];
            }
        }
    }
    // copies that nobody reads may still be on their way
    __pipeline_wait_prior(0);

    // unknown to the compiler: else the stores, not the sums, would decide in which registers these lie
    const float one = blockDim.z;
    // the slices' sums, in the memory of the ring, which all have read
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        #pragma unroll
        for (int g = 0; g < 2; ++g) {
            Vector<float, 4> part;
            #pragma unroll
            for (int w = 0; w < 4; ++w) {
                part.at[w] = one * sum[i][4 * g + w];
            }
            // parts[slice][row + i][column + 32 * g]: 4 wavefronts, ideal 4 (128 words over 32 banks)
            *reinterpret_cast<Vector<float, 4>*>(&parts[slice][row + i][column + 32 * g]) = part;
        }
    }
    __syncthreads();
    #pragma unroll
    for (int e = 0; e < 512; e += 256) {
        const int m = m0 + (thread + e) / 16;
        const int n = n0 + 4 * ((thread + e) % 16);
        Vector<float, 4> part4[4];
        #pragma unroll
        for (int s = 0; s < 4; ++s) {
            // parts[s][(thread + e) / 16][4 * ((thread + e) % 16)]: 4 wavefronts, ideal 4 (128 words over 32 banks)
            part4[s] = *reinterpret_cast<const Vector<float, 4>*>(&parts[s][(thread + e) / 16][4
                * ((thread + e) % 16)]);
        }
        Vector<float, 4> c4;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            c4.at[v] = part4[0].at[v] + part4[1].at[v] + part4[2].at[v] + part4[3].at[v];
        }
        // C[m * N + n]: 16 sectors, ideal 16 (512 bytes in 2 runs)
        *reinterpret_cast<Vector<float, 4>*>(&C[m * N + n]) = c4;
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 96;

extern "C" cudaError_t gemm_slices_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    gemm_slices<<<dim3((N + 63) / 64, (M + 31) / 32), dim3(256), 38400, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
