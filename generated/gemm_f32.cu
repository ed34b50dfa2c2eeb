// gemm_f32: C = alpha·A·B + bias, the GEMM of a dense layer (small sizes, as an example)
//
// computes  C[m, n] = alpha * sum(A[m, k] * B[k, n], k) + bias[n]
// params    M = 100, K = 60, N = 132
// A         input, float32 [100, 60], shared
// B         input, float32 [60, 132], shared, aligned to 16 bytes
// bias      input, float32 [132], aligned to 16 bytes
// C         output, float32 [100, 132], aligned to 16 bytes
// launch    grid (3, 4, 1), block (64, 1, 1), 12800 bytes of shared memory; family gemm
// pipeline  proved for every number of k-tiles: 4 stages, commit groups and barriers order copies and reads
// bounds    19 of 19 accesses proved
// analysis  sm_90: 16 accesses, 6 ideal, 7 costly, 1 assumed, 2 unknown
//           worst: As[write_stage][a_k][a_m + c], 2 wavefronts, ideal 1 (lanes 0 and 12 copy from one bank)
//
// Made by cugen 0.1.0 from gemm_f32.yaml (hash 0761c3e654d32c97) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   As[0][0][thread_m + 16 * u]           2 wavefronts, ideal 2 (conflict-free)
//   Bs[0][0][thread_n]                    2 wavefronts, ideal 2 (conflict-free)
//   As[read_stage][k][thread_m + 16 * u]  2 wavefronts, ideal 2 (conflict-free)
//   Bs[read_stage][k][thread_n]           2 wavefronts, ideal 2 (conflict-free)
//   As[next_stage][0][thread_m + 16 * u]  2 wavefronts, ideal 2 (conflict-free)
//   Bs[next_stage][0][thread_n]           2 wavefronts, ideal 2 (conflict-free)

#include <cuda_pipeline_primitives.h>

constexpr int M = 100;
constexpr int K = 60;
constexpr int N = 132;

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

