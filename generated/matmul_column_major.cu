// matmul_column_major: C = A·B on matrices whose columns are contiguous, as in Fortran and BLAS
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 96, K = 64, N = 80
// A         input, float32 [96, 64], strides (1, 96), aligned to 16 bytes
// B         input, float32 [64, 80], strides (1, 64)
// C         output, float32 [96, 80], strides (1, 96), aligned to 16 bytes
// launch    grid (3, 3, 1), block (256, 1, 1), 26112 bytes of dynamic shared memory; family gemm
// pipeline  proved for at most 2 k-tiles: 3 stages, commit groups and barriers order copies and reads
// bounds    16 of 16 accesses proved
// analysis  sm_90: 13 accesses, 12 ideal, 1 costly
//           worst: Bs[stage][b_k][b_n + c], 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
//
// Made by cugen 0.1.0 from matmul_column_major.yaml (hash c093f6d8292cd20c) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   b_global[c * K + BK * stage]                             4 sectors, ideal 4 (128 bytes in 4 runs)
//   As[stage][a_k][a_m]                                      4 wavefronts, ideal 4 (128 words over 32 banks)
//   a_global[BK * stage * M]                                 16 sectors, ideal 16 (512 bytes in 4 runs)
//   b_shared[0][0][0]                                        2 wavefronts, ideal 2 (conflict-free)
//   a_shared[0][0][0]                                        2 wavefronts, ideal 2 (conflict-free)
//   b_shared[read_stage][k][0]                               2 wavefronts, ideal 2 (conflict-free)
//   a_shared[read_stage][k][0]                               2 wavefronts, ideal 2 (conflict-free)
//   b_shared[next_stage][0][0]                               2 wavefronts, ideal 2 (conflict-free)
//   a_shared[next_stage][0][0]                               2 wavefronts, ideal 2 (conflict-free)
//   partials[k_slice][thread_m + i][thread_n]                4 wavefronts, ideal 4 (128 words over 32 banks)
//   partials[s][thread / (BN / 4)][4 * (thread % (BN / 4))]  4 wavefronts, ideal 4 (128 words over 32 banks)
//   C[n * M + m]                                             16 sectors, ideal 16 (512 bytes in 4 runs)

#include <cuda_pipeline_primitives.h>

constexpr int M = 96;
constexpr int K = 64;
constexpr int N = 80;

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

