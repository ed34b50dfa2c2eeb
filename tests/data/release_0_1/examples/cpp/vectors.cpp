// y = a·x + y and then the sum of y, by two generated kernels whose size is known at run time.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

#include "axpy.h"
#include "total.h"

int main()
{
    constexpr int N = 100003;
    std::vector<float> x(N), y(N);
    float expected = 0;
    for (int i = 0; i < N; ++i) {
        x[i] = static_cast<float>(i % 5);
        y[i] = static_cast<float>(i % 3);
        expected += 2 * x[i] + y[i];
    }

    float *X, *Y, *S, sum = 0;
    cudaMalloc(&X, N * sizeof(float));
    cudaMalloc(&Y, N * sizeof(float));
    cudaMalloc(&S, sizeof(float));
    cudaMemcpy(X, x.data(), N * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(Y, y.data(), N * sizeof(float), cudaMemcpyHostToDevice);
    cudaError_t status = axpy_launch(X, Y, 2.0f, N, nullptr);
    if (status == cudaSuccess)
        status = total_launch(Y, S, N, nullptr, nullptr);
    if (status == cudaSuccess)
        status = cudaMemcpy(&sum, S, sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(X);
    cudaFree(Y);
    cudaFree(S);
    if (status != cudaSuccess) {
        std::fprintf(stderr, "vectors: %s\n", cudaGetErrorString(status));
        return 2;
    }
    std::printf("sum of %d elements: %.0f, expected %.0f\n", N, sum, expected);
    return sum != expected;
}
