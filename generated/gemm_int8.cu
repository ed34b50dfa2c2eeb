// gemm_int8: C = A·B on 8-bit integers with 32-bit accumulators; N is dynamic
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 40, K = 24, N (dynamic, 1 to 65536, multiples of 16)
// A         input, int8 [40, 24]
// B         input, int8 [24, N], aligned to 16 bytes
// C         output, int32 [40, N], aligned to 16 bytes
// launch    grid ((N + 31) // 32, 3, 1), block (32, 1, 1), 3072 bytes of shared memory; family gemm
// pipeline  proved for at most 2 k-tiles: 3 stages, commit groups and barriers order copies and reads
// bounds    17 of 17 accesses proved
// analysis  sm_90: 12 accesses, 7 ideal, 4 costly, 1 unknown
//           worst: As[stage][a_k][a_m + c], 4 wavefronts, ideal 1; 3 on average (at any N)
//
// Made by cugen 0.1.0 from gemm_int8.yaml (hash 78c79e275cfb03cd) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   As[0][0][thread_m]           1 wavefront, ideal 1 (at any N)
//   Bs[0][0][thread_n]           1 wavefront, ideal 1 (at any N)
//   As[read_stage][k][thread_m]  1 wavefront, ideal 1 (at any N)
//   Bs[read_stage][k][thread_n]  1 wavefront, ideal 1 (at any N)
//   As[next_stage][0][thread_m]  1 wavefront, ideal 1 (at any N)
//   Bs[next_stage][0][thread_n]  1 wavefront, ideal 1 (at any N)
//   C[m * N + n]                 16 sectors, ideal 16 (at any N)

#include <cuda_pipeline_primitives.h>

constexpr int M = 40;
constexpr int K = 24;

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

#ifndef CUGEN_WRAPPING_ADD_INT
#define CUGEN_WRAPPING_ADD_INT
// a + b modulo 2^32: signed overflow is undefined in C++.
__device__ __forceinline__ int wrapping_add(int a, int b)
{
    return (int)((unsigned int)a + (unsigned int)b);
}
#endif

extern "C" __global__ void __launch_bounds__(32) gemm_int8(
    const signed char* __restrict__ A,
    const signed char* __restrict__ B,
    int* __restrict__ C,
    int N)
{
    constexpr int BM = 16, BN = 32, BK = 16, STAGES = 3, TM = 4, TN = 4;

    // circular buffer of 3 stages, [stage][k][m or n]
    __shared__ __align__(16) signed char As[STAGES][BK][BM + 16];
    __shared__ __align__(16) signed char Bs[STAGES][BK][BN];

    // tiles at the edge are shifted inside and overlap others: they need no bounds checks
    const int m0 = min(blockIdx.y * BM, M - BM);
    const int n0 = blockIdx.x * BN;
    // the first k-tile begins at k = -k_residue, so that all others are full
    constexpr int k_residue = 8;
    const int thread = threadIdx.x;
    const int lane = thread;
    // warp tile 16 x 32, lanes 4 x 8 interleaved so that lane pairs broadcast
    const int lane_m = 2 * (lane / 16) + lane % 2;
    const int lane_n = lane / 2 % 8;
    const int thread_m = 4 * lane_m;
    const int thread_n = 4 * lane_n;
    const int a_k = thread % 16;
    const int a_m = thread / 16;
    const int b_k = thread / 2;
    const int b_n = 16 * (thread % 2);

    int acc[TM][TN] = {};

    const signed char* a_global = &A[(m0 + a_m) * K + a_k - k_residue];
    const signed char* b_global = &B[(b_k - k_residue) * N + n0 + b_n];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        #pragma unroll
        for (int c = 0; c < BM; c += 2) {
            if (a_k + BK * stage - k_residue >= 0) {
                // a_global[c * K + BK * stage]: 2 sectors, ideal 1; 1.75 on average (at any N)
                // As[stage][a_k][a_m + c]: 4 wavefronts, ideal 1; 3 on average (at any N)
                As[stage][a_k][a_m + c] = a_global[c * K + BK * stage];
            } else {
                // As[stage][a_k][a_m + c]: 2 wavefronts, ideal 1 (at any N)
                As[stage][a_k][a_m + c] = 0;
            }
        }
        // b_global[BK * stage * N]: 24 sectors, ideal 16; 18 on average (worst at N mod 32 = 16)
        // Bs[stage][b_k][b_n]: unknown: it depends on where its sources are in 128-byte lines
        __pipeline_memcpy_async(&Bs[stage][b_k][b_n], &b_global[BK * stage * N], 16,
            b_k + BK * stage - k_residue >= 0 && n0 + b_n < N ? 0 : 16);
        __pipeline_commit();
    }

    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    // register fragments of A and B for one k, double-buffered
    Vector<signed char, 4> a_frag[2];
    Vector<signed char, 4> b_frag[2];
    a_frag[0] = load<4>(&As[0][0][thread_m]);
    b_frag[0] = load<4>(&Bs[0][0][thread_n]);
    for (int k0 = 0; k0 < K + k_residue; k0 += BK) {
        const int read_stage = k0 / BK;
        // no k-tile is left to copy: an empty group, since the wait counts groups
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
                    acc[i][j] = wrapping_add(acc[i][j], a_frag[(k + 1) % 2].data[i] * b_frag[(k + 1) % 2].data[j]);
                }
            }
        }
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        // fragments of the next k-tile; unused after the last
        const int next_stage = k0 + BK < K + k_residue ? k0 / BK + 1 : read_stage;
        a_frag[0] = load<4>(&As[next_stage][0][thread_m]);
        b_frag[0] = load<4>(&Bs[next_stage][0][thread_n]);
        #pragma unroll
        for (int i = 0; i < TM; ++i) {
            #pragma unroll
            for (int t = 0; t < TN; ++t) {
                // serpentine: every other row backwards
                const int j = i % 2 == 0 ? t : TN - t - 1;
                acc[i][j] = wrapping_add(acc[i][j], a_frag[1].data[i] * b_frag[1].data[j]);
            }
        }
    }

    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = m0 + thread_m + i;
        const int n = n0 + thread_n;
        if (n < N) {
            Vector<int, 4> c4;
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                c4.data[v] = acc[i][v];
            }
            store<4>(&C[m * N + n], c4);
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t gemm_int8_launch(
    const signed char* A,
    const signed char* B,
    int* C,
    int N,
    cudaStream_t stream)
{
    if (N < 1 || N > 65536 || N % 16 != 0)
        return cudaErrorInvalidValue;
    gemm_int8<<<dim3((N + 31) / 32, (M + 15) / 16), dim3(32), 0, stream>>>(A, B, C, N);
    return cudaGetLastError();
}

#endif
