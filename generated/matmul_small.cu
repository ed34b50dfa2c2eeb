// matmul_small: Small batched GEMM with a dynamic batch and a bias; several matrices per block
//
// computes  C[z, m, n] = sum(A[z, m, k] * B[z, k, n], k) + bias[n]
// params    Z (dynamic, 0 to 1000000), M = 16, K = 12, N = 16
// A         input, float32 [Z, 16, 12], aligned to 16 bytes
// B         input, float32 [Z, 12, 16], aligned to 16 bytes
// bias      input, float32 [16], aligned to 16 bytes
// C         output, float32 [Z, 16, 16], aligned to 16 bytes
// launch    grid ((Z + 7) // 8, 1, 1), block (16, 8, 1), 12288 bytes of shared memory; family batched
// bounds    10 of 10 accesses proved
// analysis  sm_90: 8 accesses, 8 ideal
//
// Made by cugen 0.1.0 from matmul_small.yaml (hash bd451781351463e6) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   A[(min(z0 + matrix, Z - 1) * M + row) * K + column]    16 sectors, ideal 16 (at any Z)
//   As[matrix][row][column]                                4 wavefronts, ideal 4 (at any Z)
//   B[(min(z0 + matrix, Z - 1) * K + row_) * N + column_]  16 sectors, ideal 16 (at any Z)
//   Bs[matrix][row_][column_]                              4 wavefronts, ideal 4 (at any Z)
//   As[threadIdx.y][ty + 4 * i][k0]                        2 wavefronts, ideal 2 (at any Z)
//   Bs[threadIdx.y][k0 + dk][4 * tx]                       4 wavefronts, ideal 4 (at any Z)
//   bias[n]                                                2 sectors, ideal 2 (at any Z)
//   C[(z * M + m) * N + n]                                 16 sectors, ideal 16 (at any Z)

constexpr int M = 16;
constexpr int K = 12;
constexpr int N = 16;

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

extern "C" __global__ void __launch_bounds__(128) matmul_small(
    const float* __restrict__ A,
    const float* __restrict__ B,
    const float* __restrict__ bias,
    float* __restrict__ C,
    int Z)
{
    __shared__ __align__(16) float As[8][16][12];
    __shared__ __align__(16) float Bs[8][12][16];

    const int ty = threadIdx.x / 4;
    const int tx = threadIdx.x % 4;
    const int z0 = blockIdx.x * 8;
    const int z = z0 + threadIdx.y;

    #pragma unroll
    for (int u = 0; u < 3; ++u) {
        const int vector = threadIdx.x + threadIdx.y * 16 + 128 * u;
        const int matrix = vector / 48;
        const int row = vector / 3 % 16;
        const int column = 4 * (vector % 3);
        store<4>(&As[matrix][row][column], load<4>(&A[(min(z0 + matrix, Z - 1) * M + row) * K + column]));
    }
    #pragma unroll
    for (int u = 0; u < 3; ++u) {
        const int vector = threadIdx.x + threadIdx.y * 16 + 128 * u;
        const int matrix = vector / 48;
        const int row_ = vector / 4 % 12;
        const int column_ = 4 * (vector % 4);
        store<4>(&Bs[matrix][row_][column_], load<4>(&B[(min(z0 + matrix, Z - 1) * K + row_) * N + column_]));
    }
    __syncthreads();
    if (z >= Z)
        return;

    float acc[4][4] = {};
    #pragma unroll
    for (int k0 = 0; k0 < 12; k0 += 4) {
        Vector<float, 4> a_frag[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            a_frag[i] = load<4>(&As[threadIdx.y][ty + 4 * i][k0]);
        }
        #pragma unroll
        for (int dk = 0; dk < 4; ++dk) {
            const auto b_frag = load<4>(&Bs[threadIdx.y][k0 + dk][4 * tx]);
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                #pragma unroll
                for (int j = 0; j < 4; ++j) {
                    acc[i][j] += a_frag[i].data[dk] * b_frag.data[j];
                }
            }
        }
    }

    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int m = ty + 4 * i;
        const int n = 4 * tx;
        const auto bias4 = load<4>(&bias[n]);
        Vector<float, 4> c4;
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            c4.data[v] = acc[i][v] + bias4.data[v];
        }
        store<4>(&C[(z * M + m) * N + n], c4);
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t matmul_small_launch(
    const float* A,
    const float* B,
    const float* bias,
    float* C,
    int Z,
    cudaStream_t stream)
{
    if (Z < 0 || Z > 1000000)
        return cudaErrorInvalidValue;
    if (Z > 0)
        matmul_small<<<dim3((Z + 7) / 8), dim3(16, 8), 0, stream>>>(A, B, bias, C, Z);
    return cudaGetLastError();
}

#endif
