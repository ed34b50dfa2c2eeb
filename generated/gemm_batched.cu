// gemm_batched: Batched GEMM with an activation and a residual in its epilogue
//
// computes  C[z, m, n] = relu(sum(A[z, m, k] * B[z, k, n], k)) + residual[z, m, n]
// params    Z = 2, M = 30, K = 20, N = 40
// A         input, float32 [2, 30, 20]
// B         input, float32 [2, 20, 40], aligned to 16 bytes
// residual  input, float32 [2, 30, 40], aligned to 16 bytes
// C         output, float32 [2, 30, 40], aligned to 16 bytes
// launch    grid (2, 2, 2), block (32, 1, 1), 3328 bytes of shared memory; family gemm
// pipeline  proved for at most 3 k-tiles: 2 stages, commit groups and barriers order copies and reads
// bounds    19 of 19 accesses proved
// analysis  sm_90: 16 accesses, 10 ideal, 3 costly, 1 assumed, 2 unknown
//           worst: a_global[c * K + BK * stage], 4 sectors, ideal 2 (64 bytes in 4 runs)
//
// Made by cugen 0.1.0 from gemm_batched.yaml (hash e87cda77cc0c4b4c) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   b_global[(BK * stage + r) * N]  16 sectors, ideal 16 (512 bytes in 4 runs)
//   As[0][0][thread_m]              2 wavefronts, ideal 2 (conflict-free)
//   Bs[0][0][thread_n]              2 wavefronts, ideal 2 (conflict-free)
//   b_global[(prefetch_k + r) * N]  16 sectors, ideal 16 (512 bytes in 4 runs)
//   As[read_stage][k][thread_m]     2 wavefronts, ideal 2 (conflict-free)
//   Bs[read_stage][k][thread_n]     2 wavefronts, ideal 2 (conflict-free)
//   As[next_stage][0][thread_m]     2 wavefronts, ideal 2 (conflict-free)
//   Bs[next_stage][0][thread_n]     2 wavefronts, ideal 2 (conflict-free)
//   residual[(z * M + m) * N + n]   16 sectors, ideal 16 (512 bytes in 4 runs)
//   C[(z * M + m) * N + n]          16 sectors, ideal 16 (512 bytes in 4 runs)

#include <cuda_pipeline_primitives.h>

constexpr int M = 30;
constexpr int K = 20;
constexpr int N = 40;

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

#ifndef CUGEN_MAXIMUM_FLOAT
#define CUGEN_MAXIMUM_FLOAT
// Maximum; NaN if an operand is NaN.
__device__ __forceinline__ float maximum(float a, float b)
{
#if __CUDA_ARCH__ >= 800
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
#else
    return a > b || a != a ? a : b;
#endif
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

extern "C" __global__ void __launch_bounds__(32) gemm_batched(
    const float* __restrict__ A,
    const float* __restrict__ B,
    const float* __restrict__ residual,
    float* __restrict__ C)
{
    constexpr int BM = 16, BN = 32, BK = 8, STAGES = 2, TM = 4, TN = 4;

    // circular buffer of 2 stages, [stage][k][m or n]
    __shared__ __align__(16) float As[STAGES][BK][BM + 4];
    __shared__ __align__(16) float Bs[STAGES][BK][BN];

    const int z = blockIdx.z;
    // tiles at the edge are shifted inside and overlap others: they need no bounds checks
    const int m0 = min(blockIdx.y * BM, M - BM);
    const int n0 = min(blockIdx.x * BN, N - BN);
    // the first k-tile begins at k = -k_residue, so that all others are full
    constexpr int k_residue = 4;
    const int thread = threadIdx.x;
    const int lane = thread;
    // warp tile 16 x 32, lanes 4 x 8 interleaved so that lane pairs broadcast
    const int lane_m = 2 * (lane / 16) + lane % 2;
    const int lane_n = lane / 2 % 8;
    const int thread_m = 4 * lane_m;
    const int thread_n = 4 * lane_n;
    const int a_k = thread % 8;
    const int a_m = thread / 8;
    const int b_k = thread / 8;
    const int b_n = 4 * (thread % 8);

    float acc[TM][TN] = {};

    const float* a_global = &A[(z * M + m0 + a_m) * K + a_k - k_residue];
    const float* b_global = &B[(z * K + b_k - k_residue) * N + n0 + b_n];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        #pragma unroll
        for (int c = 0; c < BM; c += 4) {
            // a_global[c * K + BK * stage]: 4 sectors, ideal 2 (64 bytes in 4 runs)
            // As[stage][a_k][a_m + c]: assumed: 1 wavefront, ideal 1 (conflict-free)
            __pipeline_memcpy_async(&As[stage][a_k][a_m + c], &a_global[c * K + BK * stage], 4,
                a_k + BK * stage - k_residue >= 0 ? 0 : 4);
        }
        #pragma unroll
        for (int r = 0; r < BK; r += 4) {
            // Bs[stage][b_k + r][b_n]: unknown: it depends on where its sources are in 128-byte lines
            __pipeline_memcpy_async(&Bs[stage][b_k + r][b_n], &b_global[(BK * stage + r) * N], 16,
                b_k + BK * stage + r - k_residue >= 0 ? 0 : 16);
        }
        __pipeline_commit();
    }

    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    // register fragments of A and B for one k, double-buffered
    Vector<float, 4> a_frag[2];
    Vector<float, 4> b_frag[2];
    a_frag[0] = load<4>(&As[0][0][thread_m]);
    b_frag[0] = load<4>(&Bs[0][0][thread_n]);
    for (int k0 = 0, read_stage = 0; k0 < K + k_residue; k0 += BK, read_stage = 1 - read_stage) {
        const int write_stage = 1 - read_stage;
        // past the last k-tile: copy it again, so that the loop has no branch
        const int prefetch_k = min(k0 + BK * (STAGES - 1), K + k_residue - BK);
        #pragma unroll
        for (int c = 0; c < BM; c += 4) {
            // a_global[c * K + prefetch_k]: 6 sectors, ideal 4 (128 bytes in 4 runs)
            // As[write_stage][a_k][a_m + c]: 2 wavefronts, ideal 1 (lanes 0 and 28 copy from one bank)
            __pipeline_memcpy_async(&As[write_stage][a_k][a_m + c], &a_global[c * K + prefetch_k], 4);
        }
        #pragma unroll
        for (int r = 0; r < BK; r += 4) {
            // Bs[write_stage][b_k + r][b_n]: unknown: it depends on where its sources are in 128-byte lines
            __pipeline_memcpy_async(&Bs[write_stage][b_k + r][b_n], &b_global[(prefetch_k + r) * N], 16);
        }
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

    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = m0 + thread_m + i;
        const int n = n0 + thread_n;
        const auto residual4 = load<4>(&residual[(z * M + m) * N + n]);
        Vector<float, 4> c4;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            c4.data[v] = maximum(acc[i][v], 0.0f) + residual4.data[v];
        }
        store<4>(&C[(z * M + m) * N + n], c4);
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int Z = 2;

extern "C" cudaError_t gemm_batched_launch(
    const float* A,
    const float* B,
    const float* residual,
    float* C,
    cudaStream_t stream)
{
    gemm_batched<<<dim3((N + 31) / 32, (M + 15) / 16, Z), dim3(32), 0, stream>>>(A, B, residual, C);
    return cudaGetLastError();
}

#endif
