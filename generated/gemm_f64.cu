// gemm_f64: C = A·Bᵀ in double precision on CUDA cores; 16-byte vectors hold two elements
//
// computes  C[m, n] = sum(A[m, k] * B[n, k], k)
// params    M = 70, K = 40, N = 64
// A         input, float64 [70, 40]
// B         input, float64 [64, 40]
// C         output, float64 [70, 64], aligned to 16 bytes
// launch    grid (2, 3, 1), block (64, 1, 1), 13824 bytes of shared memory; family gemm
// pipeline  proved for at most 5 k-tiles: 3 stages, commit groups and barriers order copies and reads
// bounds    18 of 18 accesses proved
// analysis  sm_90: 15 accesses, 11 ideal, 4 costly
//           worst: As[stage][a_k + r][a_m + c], 4 wavefronts, ideal 2 (lanes 0 and 8 copy from one bank)
//
// Made by cugen 0.1.0 from gemm_f64.yaml (hash f2ecbbdbc70dd8a2) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   a_global[c * K + BK * stage + r]      8 sectors, ideal 8 (256 bytes in 8 runs)
//   b_global[c * K + BK * stage + r]      8 sectors, ideal 8 (256 bytes in 8 runs)
//   As[0][0][thread_m + 8 * u]            2 wavefronts, ideal 2 (conflict-free)
//   Bs[0][0][thread_n + 16 * u]           2 wavefronts, ideal 2 (conflict-free)
//   a_global[c * K + prefetch_k + r]      8 sectors, ideal 8 (256 bytes in 8 runs)
//   b_global[c * K + prefetch_k + r]      8 sectors, ideal 8 (256 bytes in 8 runs)
//   As[read_stage][k][thread_m + 8 * u]   2 wavefronts, ideal 2 (conflict-free)
//   Bs[read_stage][k][thread_n + 16 * u]  2 wavefronts, ideal 2 (conflict-free)
//   As[next_stage][0][thread_m + 8 * u]   2 wavefronts, ideal 2 (conflict-free)
//   Bs[next_stage][0][thread_n + 16 * u]  2 wavefronts, ideal 2 (conflict-free)
//   C[m * N + n]                          16 sectors, ideal 16 (512 bytes in 4 runs)

#include <cuda_pipeline_primitives.h>

constexpr int M = 70;
constexpr int K = 40;
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