extern "C" __global__ void __launch_bounds__(256) matmul_column_major(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    extern __shared__ __align__(16) unsigned char shared_memory[];

    constexpr int BM = 32, BN = 32, BK = 32, STAGES = 3, TM = 4, TN = 4, WM = 16;

    // circular buffer of 3 stages, [stage][k][n or m]
    float (*Bs)[BK][BM + 4] = reinterpret_cast<float (*)[BK][BM + 4]>(shared_memory);
    float (*As)[BK][BN] = reinterpret_cast<float (*)[BK][BN]>(Bs + STAGES);
    float (*partials)[BM][BN + 4] = reinterpret_cast<float (*)[BM][BN + 4]>(shared_memory);

    // tiles at the edge are shifted inside and overlap others: they need no bounds checks
    const int n0 = min(blockIdx.y * BM, N - BM);
    const int m0 = blockIdx.x * BN;
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    // sliced-K: each warp group multiplies 8 of the 32 k of a tile, with copies and barriers of its own
    const int k_slice = thread / 64;
    const int thread_in_slice = thread % 64;
    const int warp = thread_in_slice / 32;
    // warp tile 16 x 32, lanes 4 x 8 interleaved so that lane pairs broadcast
    const int lane_m = 2 * (lane / 16) + lane % 2;
    const int lane_n = lane / 2 % 8;
    const int thread_m = WM * warp + 4 * lane_m;
    const int thread_n = 4 * lane_n;
    const int b_k = BK / 4 * k_slice + thread_in_slice % 8;
    const int b_n = thread_in_slice / 8;
    const int a_k = BK / 4 * k_slice + thread_in_slice / 8;
    const int a_m = 4 * (thread_in_slice % 8);

    float acc[TM][TN] = {};

    const float* b_global = &B[(n0 + b_n) * K + b_k];
    const float* a_global = &A[a_k * M + m0 + a_m];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        #pragma unroll
        for (int c = 0; c < BM; c += 8) {
            // Bs[stage][b_k][b_n + c]: 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
            __pipeline_memcpy_async(&Bs[stage][b_k][b_n + c], &b_global[c * K + BK * stage], 4);
        }
        __pipeline_memcpy_async(&As[stage][a_k][a_m], &a_global[BK * stage * M], 16);
        __pipeline_commit();
    }

    __pipeline_wait_prior(STAGES - 2);
    __barrier_sync_count(k_slice + 1, 64);
    // register fragments of A and B for one k, double-buffered
    Vector<float, 4> b_frag[2];
    Vector<float, 4> a_frag[2];
    const float (*b_shared)[BK][BM + 4] =
        reinterpret_cast<const float (*)[BK][BM + 4]>(&Bs[0][BK / 4 * k_slice][thread_m]);
    const float (*a_shared)[BK][BN] = reinterpret_cast<const float (*)[BK][BN]>(&As[0][BK / 4 * k_slice][thread_n]);
    b_frag[0] = load<4>(&b_shared[0][0][0]);
    a_frag[0] = load<4>(&a_shared[0][0][0]);
    for (int k0 = 0; k0 < K; k0 += BK) {
        const int read_stage = k0 / BK;
        // no k-tile is left to copy: an empty group, since the wait counts groups
        __pipeline_commit();
        #pragma unroll
        for (int k = 1; k < BK / 4; ++k) {
            b_frag[k % 2] = load<4>(&b_shared[read_stage][k][0]);
            a_frag[k % 2] = load<4>(&a_shared[read_stage][k][0]);
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                #pragma unroll
                for (int t = 0; t < TN; ++t) {
                    // serpentine: every other row backwards
                    const int j = i % 2 == 0 ? t : TN - t - 1;
                    acc[i][j] += a_frag[(k + 1) % 2].data[j] * b_frag[(k + 1) % 2].data[i];
                }
            }
        }
        __pipeline_wait_prior(STAGES - 2);
        __barrier_sync_count(k_slice + 1, 64);
        // fragments of the next k-tile; unused after the last
        const int next_stage = k0 + BK < K ? k0 / BK + 1 : read_stage;
        b_frag[0] = load<4>(&b_shared[next_stage][0][0]);
        a_frag[0] = load<4>(&a_shared[next_stage][0][0]);
        #pragma unroll
        for (int i = 0; i < TM; ++i) {
            #pragma unroll
            for (int t = 0; t < TN; ++t) {
                // serpentine: every other row backwards
                const int j = i % 2 == 0 ? t : TN - t - 1;
                acc[i][j] += a_frag[1].data[j] * b_frag[1].data[i];
            }
        }
    }
    // drain the outstanding copies
    __pipeline_wait_prior(0);

    // opaque 1.0f: keeps ptxas from choosing accumulator registers for the vector stores, which
    // causes register-bank conflicts
    const float opaque_one = blockDim.z;
    // partial sums of the k slices, in the memory of the pipeline after its last read
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        Vector<float, 4> acc_vector;
        #pragma unroll
        for (int w = 0; w < 4; ++w) {
            acc_vector.data[w] = opaque_one * acc[i][w];
        }
        store<4>(&partials[k_slice][thread_m + i][thread_n], acc_vector);
    }
    __syncthreads();
    const int n = n0 + thread / (BN / 4);
    const int m = m0 + 4 * (thread % (BN / 4));
    Vector<float, 4> slice_sums[4];
    #pragma unroll
    for (int s = 0; s < 4; ++s) {
        slice_sums[s] = load<4>(&partials[s][thread / (BN / 4)][4 * (thread % (BN / 4))]);
    }
    Vector<float, 4> c4;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        c4.data[v] = slice_sums[0].data[v] + slice_sums[1].data[v] + slice_sums[2].data[v] + slice_sums[3].data[v];
    }
    store<4>(&C[n * M + m], c4);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t matmul_column_major_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    matmul_column_major<<<dim3((M + 31) / 32, (N + 31) / 32), dim3(256), 26112, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
