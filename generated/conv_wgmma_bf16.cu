// conv_wgmma_bf16: A strided convolution in bfloat16, channels last, by wgmma; TMA copies its windows in im2col mode
//
// computes  y[n, p, q, k] = relu(sum(x[n, 2*p + r - 1, 2*q + s - 1, c] * f[k, r, s, c], r, s, c) + bias[k])
// params    N = 3, H = 13, W = 18, P = 7, Q = 9, C = 64, K = 96
// x         input, bfloat16 [3, 13, 18, 64], outside: zero, aligned to 16 bytes
// f         input, bfloat16 [96, 3, 3, 64], aligned to 16 bytes
// bias      input, float32 [96], aligned to 8 bytes
// y         output, bfloat16 [3, 7, 9, 96], aligned to 16 bytes
// launch    grid (9, 1, 1), block (160, 1, 1), 114760 bytes of dynamic shared memory; family wgmma
// pipeline  proved for at most 9 k-tiles: 9 stages, none is refilled, 12288 bytes per stage
// bounds    18 of 18 accesses proved
// analysis  sm_90a: 10 accesses, 10 ideal
//           mbarriers: one address per warp, so without bank conflicts; how often waits poll is not static
//
// Made by cugen 0.1.0 from conv_wgmma_bf16.yaml (hash 0b837179aeb31954) for sm_90a. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   xs[stage][0][0]                                      64 wavefronts, ideal 64 (consecutive bytes)
//   x_map(c, 2 * q - 1, 2 * p - 1, n)                    216 sectors, ideal 216 (64 x 128 bytes)
//   fs[stage][0][0]                                      32 wavefronts, ideal 32 (consecutive bytes)
//   f_map(rsc0, k0)                                      128 sectors, ideal 128 (32 x 128 bytes)
//   k_major_matrix(&xs[stage][0][0], rsc)                16 wavefronts, ideal 16 (swizzled rows of 128 bytes)
//   k_major_matrix(&fs[stage][0][0], rsc)                8 wavefronts, ideal 8 (swizzled rows of 128 bytes)
//   bias[k]                                              1 sector, ideal 1 (32 contiguous bytes)
//   c_tile[0][0][thread_m + 8 * h][(8 * g) ^ c_swizzle]  1 wavefront, ideal 1 (conflict-free)
//   c_tile[0][0][0][0]                                   32 wavefronts, ideal 32 (consecutive bytes)
//   y_map(k0, npq0)                                      128 sectors, ideal 128 (64 x 64 bytes)

#include <cuda_bf16.h>

#if defined(__CUDACC_RTC__)
// As cuda.h declares it, which NVRTC can't include for want of the C library's headers.
struct alignas(128) CUtensorMap {
    unsigned long long opaque[16];
};
#else
#include <cuda.h>
#endif

constexpr int P = 7;
constexpr int Q = 9;
constexpr int C = 64;

#ifndef CUGEN_VECTOR
#define CUGEN_VECTOR
// `count` elements, moved by one vector access.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T data[count];
};
#endif

#ifndef CUGEN_ELECT_ONE
#define CUGEN_ELECT_ONE
// Whether the thread is the one that is chosen of its warp, all of whose threads call this. The compiler knows that a
// single thread executes what depends on it (PTX ISA: elect.sync).
__device__ __forceinline__ bool elect_one()
{
    unsigned is_elected;
    asm volatile(
        "{\n"
        ".reg .pred elected;\n"
        "elect.sync _|elected, 0xffffffff;\n"
        "selp.u32 %0, 1, 0, elected;\n"
        "}"
        : "=r"(is_elected));
    return is_elected;
}
#endif

#ifndef CUGEN_FENCE_PROXY_ASYNC
#define CUGEN_FENCE_PROXY_ASYNC
// Makes the thread's writes to shared memory visible to asynchronous copies and to wgmma (PTX ISA: fence.proxy.async).
__device__ __forceinline__ void fence_proxy_async()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
#endif

#ifndef CUGEN_K_MAJOR_MATRIX
#define CUGEN_K_MAJOR_MATRIX
// Describes a matrix to wgmma that is contiguous along k: rows of 128 bytes in shared memory, swizzled as by TMA, from
// element `k` of a row on, at a multiple of 32 bytes (PTX ISA: wgmma, matrix descriptor).
template <typename T>
__device__ __forceinline__ unsigned long long k_major_matrix(const T* row, int k)
{
    constexpr unsigned long long swizzle_of_128_bytes = 1ull << 62, bytes_of_8_rows = 1024;
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row)) & 0x3ffff;
    return (swizzle_of_128_bytes | bytes_of_8_rows / 16 << 32 | address / 16) + k * sizeof(T) / 16;
}
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

