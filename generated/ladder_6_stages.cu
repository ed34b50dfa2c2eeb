// ladder_6_stages: step 6: multistage pipeline of asynchronous copies, A transposed in shared
// memory, 16-byte fragment loads
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 256, N = 256, K = 256
// A         input, float32 [256, 256], shared
// B         input, float32 [256, 256], shared, aligned to 16 bytes
// C         output, float32 [256, 256], aligned to 16 bytes
// launch    grid (2, 2, 1), block (256, 1, 1), 16640 bytes of shared memory; family gemm
// pipeline  proved for every number of k-tiles: 2 stages, commit groups and barriers order copies and reads
// bounds    18 of 18 accesses proved
// analysis  sm_90: 15 accesses, 13 ideal, 2 costly
//           worst: As[stage][a_k][a_m + c], 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
//
// Made by cugen 0.1.0 from product_ladder.yaml (hash 056ccd81c4c8483c) for sm_90. Edit the spec, not this file.

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

extern "C" __global__ void __launch_bounds__(256) ladder_6_stages(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    constexpr int BM = 128, BN = 128, BK = 8, STAGES = 2, TM = 8, TN = 8, WM = 32, WN = 64;

    // circular buffer of 2 stages, [stage][k][m or n]
    __shared__ __align__(16) float As[STAGES][BK][BM + 4];
    __shared__ __align__(16) float Bs[STAGES][BK][BN];

    const int m0 = blockIdx.y * BM;
    const int n0 = blockIdx.x * BN;
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp = thread / 32;
    // warp tile 32 x 64, lanes 4 x 8 interleaved so that lane pairs broadcast
    const int lane_m = 2 * (lane / 16) + lane % 2;
    const int lane_n = lane / 2 % 8;
    const int thread_m = WM * (warp / 2) + 4 * lane_m;
    const int thread_n = WN * (warp % 2) + 4 * lane_n;
    const int a_k = thread % 8;
    const int a_m = thread / 8;
    const int b_k = thread / 32;
    const int b_n = 4 * (thread % 32);

    float acc[TM][TN] = {};

    const float* a_global = &A[(m0 + a_m) * K + a_k];
    const float* b_global = &B[b_k * N + n0 + b_n];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        #pragma unroll
        for (int c = 0; c < BM; c += 32) {
            // a_global[c * K + BK * stage]: 4 sectors, ideal 4 (128 bytes in 4 runs)
            // As[stage][a_k][a_m + c]: 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
            __pipeline_memcpy_async(&As[stage][a_k][a_m + c], &a_global[c * K + BK * stage], 4);
        }
        // b_global[BK * stage * N]: 16 sectors, ideal 16 (512 contiguous bytes)
        // Bs[stage][b_k][b_n]: 4 wavefronts, ideal 4 (128 words over 32 banks)
        __pipeline_memcpy_async(&Bs[stage][b_k][b_n], &b_global[BK * stage * N], 16);
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
    for (int k0 = 0, read_stage = 0; k0 < K; k0 += BK, read_stage = 1 - read_stage) {
        const int write_stage = 1 - read_stage;
        // past the last k-tile: copy it again, so that the loop has no branch
        const int prefetch_k = min(k0 + BK * (STAGES - 1), K - BK);
        #pragma unroll
        for (int c = 0; c < BM; c += 32) {
            // a_global[c * K + prefetch_k]: 4 sectors, ideal 4 (128 bytes in 4 runs)
            // As[write_stage][a_k][a_m + c]: 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
            __pipeline_memcpy_async(&As[write_stage][a_k][a_m + c], &a_global[c * K + prefetch_k], 4);
        }
        // b_global[prefetch_k * N]: 16 sectors, ideal 16 (512 contiguous bytes)
        // Bs[write_stage][b_k][b_n]: 4 wavefronts, ideal 4 (128 words over 32 banks)
        __pipeline_memcpy_async(&Bs[write_stage][b_k][b_n], &b_global[prefetch_k * N], 16);
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
                for (int j = 0; j < TN; ++j) {
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
            for (int j = 0; j < TN; ++j) {
                acc[i][j] += a_frag[1][i / 4].data[i % 4] * b_frag[1][j / 4].data[j % 4];
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

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 256;

extern "C" cudaError_t ladder_6_stages_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    ladder_6_stages<<<dim3((N + 127) / 128, (M + 127) / 128), dim3(256), 0, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
