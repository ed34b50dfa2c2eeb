// gemm_f16: C = Aᵀ·B + C in half precision with float32 accumulators, on CUDA cores
//
// computes  C[m, n] += sum(A[k, m] * B[k, n], k)
// params    M = 128, K = 48, N = 136
// A         input, float16 [48, 128], aligned to 16 bytes
// B         input, float16 [48, 136], aligned to 16 bytes
// C         inout, float16 [128, 136], aligned to 16 bytes
// launch    grid (3, 4, 1), block (32, 1, 1), 6144 bytes of shared memory; family gemm
// pipeline  proved for at most 3 k-tiles: 2 stages, commit groups and barriers order copies and reads
// bounds    19 of 19 accesses proved
// analysis  sm_90: 16 accesses, 8 ideal, 4 costly, 4 unknown
//           worst: b_global[(BK * stage + r) * N], 18 sectors, ideal 16; 13.33 on average (512 bytes in 4 runs)
//
// Made by cugen 0.1.0 from gemm_f16.yaml (hash 3560027a78c15697) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   a_global[(BK * stage + r) * M]  16 sectors, ideal 16 (512 bytes in 8 runs)
//   As[0][0][thread_m]              2 wavefronts, ideal 2 (conflict-free)
//   Bs[0][0][thread_n]              2 wavefronts, ideal 2 (conflict-free)
//   a_global[(prefetch_k + r) * M]  16 sectors, ideal 16 (512 bytes in 8 runs)
//   As[read_stage][k][thread_m]     2 wavefronts, ideal 2 (conflict-free)
//   Bs[read_stage][k][thread_n]     2 wavefronts, ideal 2 (conflict-free)
//   As[next_stage][0][thread_m]     2 wavefronts, ideal 2 (conflict-free)
//   Bs[next_stage][0][thread_n]     2 wavefronts, ideal 2 (conflict-free)

#include <cuda_fp16.h>
#include <cuda_pipeline_primitives.h>

constexpr int M = 128;
constexpr int K = 48;
constexpr int N = 136;

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