extern "C" __global__ void __launch_bounds__(64) gemm_f64(
    const double* __restrict__ A,
    const double* __restrict__ B,
    double* __restrict__ C)
{
    constexpr int BM = 32, BN = 32, BK = 8, STAGES = 3, TM = 4, TN = 4, WM = 16;

    // circular buffer of 3 stages, [stage][k][m or n]
    __shared__ __align__(16) double As[STAGES][BK][BM + 4];
    __shared__ __align__(16) double Bs[STAGES][BK][BN + 4];

    // tiles at the edge are shifted inside and overlap others: they need no bounds checks
    const int m0 = min(blockIdx.y * BM, M - BM);
    const int n0 = blockIdx.x * BN;
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp = thread / 32;
    // warp tile 16 x 32, lanes 4 x 8 interleaved so that lane pairs broadcast
    const int lane_m = 2 * (lane / 16) + lane % 2;
    const int lane_n = lane / 2 % 8;
    const int thread_m = WM * warp + 2 * lane_m;
    const int thread_n = 2 * lane_n;
    const int a_k = thread % 4;
    const int a_m = thread / 4;
    const int b_k = thread % 4;
    const int b_n = thread / 4;

    double acc[TM][TN] = {};

    const double* a_global = &A[(m0 + a_m) * K + a_k];
    const double* b_global = &B[(n0 + b_n) * K + b_k];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        #pragma unroll
        for (int r = 0; r < BK; r += 4) {
            #pragma unroll
            for (int c = 0; c < BM; c += 16) {
                // As[stage][a_k + r][a_m + c]: 4 wavefronts, ideal 2 (lanes 0 and 8 copy from one bank)
                __pipeline_memcpy_async(&As[stage][a_k + r][a_m + c], &a_global[c * K + BK * stage + r], 8);
            }
        }
        #pragma unroll
        for (int r = 0; r < BK; r += 4) {
            #pragma unroll
            for (int c = 0; c < BN; c += 16) {
                // Bs[stage][b_k + r][b_n + c]: 4 wavefronts, ideal 2 (lanes 0 and 8 copy from one bank)
                __pipeline_memcpy_async(&Bs[stage][b_k + r][b_n + c], &b_global[c * K + BK * stage + r], 8);
            }
        }
        __pipeline_commit();
    }

    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    // register fragments of A and B for one k, double-buffered
    Vector<double, 2> a_frag[2][TM / 2];
    Vector<double, 2> b_frag[2][TN / 2];
    #pragma unroll
    for (int u = 0; u < TM / 2; ++u) {
        a_frag[0][u] = load<2>(&As[0][0][thread_m + 8 * u]);
    }
    #pragma unroll
    for (int u = 0; u < TN / 2; ++u) {
        b_frag[0][u] = load<2>(&Bs[0][0][thread_n + 16 * u]);
    }
    for (int k0 = 0, read_stage = 0; k0 < K; k0 += BK, read_stage = read_stage < STAGES - 1 ? read_stage + 1 : 0) {
        const int write_stage = read_stage > 0 ? read_stage - 1 : STAGES - 1;
        // past the last k-tile: copy it again, so that the loop has no branch
        const int prefetch_k = min(k0 + BK * (STAGES - 1), K - BK);
        #pragma unroll
        for (int r = 0; r < BK; r += 4) {
            #pragma unroll
            for (int c = 0; c < BM; c += 16) {
                // As[write_stage][a_k + r][a_m + c]: 4 wavefronts, ideal 2 (lanes 0 and 8 copy from one bank)
                __pipeline_memcpy_async(&As[write_stage][a_k + r][a_m + c], &a_global[c * K + prefetch_k + r], 8);
            }
        }
        #pragma unroll
        for (int r = 0; r < BK; r += 4) {
            #pragma unroll
            for (int c = 0; c < BN; c += 16) {
                // Bs[write_stage][b_k + r][b_n + c]: 4 wavefronts, ideal 2 (lanes 0 and 8 copy from one bank)
                __pipeline_memcpy_async(&Bs[write_stage][b_k + r][b_n + c], &b_global[c * K + prefetch_k + r], 8);
            }
        }
        __pipeline_commit();
        #pragma unroll
        for (int k = 1; k < BK; ++k) {
            #pragma unroll
            for (int u = 0; u < TM / 2; ++u) {
                a_frag[k % 2][u] = load<2>(&As[read_stage][k][thread_m + 8 * u]);
            }
            #pragma unroll
            for (int u = 0; u < TN / 2; ++u) {
                b_frag[k % 2][u] = load<2>(&Bs[read_stage][k][thread_n + 16 * u]);
            }
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                #pragma unroll
                for (int t = 0; t < TN; ++t) {
                    // serpentine: every other row backwards
                    const int j = i % 2 == 0 ? t : TN - t - 1;
                    acc[i][j] += a_frag[(k + 1) % 2][i / 2].data[i % 2] * b_frag[(k + 1) % 2][j / 2].data[j % 2];
                }
            }
        }
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        // fragments of the next k-tile; unused after the last
        const int next_stage = read_stage < STAGES - 1 ? read_stage + 1 : 0;
        #pragma unroll
        for (int u = 0; u < TM / 2; ++u) {
            a_frag[0][u] = load<2>(&As[next_stage][0][thread_m + 8 * u]);
        }
        #pragma unroll
        for (int u = 0; u < TN / 2; ++u) {
            b_frag[0][u] = load<2>(&Bs[next_stage][0][thread_n + 16 * u]);
        }
        #pragma unroll
        for (int i = 0; i < TM; ++i) {
            #pragma unroll
            for (int t = 0; t < TN; ++t) {
                // serpentine: every other row backwards
                const int j = i % 2 == 0 ? t : TN - t - 1;
                acc[i][j] += a_frag[1][i / 2].data[i % 2] * b_frag[1][j / 2].data[j % 2];
            }
        }
    }

    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = m0 + thread_m + 8 * (i / 2) + i % 2;
        #pragma unroll
        for (int g = 0; g < TN / 2; ++g) {
            const int n = n0 + thread_n + 16 * g;
            Vector<double, 2> c2;
            #pragma unroll
            for (int v = 0; v < 2; ++v) {
                c2.data[v] = acc[i][2 * g + v];
            }
            store<2>(&C[m * N + n], c2);
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t gemm_f64_launch(
    const double* A,
    const double* B,
    double* C,
    cudaStream_t stream)
{
    gemm_f64<<<dim3((N + 31) / 32, (M + 31) / 32), dim3(64), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
