// gemm_split: C = A·B with split-K; the last block of a tile to arrive reduces the partial sums in the order of k
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 40, K = 128, N = 64
// A         input, float32 [40, 128]
// B         input, float32 [128, 64], aligned to 16 bytes
// C         output, float32 [40, 64], aligned to 16 bytes
// launch    grid (8, 1, 1), block (128, 1, 1), 6404 bytes of shared memory; family gemm
// pipeline  proved for at most 4 k-tiles: 2 stages, commit groups and barriers order copies and reads
// bounds    27 of 27 accesses proved
// analysis  sm_90: 21 accesses, 18 ideal, 2 costly, 1 assumed
//           worst: As[stage][a_k][a_m + c], 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
//
// Made by cugen 0.1.0 from gemm_split.yaml (hash f73ab29da4862260) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   a_global[c * K + BK * stage]  4 sectors, ideal 4 (128 bytes in 4 runs)
//   Bs[stage][b_k][b_n]           4 wavefronts, ideal 4 (128 words over 32 banks)
//   b_global[BK * stage * N]      16 sectors, ideal 16 (512 contiguous bytes)
//   As[0][0][thread_m]            2 wavefronts, ideal 2 (conflict-free)
//   Bs[0][0][thread_n]            2 wavefronts, ideal 2 (conflict-free)
//   a_global[c * K + prefetch_k]  4 sectors, ideal 4 (128 bytes in 4 runs)
//   Bs[write_stage][b_k][b_n]     4 wavefronts, ideal 4 (128 words over 32 banks)
//   b_global[prefetch_k * N]      16 sectors, ideal 16 (512 contiguous bytes)
//   As[read_stage][k][thread_m]   2 wavefronts, ideal 2 (conflict-free)
//   Bs[read_stage][k][thread_n]   2 wavefronts, ideal 2 (conflict-free)
//   As[next_stage][0][thread_m]   2 wavefronts, ideal 2 (conflict-free)
//   Bs[next_stage][0][thread_n]   2 wavefronts, ideal 2 (conflict-free)
//   C_partials[((4 * tile + k_range) * (TM * TN) + TN * i + j) * 128 + thread]
//       4 sectors, ideal 4 (128 contiguous bytes)
//   arrival_of_block              1 wavefront, ideal 1 (one word: broadcast), at 2 places
//   C_partials[(4 * tile * (TM * TN) + TN * i + j) * 128 + thread]
//       4 sectors, ideal 4 (128 contiguous bytes)
//   C_partials[((4 * tile + p) * (TM * TN) + TN * i + j) * 128 + thread]
//       4 sectors, ideal 4 (128 contiguous bytes)
//   C[m * N + n]                  16 sectors, ideal 16 (512 bytes in 4 runs)

#include <cuda_pipeline_primitives.h>

constexpr int M = 40;
constexpr int K = 128;
constexpr int N = 64;

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

