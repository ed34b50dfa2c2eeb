// Chases of pointers by one thread, each load waiting for the last, and sectors that are read once.
//
// `found` gets the clock cycles of `steps` loads, the nanoseconds of the same, and where the chase ended, without which
// the compiler would leave it out. `warm` steps before them fill the cache.
typedef unsigned long long u64;

__device__ u64 nanoseconds()
{
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

template <class Position, class Next>
__device__ void chase(Position position, int warm, int steps, u64* found, Next next)
{
    for (int k = 0; k < warm; ++k)
        position = next(position);
    const u64 before = nanoseconds();
    const long long start = clock64();
#pragma unroll 128
    for (int k = 0; k < steps; ++k)
        position = next(position);
    const long long end = clock64();
    found[0] = end - start;
    found[1] = nanoseconds() - before;
    found[2] = (u64)position;
}

// Each element holds the address of the next.
extern "C" __global__ void chase_l1(u64 first, int warm, int steps, u64* found)
{
    chase(first, warm, steps, found, [](u64 position) {
        asm volatile("ld.global.u64 %0, [%0];" : "+l"(position));
        return position;
    });
}

extern "C" __global__ void chase_l2(u64 first, int warm, int steps, u64* found)
{
    chase(first, warm, steps, found, [](u64 position) {
        asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(position));
        return position;
    });
}

extern "C" __global__ void chase_shared(int warm, int steps, u64* found)
{
    __shared__ unsigned elements[1024];
    const unsigned base = (unsigned)__cvta_generic_to_shared(elements);
    for (int k = 0; k < 1024; ++k)
        elements[k] = base + (k + 33) % 1024 * sizeof(unsigned);
    chase(base, warm, steps, found, [](unsigned position) {
        asm volatile("ld.shared.u32 %0, [%0];" : "+r"(position));
        return position;
    });
}

// Elements hold offsets in bytes. They start at one that a compiler doesn't know to be the same for all lanes, for which
// it would take another instruction.
__constant__ unsigned constants[16384];

extern "C" __global__ void chase_constant(int warm, int steps, u64* found)
{
    chase(threadIdx.x, warm, steps, found,
          [](unsigned position) { return *(const unsigned*)((const char*)constants + position); });
}

// Elements hold indices.
extern "C" __global__ void chase_texture(cudaTextureObject_t elements, int warm, int steps, u64* found)
{
    chase(0, warm, steps, found, [=](int position) { return tex1Dfetch<int>(elements, position); });
}

extern "C" __global__ void chase_registers(float factor, float term, int warm, int steps, u64* found)
{
    chase(factor, warm, steps, found, [=](float position) { return fmaf(position, factor, term); });
}

// Reads memory once, by loads whose lines are the first to be evicted.
extern "C" __global__ void read_evicted_first(const uint4* in, u64 count, unsigned* never)
{
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x) {
        const uint4 four = __ldcs(in + i);
        if ((four.x ^ four.y ^ four.z ^ four.w) == 0xdeadbeef)
            *never = four.x;
    }
}

// Reads a sector of each row; a warp's lanes are in 32 rows.
extern "C" __global__ void __launch_bounds__(256) sectors(const char* rows, u64 pitch, unsigned* never)
{
    const u64 row = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const uint4 half = __ldcs((const uint4*)(rows + row * pitch));
    if ((half.x ^ half.y ^ half.z ^ half.w) == 0xdeadbeef)
        *never = half.x;
}