#ifndef CUGEN_MAXIMUM_FLOAT
#define CUGEN_MAXIMUM_FLOAT
// Maximum; NaN if an operand is NaN.
__device__ __forceinline__ float maximum(float a, float b)
{
#if __CUDA_ARCH__ >= 800
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
#else
    return a > b || a != a ? a : b;
#endif
}
#endif

#ifndef CUGEN_MBARRIER_ARRIVE_EXPECT_TX
#define CUGEN_MBARRIER_ARRIVE_EXPECT_TX
// Arrives at a barrier whose phase ends when `bytes` more have been copied (PTX ISA: mbarrier.arrive.expect_tx).
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned long long* barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
        :: "r"(static_cast<unsigned>(__cvta_generic_to_shared(barrier))), "r"(bytes) : "memory");
}
#endif

#ifndef CUGEN_MBARRIER_INIT
#define CUGEN_MBARRIER_INIT
// Initialises a barrier in shared memory for `arrivals` of a phase (PTX ISA: mbarrier.init). Its phase is 0.
__device__ __forceinline__ void mbarrier_init(unsigned long long* barrier, unsigned arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
        :: "r"(static_cast<unsigned>(__cvta_generic_to_shared(barrier))), "r"(arrivals) : "memory");
}
#endif

#ifndef CUGEN_MBARRIER_INIT_FENCE
#define CUGEN_MBARRIER_INIT_FENCE
// Makes initialised barriers visible to asynchronous copies (PTX ISA: fence.mbarrier_init).
__device__ __forceinline__ void mbarrier_init_fence()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
#endif

#ifndef CUGEN_MBARRIER_WAIT
#define CUGEN_MBARRIER_WAIT
// Waits until the barrier's phase of this parity has ended (PTX ISA: mbarrier.try_wait.parity). In phase 0, parity 1
// has ended.
__device__ __forceinline__ void mbarrier_wait(unsigned long long* barrier, unsigned parity)
{
    asm volatile(
        "{\n"
        ".reg .pred ended;\n"
        "WAIT_%=:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
        "@!ended bra WAIT_%=;\n"
        "}"
        :: "r"(static_cast<unsigned>(__cvta_generic_to_shared(barrier))), "r"(parity) : "memory");
}
#endif

#ifndef CUGEN_PREFETCH_TENSOR_MAP
#define CUGEN_PREFETCH_TENSOR_MAP
// Prefetches a tensor map, which the first copy would wait for (PTX ISA: prefetch.tensormap).
__device__ __forceinline__ void prefetch_tensor_map(const CUtensorMap* map)
{
    asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
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

#ifndef CUGEN_TMA_LOAD_2D
#define CUGEN_TMA_LOAD_2D
// One thread copies a box of a tensor map to shared memory, asynchronously; elements outside the tensor are zero. The
// bytes of the whole box count at the barrier (PTX ISA: cp.async.bulk.tensor). `x` is along the contiguous dimension.
__device__ __forceinline__ void tma_load_2d(
    void* target, const CUtensorMap* map, unsigned long long* barrier, int x, int y)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
        :: "r"(static_cast<unsigned>(__cvta_generic_to_shared(target))), "l"(map),
           "r"(static_cast<unsigned>(__cvta_generic_to_shared(barrier))), "r"(x), "r"(y)
        : "memory");
}
#endif

#ifndef CUGEN_TMA_LOAD_IM2COL_4D
#define CUGEN_TMA_LOAD_IM2COL_4D
// One thread copies channels of pixels to shared memory, asynchronously, from `c` on: of the pixels that follow
// (w, h, n) in the bounding box of the tensor map, each (s, r) further on. Pixels outside
// the images are zero. The bytes
// of all pixels count at the barrier (PTX ISA: cp.async.bulk.tensor, im2col mode).
__device__ __forceinline__ void tma_load_im2col_4d(
    void* target, const CUtensorMap* map, unsigned long long* barrier,
    int c, int w, int h, int n, unsigned short s, unsigned short r)
{
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};"
        :: "r"(static_cast<unsigned>(__cvta_generic_to_shared(target))), "l"(map),
           "r"(static_cast<unsigned>(__cvta_generic_to_shared(barrier))),
           "r"(c), "r"(w), "r"(h), "r"(n), "h"(s), "h"(r)
        : "memory");
}
#endif