extern "C" __global__ void __launch_bounds__(32) gemm_f16(
    const __half* __restrict__ A,
    const __half* __restrict__ B,
    __half* __restrict__ C)
{
    constexpr int BM = 32, BN = 64, BK = 16, STAGES = 2, TM = 8, TN = 8;

    // circular buffer of 2 stages, [stage][k][m or n]
    __shared__ __align__(16) __half As[STAGES][BK][BM];
    __shared__ __align__(16) __half Bs[STAGES][BK][BN];

    const int m0 = blockIdx.y * BM;
    const int n0 = blockIdx.x * BN;
    const int thread = threadIdx.x;
    const int lane = thread;
    // warp tile 32 x 64, lanes 4 x 8 interleaved so that lane pairs broadcast
    const int lane_m = 2 * (lane / 16) + lane % 2;
    const int lane_n = lane / 2 % 8;
    const int thread_m = 8 * lane_m;
    const int thread_n = 8 * lane_n;
    const int a_k = thread / 4;
    const int a_m = 8 * (thread % 4);
    const int b_k = thread / 8;
    const int b_n = 8 * (thread % 8);

    float acc[TM][TN] = {};

    const __half* a_global = &A[a_k * M + m0 + a_m];
    const __half* b_global = &B[b_k * N + n0 + b_n];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        #pragma unroll
        for (int r = 0; r < BK; r += 8) {
            // As[stage][a_k + r][a_m]: unknown: it depends on where its sources are in 128-byte lines
            __pipeline_memcpy_async(&As[stage][a_k + r][a_m], &a_global[(BK * stage + r) * M], 16);
        }
        #pragma unroll
        for (int r = 0; r < BK; r += 4) {
            // b_global[(BK * stage + r) * N]: 18 sectors, ideal 16; 13.33 on average (512 bytes in 4 runs)
            // Bs[stage][b_k + r][b_n]: unknown: it depends on where its sources are in 128-byte lines
            __pipeline_memcpy_async(&Bs[stage][b_k + r][b_n], &b_global[(BK * stage + r) * N], 16,
                n0 + b_n < N ? 0 : 16);
        }
        __pipeline_commit();
    }

    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    // register fragments of A and B for one k, double-buffered
    Vector<__half, 8> a_frag[2];
    Vector<__half, 8> b_frag[2];
    a_frag[0] = load<8>(&As[0][0][thread_m]);
    b_frag[0] = load<8>(&Bs[0][0][thread_n]);
    for (int k0 = 0, read_stage = 0; k0 < K; k0 += BK, read_stage = 1 - read_stage) {
        const int write_stage = 1 - read_stage;
        // past the last k-tile: copy it again, so that the loop has no branch
        const int prefetch_k = min(k0 + BK * (STAGES - 1), K - BK);
        #pragma unroll
        for (int r = 0; r < BK; r += 8) {
            // As[write_stage][a_k + r][a_m]: unknown: it depends on where its sources are in 128-byte lines
            __pipeline_memcpy_async(&As[write_stage][a_k + r][a_m], &a_global[(prefetch_k + r) * M], 16);
        }
        #pragma unroll
        for (int r = 0; r < BK; r += 4) {
            // b_global[(prefetch_k + r) * N]: 18 sectors, ideal 16; 13.33 on average (512 bytes in 4 runs)
            // Bs[write_stage][b_k + r][b_n]: unknown: it depends on where its sources are in 128-byte lines
            __pipeline_memcpy_async(&Bs[write_stage][b_k + r][b_n], &b_global[(prefetch_k + r) * N], 16,
                n0 + b_n < N ? 0 : 16);
        }
        __pipeline_commit();
        #pragma unroll
        for (int k = 1; k < BK; ++k) {
            a_frag[k % 2] = load<8>(&As[read_stage][k][thread_m]);
            b_frag[k % 2] = load<8>(&Bs[read_stage][k][thread_n]);
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                #pragma unroll
                for (int t = 0; t < TN; ++t) {
                    // serpentine: every other row backwards
                    const int j = i % 2 == 0 ? t : TN - t - 1;
                    acc[i][j] += __half2float(a_frag[(k + 1) % 2].data[i]) * __half2float(b_frag[(k + 1) % 2].data[j]);
                }
            }
        }
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        // fragments of the next k-tile; unused after the last
        const int next_stage = 1 - read_stage;
        a_frag[0] = load<8>(&As[next_stage][0][thread_m]);
        b_frag[0] = load<8>(&Bs[next_stage][0][thread_n]);
        #pragma unroll
        for (int i = 0; i < TM; ++i) {
            #pragma unroll
            for (int t = 0; t < TN; ++t) {
                // serpentine: every other row backwards
                const int j = i % 2 == 0 ? t : TN - t - 1;
                acc[i][j] += __half2float(a_frag[1].data[i]) * __half2float(b_frag[1].data[j]);
            }
        }
    }

    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = m0 + thread_m + i;
        const int n = n0 + thread_n;
        if (n < N) {
            // C[m * N + n]: 20 sectors, ideal 16; 13.33 on average (512 bytes in 4 runs)
            const auto c_old8 = load<8>(&C[m * N + n]);
            Vector<__half, 8> c8;
            #pragma unroll
            for (int v = 0; v < 8; ++v) {
                c8.data[v] = __float2half_rn(__half2float(c_old8.data[v]) + acc[i][v]);
            }
            // C[m * N + n]: 20 sectors, ideal 16; 13.33 on average (512 bytes in 4 runs)
            store<8>(&C[m * N + n], c8);
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t gemm_f16_launch(
    const __half* A,
    const __half* B,
    __half* C,
    cudaStream_t stream)
{
    gemm_f16<<<dim3((N + 63) / 64, (M + 31) / 32), dim3(32), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
