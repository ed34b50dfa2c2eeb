// What a benchmark needs beside the kernels that it times: random contents, a gate, a ceiling, and counts of what a
// kernel should not have touched. Compiled by NVRTC or nvcc for the GPU at hand.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

typedef unsigned long long u64;

__device__ u64 mixed(u64 z)  // splitmix64
{
    z = (z + 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

__device__ u64 first() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ u64 stride() { return (u64)gridDim.x * blockDim.x; }

// Uniform in low .. high, integers where `whole`.
template <class T>
__device__ void fill(T* out, u64 count, u64 seed, long long low, long long high, int whole)
{
    for (u64 i = first(); i < count; i += stride()) {
        const u64 bits = mixed(i + seed * 0x2545f4914f6cdd1dull);
        if (whole)
            out[i] = (T)(low + (long long)(bits % (u64)(high - low + 1)));
        else
            out[i] = (T)(low + (float)(bits >> 40) * 0x1p-24f * (high - low));
    }
}

#define FILL(name, type)                                                                                              \
    extern "C" __global__ void fill_##name(type* out, u64 count, u64 seed, long long low, long long high, int whole) \
    {                                                                                                                 \
        fill(out, count, seed, low, high, whole);                                                                     \
    }
FILL(float64, double)
FILL(float32, float)
FILL(int8, signed char)
FILL(int16, short)
FILL(int32, int)
FILL(int64, long long)
FILL(uint8, unsigned char)
FILL(uint16, unsigned short)
FILL(uint32, unsigned int)
FILL(uint64, u64)

// Types whose conversions from integers aren't plain casts.
#define FILL_NARROW(name, type)                                                                                       \
    extern "C" __global__ void fill_##name(type* out, u64 count, u64 seed, long long low, long long high, int whole) \
    {                                                                                                                 \
        for (u64 i = first(); i < count; i += stride()) {                                                             \
            const u64 bits = mixed(i + seed * 0x2545f4914f6cdd1dull);                                                 \
            const float x = whole ? (float)(low + (long long)(bits % (u64)(high - low + 1)))                          \
                                  : low + (float)(bits >> 40) * 0x1p-24f * (high - low);                              \
            out[i] = type(x);                                                                                         \
        }                                                                                                             \
    }
FILL_NARROW(float16, __half)
FILL_NARROW(bfloat16, __nv_bfloat16)
FILL_NARROW(float8_e4m3, __nv_fp8_e4m3)
FILL_NARROW(float8_e5m2, __nv_fp8_e5m2)

// Holds back what is queued behind it until the host opens it, or patience ends: gate[1] then says so.
extern "C" __global__ void gate(volatile int* gate, u64 patience_ns)
{
    u64 start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    while (!gate[0]) {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        if (now - start > patience_ns) {
            gate[1] = 1;
            return;
        }
    }
}

// Reads `count` vectors once and writes nothing, which the compiler can't know: the ceiling of reductions, and the flush
// of L2. Lines of `__ldcs` would be the first to be evicted, and leave in L2 what was there before.
extern "C" __global__ void __launch_bounds__(256) read_all(const uint4* __restrict__ in, u64 count, unsigned* never)
{
    unsigned seen = 0;
    const u64 tile = (u64)blockDim.x * 8;
    for (u64 start = blockIdx.x * tile; start < count; start += gridDim.x * tile) {
        uint4 held[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            const u64 i = start + k * blockDim.x + threadIdx.x;
            held[k] = i < count ? __ldcg(in + i) : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int k = 0; k < 8; ++k)
            seen |= (held[k].x ^ held[k].y) + (held[k].z ^ held[k].w);
    }
    if (seen == 0xdeadbeef)
        *never = seen;
}

// How many of `count` elements of `width` bytes hold `pattern`.
extern "C" __global__ void count_equal(const unsigned char* in, u64 count, int width, u64 pattern, u64* found)
{
    u64 own = 0;
    for (u64 i = first(); i < count; i += stride()) {
        const u64 value = width == 8   ? ((const u64*)in)[i]
                          : width == 4 ? ((const unsigned*)in)[i]
                          : width == 2 ? ((const unsigned short*)in)[i]
                                       : in[i];
        own += value == pattern;
    }
    if (own)
        atomicAdd(found, own);
}

// How many of `count` bytes differ.
extern "C" __global__ void count_different(const unsigned char* a, const unsigned char* b, u64 count, u64* found)
{
    u64 own = 0;
    for (u64 i = first(); i < count; i += stride())
        own += a[i] != b[i];
    if (own)
        atomicAdd(found, own);
}