#ifndef CUGEN_TMA_STORE_2D
#define CUGEN_TMA_STORE_2D
// One thread copies a box from shared memory to a tensor map, asynchronously; elements outside the tensor are left out
// (PTX ISA: cp.async.bulk.tensor). `x` is along the contiguous dimension.
__device__ __forceinline__ void tma_store_2d(const CUtensorMap* map, const void* source, int x, int y)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
        :: "l"(map), "r"(static_cast<unsigned>(__cvta_generic_to_shared(source))), "r"(x), "r"(y)
        : "memory");
}
#endif

#ifndef CUGEN_TMA_STORE_COMMIT
#define CUGEN_TMA_STORE_COMMIT
// Commits the thread's asynchronous stores as a group (PTX ISA: cp.async.bulk.commit_group).
__device__ __forceinline__ void tma_store_commit()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
#endif

#ifndef CUGEN_TMA_STORE_WAIT_READ
#define CUGEN_TMA_STORE_WAIT_READ
// Waits until all but the last `pending` groups of the thread's asynchronous stores have read their shared memory
// (PTX ISA: cp.async.bulk.wait_group.read).
template <int pending>
__device__ __forceinline__ void tma_store_wait_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(pending) : "memory");
}
#endif

#ifndef CUGEN_WGMMA_COMMIT
#define CUGEN_WGMMA_COMMIT
// Commits the warpgroup's wgmmas as a group (PTX ISA: wgmma.commit_group).
__device__ __forceinline__ void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
#endif

#ifndef CUGEN_WGMMA_FENCE
#define CUGEN_WGMMA_FENCE
// Orders a warpgroup's accesses of accumulator registers before its next wgmma (PTX ISA: wgmma.fence).
__device__ __forceinline__ void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
#endif

#ifndef CUGEN_WGMMA_M64N32K16_BF16
#define CUGEN_WGMMA_M64N32K16_BF16
// D = A * B + D, or A * B unless `accumulates`, by a warpgroup, asynchronously (PTX ISA: wgmma.mma_async), with A of
// 64 x 16 and B of 16 x 32 elements in shared memory. Lane 4 * g + t of warp w has of each 8 columns of D the pair
// 2 * t and 2 * t + 1: of row 16 * w + g in `upper`, of row 16 * w + g + 8 in `lower`.
// An operand that `is_mn_major` is contiguous along its rows or columns, any other along k.
template <bool a_is_mn_major, bool b_is_mn_major>
__device__ __forceinline__ void wgmma_m64n32k16_bf16(
    float* upper, float* lower, unsigned long long a, unsigned long long b, bool accumulates)
{
    asm volatile(
        "{\n"
        ".reg .pred accumulates;\n"
        "setp.ne.b32 accumulates, %18, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "%16, %17, accumulates, 1, 1, %19, %20;\n"
        "}"
        : "+f"(upper[0]), "+f"(upper[1]), "+f"(lower[0]), "+f"(lower[1]),
          "+f"(upper[2]), "+f"(upper[3]), "+f"(lower[2]), "+f"(lower[3]),
          "+f"(upper[4]), "+f"(upper[5]), "+f"(lower[4]), "+f"(lower[5]),
          "+f"(upper[6]), "+f"(upper[7]), "+f"(lower[6]), "+f"(lower[7])
        : "l"(a), "l"(b), "r"(static_cast<int>(accumulates)), "n"(a_is_mn_major), "n"(b_is_mn_major));
}
#endif

#ifndef CUGEN_WGMMA_WAIT
#define CUGEN_WGMMA_WAIT
// Waits for all but the last `pending` groups of the warpgroup's wgmmas (PTX ISA: wgmma.wait_group).
template <int pending>
__device__ __forceinline__ void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(pending) : "memory");
}
#endif

