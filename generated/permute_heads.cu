// permute_heads: Keys of an attention, transposed in each head; heads and channels stay adjacent,
// so it is one batch of transposes
//
// computes  Kt[b, h, d, t] = K[b, t, h, d]
// params    B = 2, T = 200, H = 3, D = 40
// K         input, float16 [2, 200, 3, 40], aligned to 16 bytes
// Kt        output, float16 [2, 3, 40, 200], aligned to 16 bytes
// launch    grid (4, 2, 2), block (8, 32, 1), 8832 bytes of shared memory; family transpose
// bounds    4 of 4 accesses proved
// analysis  sm_90: 4 accesses, 2 ideal, 2 costly
//           worst: Kt[(b * (D * H) + hd) * T + t], 18 sectors, ideal 16; 14.5 on average (512 bytes in 4 runs)
//
// Made by cugen 0.1.0 from permute_heads.yaml (hash 4afff64791754510) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   tile[ty][2 * column + 2 * v]   1 wavefront, ideal 1 (conflict-free)
//   tile[4 * tx + u][2 * column_]  1 wavefront, ideal 1 (conflict-free)

#include <cuda_fp16.h>

constexpr int T = 200;
constexpr int H = 3;
constexpr int D = 40;

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

extern "C" __global__ void __launch_bounds__(256) permute_heads(
    const __half* __restrict__ K,
    __half* __restrict__ Kt)
{
    __shared__ __align__(4) __half tile[32][138];

    const int b = blockIdx.z;
    const int t0 = blockIdx.x * 64;
    const int hd0 = blockIdx.y * 64;
    const int tx = threadIdx.x;
    const int ty = threadIdx.y;

    // beyond the edges the last elements are loaded again, and not stored
    const int hd_in = min(hd0 + 8 * tx, D * H - 8);
    const int column = 4 * (8 * tx / 32) + 8 * tx;
    const int t_in = min(t0 + 2 * ty, T - 2);
    Vector<__half, 8> k8[2];
    #pragma unroll
    for (int p = 0; p < 2; ++p) {
        // K[(b * T + t_in + p) * (D * H) + hd_in]: 20 sectors, ideal 16; 14.21 on average (512 bytes in 4 runs)
        k8[p] = load<8>(&K[(b * T + t_in + p) * (D * H) + hd_in]);
    }
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
        Vector<__half, 2> word2;
        #pragma unroll
        for (int p = 0; p < 2; ++p) {
            word2.data[p] = k8[p].data[v];
        }
        store<2>(&tile[ty][2 * column + 2 * v], word2);
    }
    __syncthreads();

    const int t = t0 + 8 * tx;
    if (t < T) {
        #pragma unroll
        for (int r = 0; r < 64; r += 32) {
            const int hd = hd0 + ty + r;
            if (hd < D * H) {
                const int column_ = ty + 4 * ((ty + r) / 32) + r;
                Vector<__half, 2> k2[4];
                #pragma unroll
                for (int u = 0; u < 4; ++u) {
                    k2[u] = load<2>(&tile[4 * tx + u][2 * column_]);
                }
                Vector<__half, 8> kt8;
                #pragma unroll
                for (int v = 0; v < 8; ++v) {
                    kt8.data[v] = k2[v / 2].data[v % 2];
                }
                // Kt[(b * (D * H) + hd) * T + t]: 18 sectors, ideal 16; 14.5 on average (512 bytes in 4 runs)
                store<8>(&Kt[(b * (D * H) + hd) * T + t], kt8);
            }
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int B = 2;

extern "C" cudaError_t permute_heads_launch(
    const __half* K,
    __half* Kt,
    cudaStream_t stream)
{
    permute_heads<<<dim3((T + 63) / 64, (D * H + 63) / 64, B), dim3(8, 32), 0, stream>>>(K, Kt);
    return cudaGetLastError();
}

#endif
