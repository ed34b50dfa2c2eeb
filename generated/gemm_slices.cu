// gemm_slices: C = A·B with sliced-K (split-K within a block), reduced in a fixed order
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 96, K = 160, N = 128
// A         input, float32 [96, 160]
// B         input, float32 [160, 128], aligned to 16 bytes
// C         output, float32 [96, 128], aligned to 16 bytes
// launch    grid (2, 3, 1), block (256, 1, 1), 38400 bytes of dynamic shared memory; family gemm
// pipeline  proved for at most 5 k-tiles: 3 stages, commit groups and barriers order copies and reads
// bounds    20 of 20 accesses proved
// analysis  sm_90: 17 accesses, 15 ideal, 2 costly
//           worst: As[stage][a_k][a_m + c], 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
//
// Made by cugen 0.1.0 from gemm_slices.yaml (hash 8b967efe18a26302) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   a_global[c * K + BK * stage]                        4 sectors, ideal 4 (128 bytes in 4 runs)
//   Bs[stage][b_k + r][b_n]                             4 wavefronts, ideal 4 (128 words over 32 banks)
//   b_global[(BK * stage + r) * N]                      16 sectors, ideal 16 (512 bytes in 2 runs)
//   a_shared[0][0][0]                                   2 wavefronts, ideal 2 (conflict-free)
//   b_shared[0][0][32 * u]                              2 wavefronts, ideal 2 (conflict-free)
//   a_global[c * K + prefetch_k]                        4 sectors, ideal 4 (128 bytes in 4 runs)
//   Bs[write_stage][b_k + r][b_n]                       4 wavefronts, ideal 4 (128 words over 32 banks)
//   b_global[(prefetch_k + r) * N]                      16 sectors, ideal 16 (512 bytes in 2 runs)
//   a_shared[read_stage][k][0]                          2 wavefronts, ideal 2 (conflict-free)
//   b_shared[read_stage][k][32 * u]                     2 wavefronts, ideal 2 (conflict-free)
//   a_shared[next_stage][0][0]                          2 wavefronts, ideal 2 (conflict-free)
//   b_shared[next_stage][0][32 * u]                     2 wavefronts, ideal 2 (conflict-free)
//   partials[k_slice][thread_m + i][thread_n + 32 * g]  4 wavefronts, ideal 4 (128 words over 32 banks)
//   partials[s][tile_m][tile_n]                         4 wavefronts, ideal 4 (128 words over 32 banks)
//   C[m * N + n]                                        16 sectors, ideal 16 (512 bytes in 2 runs)

#include <cuda_pipeline_primitives.h>

constexpr int K = 160;
constexpr int N = 128;

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