extern "C" __global__ void __launch_bounds__(160, 1) conv_wgmma_bf16(
    const __grid_constant__ CUtensorMap x_map,
    const __grid_constant__ CUtensorMap f_map,
    const __grid_constant__ CUtensorMap y_map,
    const float* __restrict__ bias)
{
    extern __shared__ __align__(1024) unsigned char shared_memory[];

    constexpr int BM = 64, BN = 32, BK = 64, STAGES = 9, TILES_M = 3;

    // circular buffer of 9 stages, swizzled rows of 128 bytes
    __nv_bfloat16 (*xs)[BM][BK] = reinterpret_cast<__nv_bfloat16 (*)[BM][BK]>(shared_memory);
    __nv_bfloat16 (*fs)[BN][BK] = reinterpret_cast<__nv_bfloat16 (*)[BN][BK]>(xs + STAGES);
    __nv_bfloat16 (*c_tile)[1][64][32] = reinterpret_cast<__nv_bfloat16 (*)[1][64][32]>(fs + STAGES);
    // mbarriers: full once the tiles of a stage have been copied
    unsigned long long* full = reinterpret_cast<unsigned long long*>(c_tile + 1);

    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int thread_m = 16 * (thread / 32) + lane / 4;
    const int thread_n = 2 * (lane % 4);
    const int npq0 = blockIdx.x % TILES_M * BM;
    const int k0 = blockIdx.x / TILES_M * BN;

    // producer: one thread copies all k-tiles, for none of which it waits
    if (thread >= 128 && elect_one()) {
        prefetch_tensor_map(&x_map);
        prefetch_tensor_map(&f_map);
        prefetch_tensor_map(&y_map);
        #pragma unroll
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(&full[stage], 1);
        }
        mbarrier_init_fence();
        // the output of the tile's first row
        const int n = npq0 / (P * Q);
        const int p = npq0 / Q % P;
        const int q = npq0 % Q;
        #pragma unroll 1
        for (int rsc0 = 0; rsc0 < 9 * C; rsc0 += BK) {
            const int stage = rsc0 / BK;
            mbarrier_arrive_expect_tx(&full[stage], 2 * BK * BM + 2 * BK * BN);
            // the k-tile's tap and first channel
            const int r = rsc0 / (3 * C);
            const int s = rsc0 / C % 3;
            const int c = rsc0 % C;
            tma_load_im2col_4d(&xs[stage][0][0], &x_map, &full[stage], c, 2 * q - 1, 2 * p - 1, n, s, r);
            tma_load_2d(&fs[stage][0][0], &f_map, &full[stage], rsc0, k0);
        }
    }
    __syncthreads();

    if (thread < 128) {
        // consumers: each warpgroup multiplies its rows of the stages that are full
        float acc[2][8];
        #pragma unroll 1
        for (int rsc0 = 0; rsc0 < 9 * C; rsc0 += BK) {
            const int stage = rsc0 / BK;
            mbarrier_wait(&full[stage], 0);
            wgmma_fence();
            #pragma unroll
            for (int rsc = 0; rsc < BK; rsc += 16) {
                wgmma_m64n32k16_bf16<false, false>(&acc[0][0], &acc[1][0], k_major_matrix(&xs[stage][0][0], rsc),
                    k_major_matrix(&fs[stage][0][0], rsc), rsc0 + rsc > 0);
            }
            wgmma_commit();
            // until the k-tile before has been read
            wgmma_wait<1>();
        }
        wgmma_wait<0>();

        // results to shared memory, in the swizzled rows that TMA stores
        const int c_swizzle = 8 * (lane / 8) + thread_n;
        #pragma unroll
        for (int h = 0; h < 2; ++h) {
            #pragma unroll
            for (int g = 0; g < 4; ++g) {
                const int k = k0 + thread_n + 8 * g;
                const auto bias2 = load<2>(&bias[k]);
                Vector<__nv_bfloat16, 2> y2;
                #pragma unroll
                for (int v = 0; v < 2; ++v) {
                    y2.data[v] = __float2bfloat16_rn(maximum(acc[h][2 * g + v] + bias2.data[v], 0.0f));
                }
                store<2>(&c_tile[0][0][thread_m + 8 * h][(8 * g) ^ c_swizzle], y2);
            }
        }
        fence_proxy_async();
        __barrier_sync_count(1, 128);
        if (thread == 0) {
            tma_store_2d(&y_map, &c_tile[0][0][0][0], k0, npq0);
            tma_store_commit();
            tma_store_wait_read<0>();
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int N = 3;
constexpr int H = 13;
constexpr int W = 18;
constexpr int K = 96;

// Encodes the tensor map of an array, which launches and graphs copy; one of zeros for an empty array. Sizes are in
// elements, strides in bytes, from the contiguous dimension on.
template <int rank>
static cudaError_t conv_wgmma_bf16_tensor_map(
    CUtensorMapDataType type,
    const void* data,
    const long long (&sizes)[rank],
    const long long (&strides)[rank - 1],
    const int (&box)[rank],
    CUtensorMapSwizzle swizzle,
    CUtensorMap* map)
{
    static const auto encode = [] {
        void* function = nullptr;
        cudaDriverEntryPointQueryResult result;
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &result);
        return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
    }();
    if (encode == nullptr)
        return cudaErrorNotSupported;  // by this driver
    *map = CUtensorMap();
    cuuint64_t extents[rank], pitches[rank];
    cuuint32_t box_extents[rank], steps[rank];
    for (int i = 0; i < rank; ++i) {
        if (sizes[i] == 0)
            return cudaSuccess;
        extents[i] = sizes[i];
        pitches[i] = i < rank - 1 ? strides[i] : 0;
        box_extents[i] = box[i];
        steps[i] = 1;
    }
    const CUresult status = encode(
        map, type, rank, const_cast<void*>(data), extents, pitches, box_extents, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
        swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return static_cast<cudaError_t>(status);  // the numbers are the same
}

// Encodes the tensor map of an array of images, in im2col mode; one of zeros for an empty array. Sizes are in elements,
// strides in bytes, from the channels on. Along each dimension of an image a copy begins at pixels from `lower` to the
// last one plus `upper`, `steps` apart; it moves box[0] channels of box[1] pixels.
template <int rank>
static cudaError_t conv_wgmma_bf16_im2col_map(
    CUtensorMapDataType type,
    const void* data,
    const long long (&sizes)[rank],
    const long long (&strides)[rank - 1],
    const int (&lower)[rank - 2],
    const int (&upper)[rank - 2],
    const int (&steps)[rank - 2],
    const int (&box)[2],
    CUtensorMapSwizzle swizzle,
    CUtensorMap* map)
{
    static const auto encode = [] {
        void* function = nullptr;
        cudaDriverEntryPointQueryResult result;
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeIm2col", &function, 12000, cudaEnableDefault, &result);
        return reinterpret_cast<decltype(&cuTensorMapEncodeIm2col)>(function);
    }();
    if (encode == nullptr)
        return cudaErrorNotSupported;  // by this driver
    *map = CUtensorMap();
    cuuint64_t extents[rank], pitches[rank];
    cuuint32_t element_steps[rank];
    for (int i = 0; i < rank; ++i) {
        if (sizes[i] == 0)
            return cudaSuccess;
        extents[i] = sizes[i];
        pitches[i] = i < rank - 1 ? strides[i] : 0;
        element_steps[i] = i > 0 && i < rank - 1 ? steps[i - 1] : 1;
    }
    const CUresult status = encode(
        map, type, rank, const_cast<void*>(data), extents, pitches, lower, upper, box[0], box[1], element_steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return static_cast<cudaError_t>(status);  // the numbers are the same
}

extern "C" cudaError_t conv_wgmma_bf16_launch(
    const __nv_bfloat16* x,
    const __nv_bfloat16* f,
    const float* bias,
    __nv_bfloat16* y,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    // Also make the device's context current, which the driver requires.
    cudaFuncSetAttribute(conv_wgmma_bf16, cudaFuncAttributeMaxDynamicSharedMemorySize, 114760);
    CUtensorMap x_map;
    if (status == cudaSuccess)
        status = conv_wgmma_bf16_im2col_map(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, x, {C, W, H, N},
            {2 * C, 2 * C * W, 2 * C * H * W}, {-1, -1}, {-2, -1}, {2, 2}, {64, 64}, CU_TENSOR_MAP_SWIZZLE_128B,
            &x_map);
    CUtensorMap f_map;
    if (status == cudaSuccess)
        status = conv_wgmma_bf16_tensor_map(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, f, {9 * C, K}, {18 * C}, {64, 32},
            CU_TENSOR_MAP_SWIZZLE_128B, &f_map);
    CUtensorMap y_map;
    if (status == cudaSuccess)
        status = conv_wgmma_bf16_tensor_map(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, y, {K, N * P * Q}, {2 * K}, {32, 64},
            CU_TENSOR_MAP_SWIZZLE_64B, &y_map);
    if (status != cudaSuccess)
        return status;
    conv_wgmma_bf16<<<dim3(9), dim3(160), 114760, stream>>>(x_map, f_map, y_map, bias);
    return cudaGetLastError();
}

#endif
