// C = A·B by a generated kernel, held against three loops. The same source is built for the GPU and for the CPU.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "gemm.h"

int main()
{
    constexpr int M = ROWS, K = 64, N = 128;
    std::vector<float> a(M * K), b(K * N), c(M * N);
    for (int i = 0; i < M * K; ++i)
        a[i] = static_cast<float>(i % 13 - 6);
    for (int i = 0; i < K * N; ++i)
        b[i] = static_cast<float>(i % 7 - 3);

    float *A, *B, *C;
    cudaMalloc(&A, a.size() * sizeof(float));
    cudaMalloc(&B, b.size() * sizeof(float));
    cudaMalloc(&C, c.size() * sizeof(float));
    cudaMemcpy(A, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(B, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaError_t status = gemm_launch(A, B, C, nullptr);
    if (status == cudaSuccess)
        status = cudaMemcpy(c.data(), C, c.size() * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(A);
    cudaFree(B);
    cudaFree(C);
    if (status != cudaSuccess) {
        std::fprintf(stderr, "gemm: %s\n", cudaGetErrorString(status));
        return 2;
    }

    // Small integers: every order of the sum gives the same.
    int wrong = 0;
    for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) {
            float sum = 0;
            for (int k = 0; k < K; ++k)
                sum += a[m * K + k] * b[k * N + n];
            wrong += sum != c[m * N + n];
        }
    std::printf("gemm of %d x %d x %d: %d of %d elements differ\n", M, K, N, wrong, M * N);
    return wrong != 0;
}