extern "C" __global__ void __launch_bounds__(256) gemm_slices(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    extern __shared__ __align__(16) unsigned char shared_memory[];

    constexpr int BM = 32, BN = 64, BK = 32, STAGES = 3, TM = 4, TN = 8, WM = 16;

    // circular buffer of 3 stages, [stage][k][m or n]
    float (*As)[BK][BM + 4] = reinterpret_cast<float (*)[BK][BM + 4]>(shared_memory);
    float (*Bs)[BK][BN] = reinterpret_cast<float (*)[BK][BN]>(As + STAGES);
    float (*partials)[BM][BN + 4] = reinterpret_cast<float (*)[BM][BN + 4]>(shared_memory);

    const int m0 = blockIdx.y * BM;
    const int n0 = blockIdx.x * BN;
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    // sliced-K: each warp group multiplies 8 of the 32 k of a tile, with copies and barriers of its own
    const int k_slice = thread / 64;
    const int thread_in_slice = thread % 64;
    const int warp = thread_in_slice / 32;
    // warp tile 16 x 64, lanes 4 x 8 interleaved so that lane pairs broadcast
    const int lane_m = 2 * (lane / 16) + lane % 2;
    const int lane_n = lane / 2 % 8;
    const int thread_m = WM * warp + 4 * lane_m;
    const int thread_n = 4 * lane_n;
    const int a_k = BK / 4 * k_slice + thread_in_slice % 8;
    const int a_m = thread_in_slice / 8;
    const int b_k = BK / 4 * k_slice + thread_in_slice / 16;
    const int b_n = 4 * (thread_in_slice % 16);

    float acc[TM][TN] = {};

    const float* a_global = &A[(m0 + a_m) * K + a_k];
    const float* b_global = &B[b_k * N + n0 + b_n];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        #pragma unroll
        for (int c = 0; c < BM; c += 8) {
            // As[stage][a_k][a_m + c]: 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
            __pipeline_memcpy_async(&As[stage][a_k][a_m + c], &a_global[c * K + BK * stage], 4);
        }
        #pragma unroll
        for (int r = 0; r < BK / 4; r += 4) {
            __pipeline_memcpy_async(&Bs[stage][b_k + r][b_n], &b_global[(BK * stage + r) * N], 16);
        }
        __pipeline_commit();
    }

    __pipeline_wait_prior(STAGES - 2);
    __barrier_sync_count(k_slice + 1, 64);
    // register fragments of A and B for one k, double-buffered
    Vector<float, 4> a_frag[2];
    Vector<float, 4> b_frag[2][TN / 4];
    const float (*a_shared)[BK][BM + 4] =
        reinterpret_cast<const float (*)[BK][BM + 4]>(&As[0][BK / 4 * k_slice][thread_m]);
    const float (*b_shared)[BK][BN] = reinterpret_cast<const float (*)[BK][BN]>(&Bs[0][BK / 4 * k_slice][thread_n]);
    a_frag[0] = load<4>(&a_shared[0][0][0]);
    #pragma unroll
    for (int u = 0; u < TN / 4; ++u) {
        b_frag[0][u] = load<4>(&b_shared[0][0][32 * u]);
    }
    for (int k0 = 0, read_stage = 0; k0 < K; k0 += BK, read_stage = read_stage < STAGES - 1 ? read_stage + 1 : 0) {
        const int write_stage = read_stage > 0 ? read_stage - 1 : STAGES - 1;
        // past the last k-tile: copy it again, so that the loop has no branch
        const int prefetch_k = min(k0 + BK * (STAGES - 1), K - BK);
        #pragma unroll
        for (int k = 1; k < BK / 4; ++k) {
            if (k == BK / 4 / 4) {
                #pragma unroll
                for (int c = 0; c < BM; c += 8) {
                    // As[write_stage][a_k][a_m + c]: 4 wavefronts, ideal 1 (lanes 0 and 8 copy from one bank)
                    __pipeline_memcpy_async(&As[write_stage][a_k][a_m + c], &a_global[c * K + prefetch_k], 4);
                }
            }
            if (k == BK / 4 / 2) {
                #pragma unroll
                for (int r = 0; r < BK / 4; r += 4) {
                    __pipeline_memcpy_async(&Bs[write_stage][b_k + r][b_n], &b_global[(prefetch_k + r) * N], 16);
                }
                __pipeline_commit();
            }
            a_frag[k % 2] = load<4>(&a_shared[read_stage][k][0]);
            #pragma unroll
            for (int u = 0; u < TN / 4; ++u) {
                b_frag[k % 2][u] = load<4>(&b_shared[read_stage][k][32 * u]);
            }
            #pragma unroll
            for (int j = 0; j < TN; ++j) {
                #pragma unroll
                for (int t = 0; t < TM; ++t) {
                    // serpentine: every other column backwards
                    const int i = j % 2 == 0 ? t : TM - t - 1;
                    acc[i][j] += a_frag[(k + 1) % 2].data[i] * b_frag[(k + 1) % 2][j / 4].data[j % 4];
                }
            }
        }
        __pipeline_wait_prior(STAGES - 2);
        __barrier_sync_count(k_slice + 1, 64);
        // fragments of the next k-tile; unused after the last
        const int next_stage = read_stage < STAGES - 1 ? read_stage + 1 : 0;
        a_frag[0] = load<4>(&a_shared[next_stage][0][0]);
        #pragma unroll
        for (int u = 0; u < TN / 4; ++u) {
            b_frag[0][u] = load<4>(&b_shared[next_stage][0][32 * u]);
        }
        #pragma unroll
        for (int j = 0; j < TN; ++j) {
            #pragma unroll
            for (int t = 0; t < TM; ++t) {
                // serpentine: every other column backwards
                const int i = j % 2 == 0 ? t : TM - t - 1;
                acc[i][j] += a_frag[1].data[i] * b_frag[1][j / 4].data[j % 4];
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
        #pragma unroll
        for (int g = 0; g < TN / 4; ++g) {
            Vector<float, 4> acc_vector;
            #pragma unroll
            for (int w = 0; w < 4; ++w) {
                acc_vector.data[w] = opaque_one * acc[i][4 * g + w];
            }
            store<4>(&partials[k_slice][thread_m + i][thread_n + 32 * g], acc_vector);
        }
    }
    __syncthreads();
    #pragma unroll
    for (int e = 0; e < BM * (BN / 4); e += 256) {
        const int tile_m = (thread + e) / (BN / 4);
        const int tile_n = 4 * ((thread + e) % (BN / 4));
        const int m = m0 + tile_m;
        const int n = n0 + tile_n;
        Vector<float, 4> slice_sums[4];
        #pragma unroll
        for (int s = 0; s < 4; ++s) {
            slice_sums[s] = load<4>(&partials[s][tile_m][tile_n]);
        }
        Vector<float, 4> c4;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            c4.data[v] = slice_sums[0].data[v] + slice_sums[1].data[v] + slice_sums[2].data[v] + slice_sums[3].data[v];
        }
        store<4>(&C[m * N + n], c4);
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 96;

extern "C" cudaError_t gemm_slices_launch(
    const float* A,
    const float* B,
    float* C,
    cudaStream_t stream)
{
    gemm_slices<<<dim3((N + 63) / 64, (M + 31) / 32), dim3(256), 38400, stream>>>(A, B, C);
    return cudaGetLastError();
}

#endif