extern "C" __global__ void __launch_bounds__(64) gemm_f32(
    const float* __restrict__ A,
    const float* __restrict__ B,
    const float* __restrict__ bias,
    float* __restrict__ C,
    float alpha)
{
    constexpr int BM = 32, BN = 64, BK = 8, STAGES = 4, TM = 8, TN = 4, WN = 32;

    // circular buffer of 4 stages, [stage][k][m or n]
    __shared__ __align__(16) float As[STAGES][BK][BM + 4];
    __shared__ __align__(16) float Bs[STAGES][BK][BN];

    // tiles at the edge are shifted inside and overlap others: they need no bounds checks
    const int m0 = min(blockIdx.y * BM, M - BM);
    const int n0 = min(blockIdx.x * BN, N - BN);
    // the first k-tile begins at k = -k_residue, so that all others are full
    constexpr int k_residue = 4;
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp = thread / 32;
    // warp tile 32 x 32, lanes 4 x 8 interleaved so that lane pairs broadcast
    const int lane_m = 2 * (lane / 16) + lane % 2;
    const int lane_n = lane / 2 % 8;
    const int thread_m = 4 * lane_m;
    const int thread_n = WN * warp + 4 * lane_n;
    const int a_k = thread % 8;
    const int a_m = thread / 8;
    const int b_k = thread / 16;
    const int b_n = 4 * (thread % 16);

    float acc[TM][TN] = {};

    const float* a_global = &A[(m0 + a_m) * K + a_k - k_residue];
    const float* b_global = &B[(b_k - k_residue) * N + n0 + b_n];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        #pragma unroll
        for (int c = 0; c < BM; c += 8) {
            // a_global[c * K + BK * stage]: 6 sectors, ideal 4; 5.33 on average (128 bytes in 4 runs)
            // As[stage][a_k][a_m + c]: assumed: 2 wavefronts, ideal 1; 1.5 on average
            __pipeline_memcpy_async(&As[stage][a_k][a_m + c], &a_global[c * K + BK * stage], 4,
                a_k + BK * stage - k_residue >= 0 ? 0 : 4);
        }
        #pragma unroll
        for (int r = 0; r < BK; r += 4) {
            // b_global[(BK * stage + r) * N]: 17 sectors, ideal 16 (512 bytes in 2 runs)
            // Bs[stage][b_k + r][b_n]: unknown: it depends on where its sources are in 128-byte lines
            __pipeline_memcpy_async(&Bs[stage][b_k + r][b_n], &b_global[(BK * stage + r) * N], 16,
                b_k + BK * stage + r - k_residue >= 0 ? 0 : 16);
        }
        __pipeline_commit();
    }

    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    // register fragments of A and B for one k, double-buffered
    Vector<float, 4> a_frag[2][TM / 4];
    Vector<float, 4> b_frag[2];
    #pragma unroll
    for (int u = 0; u < TM / 4; ++u) {
        a_frag[0][u] = load<4>(&As[0][0][thread_m + 16 * u]);
    }
    b_frag[0] = load<4>(&Bs[0][0][thread_n]);
    for (int k0 = 0, read_stage = 0; k0 < K + k_residue;
        k0 += BK, read_stage = read_stage < STAGES - 1 ? read_stage + 1 : 0) {
        const int write_stage = read_stage > 0 ? read_stage - 1 : STAGES - 1;
        // past the last k-tile: copy it again, so that the loop has no branch
        const int prefetch_k = min(k0 + BK * (STAGES - 1), K + k_residue - BK);
        #pragma unroll
        for (int c = 0; c < BM; c += 8) {
            // a_global[c * K + prefetch_k]: 6 sectors, ideal 4 (128 bytes in 4 runs)
            // As[write_stage][a_k][a_m + c]: 2 wavefronts, ideal 1 (lanes 0 and 12 copy from one bank)
            __pipeline_memcpy_async(&As[write_stage][a_k][a_m + c], &a_global[c * K + prefetch_k], 4);
        }
        #pragma unroll
        for (int r = 0; r < BK; r += 4) {
            // b_global[(prefetch_k + r) * N]: 17 sectors, ideal 16 (512 bytes in 2 runs)
            // Bs[write_stage][b_k + r][b_n]: unknown: it depends on where its sources are in 128-byte lines
            __pipeline_memcpy_async(&Bs[write_stage][b_k + r][b_n], &b_global[(prefetch_k + r) * N], 16);
        }
        __pipeline_commit();
        #pragma unroll
        for (int k = 1; k < BK; ++k) {
            #pragma unroll
            for (int u = 0; u < TM / 4; ++u) {
                a_frag[k % 2][u] = load<4>(&As[read_stage][k][thread_m + 16 * u]);
            }
            b_frag[k % 2] = load<4>(&Bs[read_stage][k][thread_n]);
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                #pragma unroll
                for (int t = 0; t < TN; ++t) {
                    // serpentine: every other row backwards
                    const int j = i % 2 == 0 ? t : TN - t - 1;
                    acc[i][j] += a_frag[(k + 1) % 2][i / 4].data[i % 4] * b_frag[(k + 1) % 2].data[j];
                }
            }
        }
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        // fragments of the next k-tile; unused after the last
        const int next_stage = read_stage < STAGES - 1 ? read_stage + 1 : 0;
        #pragma unroll
        for (int u = 0; u < TM / 4; ++u) {
            a_frag[0][u] = load<4>(&As[next_stage][0][thread_m + 16 * u]);
        }
        b_frag[0] = load<4>(&Bs[next_stage][0][thread_n]);
        #pragma unroll
        for (int i = 0; i < TM; ++i) {
            #pragma unroll
            for (int t = 0; t < TN; ++t) {
                // serpentine: every other row backwards
                const int j = i % 2 == 0 ? t : TN - t - 1;
                acc[i][j] += a_frag[1][i / 4].data[i % 4] * b_frag[1].data[j];
            }
        }
    }

    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = m0 + thread_m + 16 * (i / 4) + i % 4;
        const int n = n0 + thread_n;
        // bias[n]: 5 sectors, ideal 4; 4.33 on average (misaligned by 16 bytes)
        const auto bias4 = load<4>(&bias[n]);
        Vector<float, 4> c4;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            c4.data[v] = alpha * acc[i][v] + bias4.data[v];
        }
        // C[m * N + n]: 20 sectors, ideal 16; 18 on average (512 bytes in 4 runs)
        store<4>(&C[m * N + n], c4);
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
