// heat3d: One explicit step of the heat equation in three dimensions; outside the body it is 0 degrees
//
// computes  around[x, y, z] = (u[x - 1, y, z] + u[x + 1, y, z] + u[x, y - 1, z] + u[x, y + 1, z] + u[x, y, z - 1]
//           + u[x, y, z + 1])
//           next[x, y, z] = u[x, y, z] + alpha * (around[x, y, z] - 6 * u[x, y, z])
// params    X = 40, Y = 36, Z = 50
// u         input, float32 [40, 36, 50], outside: zero
// next      output, float32 [40, 36, 50]
// launch    grid (2, 5, 40), block (32, 8, 1); family direct
// analysis  sm_90: 8 accesses, 8 costly
//           worst: u[(x * Y + y) * Z + z - 1], 5 sectors, ideal 4; 4 on average (starts 8 bytes into a sector)
//
// Made by cugen 0.1.0 from heat3d.yaml (hash a73dabdf51a984a6) for sm_90. Edit the spec, not this file.

constexpr int X = 40;
constexpr int Y = 36;
constexpr int Z = 50;
constexpr float alpha = 0.1f;

extern "C" __global__ void __launch_bounds__(256) heat3d(
    const float* __restrict__ u,
    float* __restrict__ next)
{
    const int x = blockIdx.z;
    const int y = blockIdx.y * 8 + threadIdx.y;
    const int z = blockIdx.x * 32 + threadIdx.x;
    if (y >= Y || z >= Z)
        return;

    // u[((x - 1) * Y + y) * Z + z]: 5 sectors, ideal 4; 3.88 on average (starts 8 bytes into a sector)
    const float u_xm1_y_z = x - 1 >= 0 ? u[((x - 1) * Y + y) * Z + z] : 0.0f;
    // u[((x + 1) * Y + y) * Z + z]: 5 sectors, ideal 4; 3.88 on average (starts 8 bytes into a sector)
    const float u_xp1_y_z = x + 1 < X ? u[((x + 1) * Y + y) * Z + z] : 0.0f;
    // u[(x * Y + y - 1) * Z + z]: 5 sectors, ideal 4; 3.87 on average (starts 8 bytes into a sector)
    const float u_x_ym1_z = y - 1 >= 0 ? u[(x * Y + y - 1) * Z + z] : 0.0f;
    // u[(x * Y + y + 1) * Z + z]: 5 sectors, ideal 4; 3.89 on average (starts 8 bytes into a sector)
    const float u_x_yp1_z = y + 1 < Y ? u[(x * Y + y + 1) * Z + z] : 0.0f;
    // u[(x * Y + y) * Z + z - 1]: 5 sectors, ideal 4; 4 on average (starts 8 bytes into a sector)
    const float u_x_y_zm1 = z - 1 >= 0 ? u[(x * Y + y) * Z + z - 1] : 0.0f;
    // u[(x * Y + y) * Z + z + 1]: 5 sectors, ideal 4; 4 on average (starts 4 bytes into a sector)
    const float u_x_y_zp1 = z + 1 < Z ? u[(x * Y + y) * Z + z + 1] : 0.0f;
    const float around = u_xm1_y_z + u_xp1_y_z + u_x_ym1_z + u_x_yp1_z + u_x_y_zm1 + u_x_y_zp1;
    // u[(x * Y + y) * Z + z]: 5 sectors, ideal 4; 3.88 on average (starts 8 bytes into a sector)
    const float u_x_y_z = u[(x * Y + y) * Z + z];
    // next[(x * Y + y) * Z + z]: 5 sectors, ideal 4; 3.88 on average (starts 8 bytes into a sector)
    next[(x * Y + y) * Z + z] = u_x_y_z + alpha * (around - 6.0f * u_x_y_z);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" cudaError_t heat3d_launch(
    const float* u,
    float* next,
    cudaStream_t stream)
{
    heat3d<<<dim3((Z + 31) / 32, (Y + 7) / 8, X), dim3(32, 8), 0, stream>>>(u, next);
    return cudaGetLastError();
}

#endif