extern "C" __global__ void __launch_bounds__(128) gemm_split(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C,
    unsigned int* C_arrivals,
    float* C_partials)
{
    constexpr int BM = 32, BN = 64, BK = 8, STAGES = 2, TM = 4, TN = 4, WM = 16, WN = 32;

    // circular buffer of 2 stages, [stage][k][m or n]
    __shared__ __align__(16) float As[STAGES][BK][BM + 4];
    __shared__ __align__(16) float Bs[STAGES][BK][BN];

    // split-K: 4 blocks of a tile each take a range of k
    const int tile = blockIdx.x / 4;
    const int k_range = blockIdx.x % 4;
    const int k_offset = K / 4 * k_range;
    // tiles at the edge are shifted inside and overlap others: they need no bounds checks
    const int m0 = min(BM * (tile / ((N + BN - 1) / BN)), M - BM);
    const int n0 = BN * (tile % ((N + BN - 1) / BN));
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp = thread / 32;
    // warp tile 16 x 32, lanes 4 x 8 interleaved so that lane pairs broadcast
    const int lane_m = 2 * (lane / 16) + lane % 2;
    const int lane_n = lane / 2 % 8;
    const int thread_m = WM * (warp / 2) + 4 * lane_m;
    const int thread_n = WN * (warp % 2) + 4 * lane_n;
    const int a_k = thread % 8;
    const int a_m = thread / 8;
    const int b_k = thread / 16;
    const int b_n = 4 * (thread % 16);

    float acc[TM][TN] = {};

    const float* a_global = &A[(m0 + a_m) * K + k_offset + a_k];
    const float* b_global = &B[(k_offset + b_k) * N + n0 + b_n];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        #pragma unroll
        for (int c = 0; c < BM; c += 16) {
            // As[stage][a_k][a_m + c]: 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
            __pipeline_memcpy_async(&As[stage][a_k][a_m + c], &a_global[c * K + BK * stage], 4);
        }
        __pipeline_memcpy_async(&Bs[stage][b_k][b_n], &b_global[BK * stage * N], 16);
        __pipeline_commit();
    }

    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    // register fragments of A and B for one k, double-buffered
    Vector<float, 4> a_frag[2];
    Vector<float, 4> b_frag[2];
    a_frag[0] = load<4>(&As[0][0][thread_m]);
    b_frag[0] = load<4>(&Bs[0][0][thread_n]);
    for (int k0 = 0, read_stage = 0; k0 < K / 4; k0 += BK, read_stage = 1 - read_stage) {
        const int write_stage = 1 - read_stage;
        // past the last k-tile: copy it again, so that the loop has no branch
        const int prefetch_k = min(k0 + BK * (STAGES - 1), K / 4 - BK);
        #pragma unroll
        for (int c = 0; c < BM; c += 16) {
            // As[write_stage][a_k][a_m + c]: 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
            __pipeline_memcpy_async(&As[write_stage][a_k][a_m + c], &a_global[c * K + prefetch_k], 4);
        }
        __pipeline_memcpy_async(&Bs[write_stage][b_k][b_n], &b_global[prefetch_k * N], 16);
        __pipeline_commit();
        #pragma unroll
        for (int k = 1; k < BK; ++k) {
            a_frag[k % 2] = load<4>(&As[read_stage][k][thread_m]);
            b_frag[k % 2] = load<4>(&Bs[read_stage][k][thread_n]);
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                #pragma unroll
                for (int t = 0; t < TN; ++t) {
                    // serpentine: every other row backwards
                    const int j = i % 2 == 0 ? t : TN - t - 1;
                    acc[i][j] += a_frag[(k + 1) % 2].data[i] * b_frag[(k + 1) % 2].data[j];
                }
            }
        }
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        // fragments of the next k-tile; unused after the last
        const int next_stage = 1 - read_stage;
        a_frag[0] = load<4>(&As[next_stage][0][thread_m]);
        b_frag[0] = load<4>(&Bs[next_stage][0][thread_n]);
        #pragma unroll
        for (int i = 0; i < TM; ++i) {
            #pragma unroll
            for (int t = 0; t < TN; ++t) {
                // serpentine: every other row backwards
                const int j = i % 2 == 0 ? t : TN - t - 1;
                acc[i][j] += a_frag[1].data[i] * b_frag[1].data[j];
            }
        }
    }

    // store the partial sums
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            C_partials[((4 * tile + k_range) * (TM * TN) + TN * i + j) * 128 + thread] = acc[i][j];
        }
    }
    __shared__ int arrival_of_block;
    __syncthreads();
    if (thread == 0) {
        __threadfence();
        // C_arrivals[tile]: assumed: 1 sector, ideal 1 (uniform address)
        arrival_of_block = atomicInc(&C_arrivals[tile], 3);
        __threadfence();
    }
    __syncthreads();
    const int arrival = arrival_of_block;
    if (arrival == 3) {
        // the last block to arrive reduces them, in the order of k
        #pragma unroll
        for (int i = 0; i < TM; ++i) {
            #pragma unroll
            for (int j = 0; j < TN; ++j) {
                acc[i][j] = C_partials[(4 * tile * (TM * TN) + TN * i + j) * 128 + thread];
            }
        }
        #pragma unroll 1
        for (int p = 1; p < 4; ++p) {
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                #pragma unroll
                for (int j = 0; j < TN; ++j) {
                    acc[i][j] += C_partials[((4 * tile + p) * (TM * TN) + TN * i + j) * 128 + thread];
                }
            }
        }
        // opaque 1.0f: keeps ptxas from choosing accumulator registers for the vector stores, which
        // causes register-bank conflicts
        const float opaque_one = blockDim.z;
        #pragma unroll
        for (int i = 0; i < TM; ++i) {
            const int m = m0 + thread_m + i;
            const int n = n0 + thread_n;
            Vector<float, 4> c4;
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                c4.data[v] = opaque_one * acc[i][v];
            }
            store<4>(&C[m * N + n], c4);
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" size_t gemm_split_workspace_bytes(void)
{
    return 256 * ((32768 * ((M + 31) / 32) * ((N + 63) / 64) + 255) / 256)
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
    const bool allocates = workspace == nullptr;
    if (allocates)
        status = cudaMallocAsync(&workspace, gemm_split_workspace_bytes(), stream);
    if (status != cudaSuccess)
        return status;
    unsigned int* const C_arrivals = static_cast<unsigned int*>(workspace);
    float* const C_partials = reinterpret_cast<float*>(static_cast<char*>(workspace)
        + 256 * ((4 * ((M + 31) / 32) * ((N + 63) / 64) + 255) / 256));
    cudaMemsetAsync(C_arrivals, 0, 4 * ((M + 31) / 32) * ((N + 63) / 64), stream);
    gemm_split<<<dim3(4 * ((M + 31) / 32) * ((N + 63) / 64)), dim3(128), 0, stream>>>(A, B, C, C_arrivals, C_partials);
    if (allocates)
        cudaFreeAsync(workspace, stream);
    return cudaGetLastError();
}

#endif
