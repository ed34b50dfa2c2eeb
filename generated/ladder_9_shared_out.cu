// ladder_9_shared_out: step 9: stream-K; the k-tiles of the last wave are distributed evenly over all multiprocessors
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 256, N = 256, K = 256
// A         input, float32 [256, 256], shared
// B         input, float32 [256, 256], shared, aligned to 16 bytes
// C         output, float32 [256, 256], aligned to 16 bytes
// launch    grid (16, 1, 1), block (256, 1, 1), 24836 bytes of shared memory; family gemm
// pipeline  proved for every number of k-tiles: 2 stages, commit groups and barriers order copies and reads
// bounds    28 of 28 accesses proved
// analysis  sm_90: 23 accesses, 18 ideal, 2 costly, 2 assumed, 1 unknown
//           worst: As[stage][a_k][a_m + c], 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
//
// Made by cugen 0.1.0 from product_ladder.yaml (hash 83906a9532927016) for sm_90. Edit the spec, not this file.

#include <cuda_pipeline_primitives.h>

constexpr int N = 256;
constexpr int K = 256;

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

#ifndef CUGEN_STORE
#define CUGEN_STORE
// Vector store of `count` elements; of 4 bytes as one word, since nvcc may split the store of two 16-bit elements.
template <int count, typename T>
__device__ __forceinline__ void store(T* address, const Vector<T, count>& value)
{
    if constexpr (sizeof(value) == sizeof(unsigned)) {
        unsigned word;
        memcpy(&word, &value, sizeof(word));
        *reinterpret_cast<unsigned*>(address) = word;
    } else {
        *reinterpret_cast<Vector<T, count>*>(address) = value;
    }
}
#endif

