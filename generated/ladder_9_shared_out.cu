// ladder_9_shared_out: step 9: blocks stay; the last tiles are shared out by ranges of k, so that all multiprocessors end together
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 256, N = 256, K = 256
// A         input, float32 [256, 256], shared
// B         input, float32 [256, 256], shared, aligned to 16 bytes
// C         output, float32 [256, 256], aligned to 16 bytes
// launch    grid (16, 1, 1), block (256, 1, 1), 24836 bytes of shared memory; family gemm
// analysis  sm_90: 23 accesses, 18 ideal, 2 costly, 2 assumed, 1 unknown
//           worst: As[stage][a_k][a_m + c], 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
//
// Made by cugen 0.1.0 from product_ladder.yaml (hash 1d277c80925e30c4) for sm_90. Edit the spec, not this file.

#include <cuda_pipeline_primitives.h>

constexpr int N = 256;
constexpr int K = 256;

#ifndef CUGEN_FLOOR_DIV_INT
#define CUGEN_FLOOR_DIV_INT
// a / b rounded down, for a positive b.
__device__ __forceinline__ int floor_div(int a, int b)
{
    return a / b - (a % b < 0);
}
#endif

#ifndef CUGEN_VECTOR
#define CUGEN_VECTOR
// `count` elements that one access moves.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T at[count];
};
#endif

