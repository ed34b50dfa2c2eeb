// transpose_f16: B = Aᵀ of 16-bit floats, scaled row by row; a word of the tile holds two
// consecutive elements of the output
//
// computes  B[n, m] = A[m, n] * scale[m]
// params    M = 320, N = 264
// A         input, float16 [320, 264], aligned to 16 bytes
// scale     input, float32 [320], aligned to 16 bytes
// B         output, float16 [264, 320], aligned to 16 bytes
// launch    grid (5, 5, 1), block (8, 32, 1), 8832 bytes of shared memory; family transpose
// bounds    5 of 5 accesses proved
// analysis  sm_90: 5 accesses, 3 ideal, 2 costly
//           worst: scale[m + 4 * u_], 8 sectors, ideal 4 (lanes 32 bytes apart)
//
// Made by cugen 0.1.0 from transpose_f16.yaml (hash ed38cea96f7b9d5e) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   tile[ty][2 * column + 2 * v]   1 wavefront, ideal 1 (conflict-free)
//   tile[4 * tx + u][2 * column_]  1 wavefront, ideal 1 (conflict-free)
//   B[n * M + m]                   16 sectors, ideal 16 (512 bytes in 4 runs)

#include <cuda_fp16.h>

constexpr int M = 320;
constexpr int N = 264;

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

extern "C" __global__ void __launch_bounds__(256) transpose_f16(
    const __half* __restrict__ A,
    const float* __restrict__ scale,
    __half* __restrict__ B)
{
    __shared__ __align__(4) __half tile[32][138];

    const int m0 = blockIdx.x * 64;
    const int n0 = blockIdx.y * 64;
    const int tx = threadIdx.x;
    const int ty = threadIdx.y;

    // beyond the edges the last elements are loaded again, and not stored
    const int n_in = min(n0 + 8 * tx, N - 8);
    const int column = 4 * (8 * tx / 32) + 8 * tx;
    const int m_in = m0 + 2 * ty;
    Vector<__half, 8> a8[2];
    #pragma unroll
    for (int p = 0; p < 2; ++p) {
        // A[(m_in + p) * N + n_in]: 20 sectors, ideal 16; 15.2 on average (512 bytes in 4 runs)
        a8[p] = load<8>(&A[(m_in + p) * N + n_in]);
    }
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
        Vector<__half, 2> word2;
        #pragma unroll
        for (int p = 0; p < 2; ++p) {
            word2.data[p] = a8[p].data[v];
        }
        store<2>(&tile[ty][2 * column + 2 * v], word2);
    }
    __syncthreads();

    const int m = m0 + 8 * tx;
    Vector<float, 4> scale4[2];
    #pragma unroll
    for (int u_ = 0; u_ < 2; ++u_) {
        // scale[m + 4 * u_]: 8 sectors, ideal 4 (lanes 32 bytes apart)
        scale4[u_] = load<4>(&scale[m + 4 * u_]);
    }
    #pragma unroll
    for (int r = 0; r < 64; r += 32) {
        const int n = n0 + ty + r;
        if (n < N) {
            const int column_ = ty + 4 * ((ty + r) / 32) + r;
            Vector<__half, 2> a2[4];
            #pragma unroll
            for (int u = 0; u < 4; ++u) {
                a2[u] = load<2>(&tile[4 * tx + u][2 * column_]);
            }
            Vector<__half, 8> b8;
            #pragma unroll
            for (int v = 0; v < 8; ++v) {
                b8.data[v] = __float2half_rn(__half2float(a2[v / 2].data[v % 2]) * scale4[v / 4].data[v % 4]);
            }
            store<8>(&B[n * M + m], b8);
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t transpose_f16_launch(
    const __half* A,
    const float* scale,
    __half* B,
    cudaStream_t stream)
{
    transpose_f16<<<dim3((M + 63) / 64, (N + 63) / 64), dim3(8, 32), 0, stream>>>(A, scale, B);
    return cudaGetLastError();
}

#endif
