// array_of_structures: The length of many vectors, stored one after the other as x y z x y z …;
// compare `structures_of_arrays`
//
// computes  length[i] = sqrt(point[i, 0] * point[i, 0] + point[i, 1] * point[i, 1] + point[i, 2] * point[i, 2])
// params    N = 60000
// point     input, float32 [60000, 3]
// length    output, float32 [60000]
// launch    grid (235, 1, 1), block (256, 1, 1); family map
// analysis  sm_90: 4 accesses, 1 ideal, 3 costly
//           worst: point[i * 3], 12 sectors, ideal 4 (lanes 12 bytes apart)
//
// Made by cugen 0.1.0 from array_of_structures.yaml (hash 1b27b639b658c7ab) for sm_90. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   length[i]  4 sectors, ideal 4 (128 contiguous bytes)

constexpr int N = 60000;

extern "C" __global__ void __launch_bounds__(256) array_of_structures(
    const float* __restrict__ point,
    float* __restrict__ length)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= N)
        return;

    // point[i * 3]: 12 sectors, ideal 4 (lanes 12 bytes apart)
    const float point_i_0 = point[i * 3];
    // point[i * 3 + 1]: 12 sectors, ideal 4 (lanes 12 bytes apart)
    const float point_i_1 = point[i * 3 + 1];
    // point[i * 3 + 2]: 12 sectors, ideal 4 (lanes 12 bytes apart)
    const float point_i_2 = point[i * 3 + 2];
    length[i] = sqrtf(point_i_0 * point_i_0 + point_i_1 * point_i_1 + point_i_2 * point_i_2);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t array_of_structures_launch(
    const float* point,
    float* length,
    cudaStream_t stream)
{
    array_of_structures<<<dim3((N + 255) / 256), dim3(256), 0, stream>>>(point, length);
    return cudaGetLastError();
}

#endif