extern "C" __global__ void __launch_bounds__(256) ladder_9_shared_out(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C,
    unsigned int* C_flags,
    float* C_parts)
{
    // a ring of 2 stages, in which k is slow: k-major
    __shared__ __align__(16) float As[2][8][132];
    __shared__ __align__(16) float Bs[2][8][256];

    __shared__ int ticket_of_block;
    if (threadIdx.x == 0) {
        // ticket_of_block: 1 wavefront, ideal 1 (all lanes in one word: a broadcast)
        // C_flags[0]: assumed: 1 sector, ideal 1 (one address for all lanes)
        ticket_of_block = atomicInc(&C_flags[0], gridDim.x - 1);
    }
    __syncthreads();
    // ticket_of_block: 1 wavefront, ideal 1 (all lanes in one word: a broadcast)
    const int ticket = ticket_of_block;
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp = thread / 32;
    // the warp's share is 64 x 64
    // its lanes lie 4 x 8, neighbours so that pairs read alike
    const int lane_row = 2 * (lane / 16) + lane % 2;
    const int lane_column = lane / 2 % 8;
    const int row = 64 * (warp / 4) + 4 * lane_row;
    const int column = 64 * (warp % 4) + 4 * lane_column;
    const int a_k = thread % 8;
    const int a_m = thread / 8;
    const int b_k = thread / 32;
    const int b_n = 4 * (thread % 32);

    // 16 blocks share out the steps of 2 tiles: 32 of each, 4 to a block
    // the block's range, in a row of all tiles' steps
    const int first = 4 * ticket;
    const int last = first + 4;
    const int last_tile = floor_div(last - 1, 32);

    #pragma unroll 1
    for (int segment = 0; segment < 1; ++segment) {
        // first what others wait for: the range is walked from its end, tile by tile
        const int tile = last_tile - segment;
        const int first_step = max(first - 32 * tile, 0);
        const int last_step = min(last - 32 * tile, 32);
        // all have read what the ring held before
        __syncthreads();
        const int begin = 8 * first_step;
        const int length = 8 * last_step - 8 * first_step;
        const int m0 = 128 * (tile / ((N + 255) / 256));
        const int n0 = 256 * (tile % ((N + 255) / 256));
        float sum[16][8] = {};
        const float* a_from = &A[(m0 + a_m) * K + begin + a_k];
        const float* b_from = &B[(begin + b_k) * N + n0 + b_n];
        #pragma unroll
        for (int stage = 0; stage < 1; ++stage) {
            #pragma unroll
            for (int c = 0; c < 128; c += 32) {
                // a_from[c * K + 8 * stage]: 4 sectors, ideal 4 (128 bytes in 4 runs)
                // As[stage][a_k][a_m + c]: 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
                __pipeline_memcpy_async(&As[stage][a_k][a_m + c], &a_from[c * K + 8 * stage], 4);
            }
            #pragma unroll
            for (int c = 0; c < 256; c += 128) {
                // b_from[8 * stage * N + c]: 16 sectors, ideal 16 (512 bytes side by side)
                // Bs[stage][b_k][b_n + c]: 4 wavefronts, ideal 4 (128 words over 32 banks)
                __pipeline_memcpy_async(&Bs[stage][b_k][b_n + c], &b_from[8 * stage * N + c], 16);
            }
            __pipeline_commit();
        }
        __pipeline_wait_prior(0);
        __syncthreads();
        // the values of one k and of the next: one is multiplied while the other is read
        Vector<float, 4> a4[2][4];
        Vector<float, 4> b4[2][2];
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
            // As[0][0][row + 16 * u]: 2 wavefronts, ideal 2 (16 words, in different banks)
            a4[0][u] = *reinterpret_cast<const Vector<float, 4>*>(&As[0][0][row + 16 * u]);
        }
        #pragma unroll
        for (int u = 0; u < 2; ++u) {
            // Bs[0][0][column + 32 * u]: 2 wavefronts, ideal 2 (32 words, in different banks)
            b4[0][u] = *reinterpret_cast<const Vector<float, 4>*>(&Bs[0][0][column + 32 * u]);
        }
        for (int k0 = 0, current = 0; k0 < length; k0 += 8, current = 1 - current) {
            const int next = 1 - current;
            // behind the end of the sum its last step is copied again
            const int ahead = min(k0 + 8, length - 8);
            #pragma unroll
            for (int c = 0; c < 128; c += 32) {
                // a_from[c * K + ahead]: 4 sectors, ideal 4 (128 bytes in 4 runs)
                // As[next][a_k][a_m + c]: 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
                __pipeline_memcpy_async(&As[next][a_k][a_m + c], &a_from[c * K + ahead], 4);
            }
            #pragma unroll
            for (int c = 0; c < 256; c += 128) {
                // b_from[ahead * N + c]: 16 sectors, ideal 16 (512 bytes side by side)
                // Bs[next][b_k][b_n + c]: 4 wavefronts, ideal 4 (128 words over 32 banks)
                __pipeline_memcpy_async(&Bs[next][b_k][b_n + c], &b_from[ahead * N + c], 16);
            }
            __pipeline_commit();
            #pragma unroll
            for (int k = 1; k < 8; ++k) {
                #pragma unroll
                for (int u = 0; u < 4; ++u) {
                    // As[current][k][row + 16 * u]: 2 wavefronts, ideal 2 (16 words, in different banks)
                    a4[k % 2][u] = *reinterpret_cast<const Vector<float, 4>*>(&As[current][k][row + 16 * u]);
                }
                #pragma unroll
                for (int u = 0; u < 2; ++u) {
                    // Bs[current][k][column + 32 * u]: 2 wavefronts, ideal 2 (32 words, in different banks)
                    b4[k % 2][u] = *reinterpret_cast<const Vector<float, 4>*>(&Bs[current][k][column + 32 * u]);
                }
                #pragma unroll
                for (int i = 0; i < 16; ++i) {
                    #pragma unroll
                    for (int t = 0; t < 8; ++t) {
                        // serpentine: every other row is walked backwards
                        const int j = i % 2 * (7 - 2 * t) + t;
                        sum[i][j] += a4[(k + 1) % 2][i / 4].at[i % 4] * b4[(k + 1) % 2][j / 4].at[j % 4];
                    }
                }
            }
            __pipeline_wait_prior(0);
            __syncthreads();
            // what follows the last step is read in vain
            const int following = 1 - current;
            #pragma unroll
            for (int u = 0; u < 4; ++u) {
                // As[following][0][row + 16 * u]: 2 wavefronts, ideal 2 (16 words, in different banks)
                a4[0][u] = *reinterpret_cast<const Vector<float, 4>*>(&As[following][0][row + 16 * u]);
            }
            #pragma unroll
            for (int u = 0; u < 2; ++u) {
                // Bs[following][0][column + 32 * u]: 2 wavefronts, ideal 2 (32 words, in different banks)
                b4[0][u] = *reinterpret_cast<const Vector<float, 4>*>(&Bs[following][0][column + 32 * u]);
            }
            #pragma unroll
            for (int i = 0; i < 16; ++i) {
                #pragma unroll
                for (int t = 0; t < 8; ++t) {
                    // serpentine: every other row is walked backwards
                    const int j = i % 2 * (7 - 2 * t) + t;
                    sum[i][j] += a4[1][i / 4].at[i % 4] * b4[1][j / 4].at[j % 4];
                }
            }
        }
        // copies that nobody reads may still be on their way
        __pipeline_wait_prior(0);
        if (last_step < 32) {
            // the block that has the tile's end adds up what the others leave
            #pragma unroll
            for (int i = 0; i < 16; ++i) {
                #pragma unroll
                for (int j = 0; j < 8; ++j) {
                    // C_parts[(ticket * 128 + 8 * i + j) * 256 + thread]: 4 sectors, ideal 4 (128 bytes side by side)
                    C_parts[(ticket * 128 + 8 * i + j) * 256 + thread] = sum[i][j];
                }
            }
            __syncthreads();
            if (thread == 0) {
                // C_flags[ticket + 1]: assumed: 1 sector, ideal 1 (one address for all lanes)
                __threadfence();
                atomicExch(&C_flags[ticket + 1], 1U);
            }
        } else {
            const int earlier = (first_step + 3) / 4;
            const int first_of_tile = ticket - earlier;
            if (earlier > 0) {
                if (thread < earlier) {
                    // C_flags[thread + first_of_tile + 1]: unknown: how often it asks depends on when another block answers
                    while (__ldcv(&C_flags[thread + first_of_tile + 1]) != 1U)
                        __nanosleep(32);
                    __threadfence();
                    // zero again for the next launch
                    // C_flags[thread + first_of_tile + 1]: 1 sector, ideal 1 (28 bytes side by side)
                    C_flags[thread + first_of_tile + 1] = 0U;
                }
                __syncthreads();
                #pragma unroll 1
                for (int p = 0; p < earlier; ++p) {
                    #pragma unroll
                    for (int i = 0; i < 16; ++i) {
                        #pragma unroll
                        for (int j = 0; j < 8; ++j) {
                            // C_parts[((first_of_tile + p) * 128 + 8 * i + j) * 256 + thread]: 4 sectors, ideal 4 (128 bytes side by side)
                            sum[i][j] += C_parts[((first_of_tile + p) * 128 + 8 * i + j) * 256 + thread];
                        }
                    }
                }
            }
            // unknown to the compiler: else the stores, not the sums, would decide in which registers these lie
            const float one = blockDim.z;
            #pragma unroll
            for (int i = 0; i < 16; ++i) {
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
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" size_t ladder_9_shared_out_workspace_bytes(void)
{
    return 2097408LL;
}

extern "C" cudaError_t ladder_9_shared_out_launch(
    const float* A,
    const float* B,
    float* C,
    void* workspace,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    void* const memory = workspace;
    if (memory == nullptr)
        status = cudaMallocAsync(&workspace, ladder_9_shared_out_workspace_bytes(), stream);
    if (status != cudaSuccess)
        return status;
    unsigned int* const C_flags = reinterpret_cast<unsigned int*>(static_cast<char*>(workspace) + 0);
    float* const C_parts = reinterpret_cast<float*>(static_cast<char*>(workspace) + 256LL);
    cudaMemsetAsync(C_flags, 0, 68LL, stream);
    ladder_9_shared_out<<<dim3(16), dim3(256), 0, stream>>>(A, B, C, C_flags, C_parts);
    if (memory == nullptr)
        cudaFreeAsync(workspace, stream);
    return cudaGetLastError();
}

#endif
