// What Python calls: host arrays in and out.
#include <cuda_runtime.h>

#include "row_softmax.h"

extern "C" int rowsoftmax(const float* x, float* y, int rows)
{
    constexpr int columns = 256;
    float *X = nullptr, *Y = nullptr;
    const size_t bytes = rows * columns * sizeof(float);
    cudaError_t status = cudaMalloc(&X, bytes);
    if (status == cudaSuccess)
        status = cudaMalloc(&Y, bytes);
    if (status == cudaSuccess)
        status = cudaMemcpy(X, x, bytes, cudaMemcpyHostToDevice);
    if (status == cudaSuccess)
        status = row_softmax_launch(X, Y, rows, nullptr);
    if (status == cudaSuccess)
        status = cudaMemcpy(y, Y, bytes, cudaMemcpyDeviceToHost);
    cudaFree(X);
    cudaFree(Y);
    return status;
}