extern "C" __global__ void __launch_bounds__(256) ladder_9_shared_out(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C,
    unsigned int* C_flags,
    float* C_partials)
{
    constexpr int BM = 128, BN = 256, BK = 8, STAGES = 2, TM = 16, TN = 8, WM = 64, WN = 64;

    // circular buffer of 2 stages, [stage][k][m or n]
    __shared__ __align__(16) float As[STAGES][BK][BM + 4];
    __shared__ __align__(16) float Bs[STAGES][BK][BN];

    __shared__ int shared_block_id;
    if (threadIdx.x == 0) {
        // shared_block_id: 1 wavefront, ideal 1 (one word: broadcast)
        // C_flags[0]: assumed: 1 sector, ideal 1 (uniform address)
        shared_block_id = atomicInc(&C_flags[0], gridDim.x - 1);
    }
    __syncthreads();
    // shared_block_id: 1 wavefront, ideal 1 (one word: broadcast)
    const int block_id = shared_block_id;
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp = thread / 32;
    // warp tile 64 x 64, lanes 4 x 8 interleaved so that lane pairs broadcast
    const int lane_m = 2 * (lane / 16) + lane % 2;
    const int lane_n = lane / 2 % 8;
    const int thread_m = WM * (warp / 4) + 4 * lane_m;
    const int thread_n = WN * (warp % 4) + 4 * lane_n;
    const int a_k = thread % 8;
    const int a_m = thread / 8;
    const int b_k = thread / 32;
    const int b_n = 4 * (thread % 32);

    // stream-K: 16 blocks divide the k-tiles of 2 tiles: 32 k-tiles of a tile, 4 of a block
    // the block's range of k-tiles
    const int range_begin = 4 * block_id;
    const int range_end = range_begin + 4;
    const int tile = range_begin / 32;
    const int k_tile_begin = range_begin - 32 * tile;
    const int k_tile_end = range_end - 32 * tile;
    const int k_offset = BK * k_tile_begin;
    const int k_length = BK * k_tile_end - BK * k_tile_begin;
    const int m0 = BM * (tile / ((N + BN - 1) / BN));
    const int n0 = BN * (tile % ((N + BN - 1) / BN));
    float acc[TM][TN] = {};
    const float* a_global = &A[(m0 + a_m) * K + k_offset + a_k];
    const float* b_global = &B[(k_offset + b_k) * N + n0 + b_n];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        #pragma unroll
        for (int c = 0; c < BM; c += 32) {
            // a_global[c * K + BK * stage]: 4 sectors, ideal 4 (128 bytes in 4 runs)
            // As[stage][a_k][a_m + c]: 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
            __pipeline_memcpy_async(&As[stage][a_k][a_m + c], &a_global[c * K + BK * stage], 4);
        }
        #pragma unroll
        for (int c = 0; c < BN; c += 128) {
            // b_global[BK * stage * N + c]: 16 sectors, ideal 16 (512 contiguous bytes)
            // Bs[stage][b_k][b_n + c]: 4 wavefronts, ideal 4 (128 words over 32 banks)
            __pipeline_memcpy_async(&Bs[stage][b_k][b_n + c], &b_global[BK * stage * N + c], 16);
        }
        __pipeline_commit();
    }
    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    // register fragments of A and B for one k, double-buffered
    Vector<float, 4> a_frag[2][TM / 4];
    Vector<float, 4> b_frag[2][TN / 4];
    #pragma unroll
    for (int u = 0; u < TM / 4; ++u) {
        // As[0][0][thread_m + 16 * u]: 2 wavefronts, ideal 2 (conflict-free)
        a_frag[0][u] = load<4>(&As[0][0][thread_m + 16 * u]);
    }
    #pragma unroll
    for (int u = 0; u < TN / 4; ++u) {
        // Bs[0][0][thread_n + 32 * u]: 2 wavefronts, ideal 2 (conflict-free)
        b_frag[0][u] = load<4>(&Bs[0][0][thread_n + 32 * u]);
    }
    for (int k0 = 0, read_stage = 0; k0 < k_length; k0 += BK, read_stage = 1 - read_stage) {
        const int write_stage = 1 - read_stage;
        // past the last k-tile: copy it again, so that the loop has no branch
        const int prefetch_k = min(k0 + BK * (STAGES - 1), k_length - BK);
        #pragma unroll
        for (int c = 0; c < BM; c += 32) {
            // a_global[c * K + prefetch_k]: 4 sectors, ideal 4 (128 bytes in 4 runs)
            // As[write_stage][a_k][a_m + c]: 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
            __pipeline_memcpy_async(&As[write_stage][a_k][a_m + c], &a_global[c * K + prefetch_k], 4);
        }
        #pragma unroll
        for (int c = 0; c < BN; c += 128) {
            // b_global[prefetch_k * N + c]: 16 sectors, ideal 16 (512 contiguous bytes)
            // Bs[write_stage][b_k][b_n + c]: 4 wavefronts, ideal 4 (128 words over 32 banks)
            __pipeline_memcpy_async(&Bs[write_stage][b_k][b_n + c], &b_global[prefetch_k * N + c], 16);
        }
        __pipeline_commit();
        #pragma unroll
        for (int k = 1; k < BK; ++k) {
            #pragma unroll
            for (int u = 0; u < TM / 4; ++u) {
                // As[read_stage][k][thread_m + 16 * u]: 2 wavefronts, ideal 2 (conflict-free)
                a_frag[k % 2][u] = load<4>(&As[read_stage][k][thread_m + 16 * u]);
            }
            #pragma unroll
            for (int u = 0; u < TN / 4; ++u) {
                // Bs[read_stage][k][thread_n + 32 * u]: 2 wavefronts, ideal 2 (conflict-free)
                b_frag[k % 2][u] = load<4>(&Bs[read_stage][k][thread_n + 32 * u]);
            }
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                #pragma unroll
                for (int t = 0; t < TN; ++t) {
                    // serpentine: every other row backwards
                    const int j = i % 2 == 0 ? t : TN - t - 1;
                    acc[i][j] += a_frag[(k + 1) % 2][i / 4].data[i % 4] * b_frag[(k + 1) % 2][j / 4].data[j % 4];
                }
            }
        }
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        // fragments of the next k-tile; unused after the last
        const int next_stage = 1 - read_stage;
        #pragma unroll
        for (int u = 0; u < TM / 4; ++u) {
            // As[next_stage][0][thread_m + 16 * u]: 2 wavefronts, ideal 2 (conflict-free)
            a_frag[0][u] = load<4>(&As[next_stage][0][thread_m + 16 * u]);
        }
        #pragma unroll
        for (int u = 0; u < TN / 4; ++u) {
            // Bs[next_stage][0][thread_n + 32 * u]: 2 wavefronts, ideal 2 (conflict-free)
            b_frag[0][u] = load<4>(&Bs[next_stage][0][thread_n + 32 * u]);
        }
        #pragma unroll
        for (int i = 0; i < TM; ++i) {
            #pragma unroll
            for (int t = 0; t < TN; ++t) {
                // serpentine: every other row backwards
                const int j = i % 2 == 0 ? t : TN - t - 1;
                acc[i][j] += a_frag[1][i / 4].data[i % 4] * b_frag[1][j / 4].data[j % 4];
            }
        }
    }
    // drain the outstanding copies
    __pipeline_wait_prior(0);
    if (k_tile_end < 32) {
        // the block that finishes the tile adds the partial sums
        #pragma unroll
        for (int i = 0; i < TM; ++i) {
            #pragma unroll
            for (int j = 0; j < TN; ++j) {
                // C_partials[(block_id * (TM * TN) + TN * i + j) * 256 + thread]: 4 sectors,
                // ideal 4 (128 contiguous bytes)
                C_partials[(block_id * (TM * TN) + TN * i + j) * 256 + thread] = acc[i][j];
            }
        }
        __syncthreads();
        if (thread == 0) {
            __threadfence();
            // C_flags[block_id + 1]: assumed: 1 sector, ideal 1 (uniform address)
            atomicExch(&C_flags[block_id + 1], 1U);
        }
    } else {
        const int peers = (k_tile_begin + 3) / 4;
        const int first_peer = block_id - peers;
        if (peers > 0) {
            if (thread < peers) {
                // C_flags[first_peer + thread + 1]: unknown: the number of polls of a spin-wait is not static
                while (__ldcv(&C_flags[first_peer + thread + 1]) != 1U)
                    __nanosleep(32);
                __threadfence();
                // zero again for the next launch
                // C_flags[first_peer + thread + 1]: 1 sector, ideal 1 (28 contiguous bytes)
                C_flags[first_peer + thread + 1] = 0U;
            }
            __syncthreads();
            #pragma unroll 1
            for (int p = 0; p < peers; ++p) {
                #pragma unroll
                for (int i = 0; i < TM; ++i) {
                    #pragma unroll
                    for (int j = 0; j < TN; ++j) {
                        // C_partials[((first_peer + p) * (TM * TN) + TN * i + j) * 256 + thread]: 4 sectors,
                        // ideal 4 (128 contiguous bytes)
                        acc[i][j] += C_partials[((first_peer + p) * (TM * TN) + TN * i + j) * 256 + thread];
                    }
                }
            }
        }
        // opaque 1.0f: keeps ptxas from choosing accumulator registers for the vector stores, which
        // causes register-bank conflicts
        const float opaque_one = blockDim.z;
        #pragma unroll
        for (int i = 0; i < TM; ++i) {
            const int m = m0 + thread_m + 16 * (i / 4) + i % 4;
            #pragma unroll
            for (int g = 0; g < TN / 4; ++g) {
                const int n = n0 + thread_n + 32 * g;
                Vector<float, 4> c4;
                #pragma unroll
                for (int v = 0; v < 4; ++v) {
                    c4.data[v] = opaque_one * acc[i][4 * g + v];
                }
                // C[m * N + n]: 16 sectors, ideal 16 (512 bytes in 4 runs)
                store<4>(&C[m * N + n], c4);
            }
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" size_t ladder_9_shared_out_workspace_bytes(void)
{
    return 2097408;
}

extern "C" cudaError_t ladder_9_shared_out_launch(
    const float* A,
    const float* B,
    float* C,
    void* workspace,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    const bool allocates = workspace == nullptr;
    if (allocates)
        status = cudaMallocAsync(&workspace, ladder_9_shared_out_workspace_bytes(), stream);
    if (status != cudaSuccess)
        return status;
    unsigned int* const C_flags = static_cast<unsigned int*>(workspace);
    float* const C_partials = reinterpret_cast<float*>(static_cast<char*>(workspace) + 256);
    cudaMemsetAsync(C_flags, 0, 68, stream);
    ladder_9_shared_out<<<dim3(16), dim3(256), 0, stream>>>(A, B, C, C_flags, C_partials);
    if (allocates)
        cudaFreeAsync(workspace, stream);
    return cudaGetLastError();
}

#endif
