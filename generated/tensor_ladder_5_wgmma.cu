// tensor_ladder_5_wgmma: step 5: wgmma reads tiles that TMA copies: one thread copies, a warpgroup multiplies 64 × 64
//
// computes  C[m, n] = sum(A[m, k] * B[k, n], k)
// params    M = 128, N = 256, K = 96
// A         input, bfloat16 [128, 96], aligned to 16 bytes
// B         input, bfloat16 [96, 256], aligned to 16 bytes
// C         output, bfloat16 [128, 256], aligned to 16 bytes
// launch    grid (8, 1, 1), block (160, 1, 1), 40976 bytes of dynamic shared memory; family wgmma
// pipeline  proved for at most 2 k-tiles: 2 stages, none is refilled, 16384 bytes per stage
// bounds    21 of 21 accesses proved
// analysis  sm_90a: 11 accesses, 11 ideal
//           mbarriers: one address per warp, so without bank conflicts; how often waits poll is not static
//
// Made by cugen 0.1.0 from product_ladder_bf16.yaml (hash a6c56484ffa0190e) for sm_90a. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   As[stage][0][0]                                64 wavefronts, ideal 64 (consecutive bytes)
//   A_map(k0, m0)                                  256 sectors, ideal 256 (64 x 128 bytes)
//   Bs[stage][0][0][0]                             64 wavefronts, ideal 64 (consecutive bytes)
//   B_map(n0, k0)                                  256 sectors, ideal 256 (64 x 128 bytes)
//   k_major_matrix(&As[stage][0][0], k)            16 wavefronts, ideal 16 (swizzled rows of 128 bytes), at 2 places
//   mn_major_matrix<8192>(&Bs[stage][0][0][0], k)  16 wavefronts, ideal 16 (swizzled rows of 128 bytes), at 2 places
//   c_tile[0][0][thread_m + 8 * h][(8 * g) ^ c_swizzle]
//       1 wavefront, ideal 1 (conflict-free)
//   c_tile[0][0][0][0]                             64 wavefronts, ideal 64 (consecutive bytes)
//   C_map(n0, m0)                                  256 sectors, ideal 256 (64 x 128 bytes)

#include <cuda_bf16.h>

#if defined(__CUDACC_RTC__)
// As cuda.h declares it, which NVRTC can't include for want of the C library's headers.
struct alignas(128) CUtensorMap {
    unsigned long long opaque[16];
};
#else
#include <cuda.h>
#endif

constexpr int K = 96;

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

#ifndef CUGEN_MN_MAJOR_MATRIX
#define CUGEN_MN_MAJOR_MATRIX
// Describes a matrix to wgmma that is contiguous along its rows or columns: blocks of 64 elements by a number of k in
// shared memory, each k a row of 128 bytes, swizzled as by TMA, from row `k` of a block on. The next 64 rows or columns
// are `block_bytes` further on (PTX ISA: wgmma, matrix descriptor).
template <int block_bytes>
__device__ __forceinline__ unsigned long long mn_major_matrix(const void* block, int k)
{
    constexpr unsigned long long swizzle_of_128_bytes = 1ull << 62, bytes_of_8_k = 1024;
    constexpr unsigned long long next_block = block_bytes / 16;
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(block)) & 0x3ffff;
    return (swizzle_of_128_bytes | bytes_of_8_k / 16 << 32 | next_block << 16 | address / 16) + k * 128 / 16;
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

#ifndef CUGEN_WGMMA_M64N64K16_BF16
#define CUGEN_WGMMA_M64N64K16_BF16
// D = A * B + D, or A * B unless `accumulates`, by a warpgroup, asynchronously (PTX ISA: wgmma.mma_async), with A of
// 64 x 16 and B of 16 x 64 elements in shared memory. Lane 4 * g + t of warp w has of each 8 columns of D the pair
// 2 * t and 2 * t + 1: of row 16 * w + g in `upper`, of row 16 * w + g + 8 in `lower`.
// An operand that `is_mn_major` is contiguous along its rows or columns, any other along k.
template <bool a_is_mn_major, bool b_is_mn_major>
__device__ __forceinline__ void wgmma_m64n64k16_bf16(
    float* upper, float* lower, unsigned long long a, unsigned long long b, bool accumulates)
{
    asm volatile(
        "{\n"
        ".reg .pred accumulates;\n"
        "setp.ne.b32 accumulates, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, accumulates, 1, 1, %35, %36;\n"
        "}"
        : "+f"(upper[0]), "+f"(upper[1]), "+f"(lower[0]), "+f"(lower[1]),
          "+f"(upper[2]), "+f"(upper[3]), "+f"(lower[2]), "+f"(lower[3]),
          "+f"(upper[4]), "+f"(upper[5]), "+f"(lower[4]), "+f"(lower[5]),
          "+f"(upper[6]), "+f"(upper[7]), "+f"(lower[6]), "+f"(lower[7]),
          "+f"(upper[8]), "+f"(upper[9]), "+f"(lower[8]), "+f"(lower[9]),
          "+f"(upper[10]), "+f"(upper[11]), "+f"(lower[10]), "+f"(lower[11]),
          "+f"(upper[12]), "+f"(upper[13]), "+f"(lower[12]), "+f"(lower[13]),
          "+f"(upper[14]), "+f"(upper[15]), "+f"(lower[14]), "+f"(lower[15])
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

extern "C" __global__ void __launch_bounds__(160, 1) tensor_ladder_5_wgmma(
    const __grid_constant__ CUtensorMap A_map,
    const __grid_constant__ CUtensorMap B_map,
    const __grid_constant__ CUtensorMap C_map)
{
    extern __shared__ __align__(1024) unsigned char shared_memory[];

    constexpr int BM = 64, BN = 64, BK = 64, STAGES = 2, RASTER = 1, TILES_N = 4;

    // circular buffer of 2 stages, swizzled rows of 128 bytes
    __nv_bfloat16 (*As)[BM][BK] = reinterpret_cast<__nv_bfloat16 (*)[BM][BK]>(shared_memory);
    __nv_bfloat16 (*Bs)[BN / 64][BK][64] = reinterpret_cast<__nv_bfloat16 (*)[BN / 64][BK][64]>(As + STAGES);
    __nv_bfloat16 (*c_tile)[1][64][64] = reinterpret_cast<__nv_bfloat16 (*)[1][64][64]>(Bs + STAGES);
    // mbarriers: full once the tiles of a stage have been copied
    unsigned long long* full = reinterpret_cast<unsigned long long*>(c_tile + 1);

    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int thread_m = 16 * (thread / 32) + lane / 4;
    const int thread_n = 2 * (lane % 4);
    // raster: 1 rows of tiles at a time, column by column
    const int group = blockIdx.x / (RASTER * TILES_N);
    const int m0 = (blockIdx.x % RASTER + RASTER * group) * BM;
    const int n0 = blockIdx.x % (RASTER * TILES_N) / RASTER * BN;

    // producer: one thread copies all k-tiles, for none of which it waits
    if (thread >= 128 && elect_one()) {
        prefetch_tensor_map(&A_map);
        prefetch_tensor_map(&B_map);
        prefetch_tensor_map(&C_map);
        #pragma unroll
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(&full[stage], 1);
        }
        mbarrier_init_fence();
        #pragma unroll 1
        for (int k0 = 0; k0 < K; k0 += BK) {
            const int stage = k0 / BK;
            mbarrier_arrive_expect_tx(&full[stage], 128 * BK * (BN / 64) + 2 * BK * BM);
            tma_load_2d(&As[stage][0][0], &A_map, &full[stage], k0, m0);
            tma_load_2d(&Bs[stage][0][0][0], &B_map, &full[stage], n0, k0);
        }
    }
    __syncthreads();

    if (thread < 128) {
        // consumers: each warpgroup multiplies its rows of the stages that are full
        float acc[2][16];
        #pragma unroll 1
        for (int k0 = 0; k0 < K; k0 += BK) {
            const int stage = k0 / BK;
            mbarrier_wait(&full[stage], 0);
            wgmma_fence();
            #pragma unroll
            for (int k = 0; k < 32; k += 16) {
                wgmma_m64n64k16_bf16<false, true>(&acc[0][0], &acc[1][0], k_major_matrix(&As[stage][0][0], k),
                    mn_major_matrix<8192>(&Bs[stage][0][0][0], k), k0 + k > 0);
            }
            wgmma_commit();
            // zeros follow the first terms of the last k-tile
            if (k0 < K - BK) {
                wgmma_fence();
                #pragma unroll
                for (int k = 32; k < BK; k += 16) {
                    wgmma_m64n64k16_bf16<false, true>(&acc[0][0], &acc[1][0], k_major_matrix(&As[stage][0][0], k),
                        mn_major_matrix<8192>(&Bs[stage][0][0][0], k), k0 + k > 0);
                }
                wgmma_commit();
            }
            // until the k-tile before has been read
            wgmma_wait<1>();
        }
        wgmma_wait<0>();

        // results to shared memory, in the swizzled rows that TMA stores
        const int c_swizzle = 8 * (lane / 4) + thread_n;
        #pragma unroll
        for (int h = 0; h < 2; ++h) {
            #pragma unroll
            for (int g = 0; g < 8; ++g) {
                Vector<__nv_bfloat16, 2> c2;
                #pragma unroll
                for (int v = 0; v < 2; ++v) {
                    c2.data[v] = __float2bfloat16_rn(acc[h][2 * g + v]);
                }
                store<2>(&c_tile[0][0][thread_m + 8 * h][(8 * g) ^ c_swizzle], c2);
            }
        }
        fence_proxy_async();
        __barrier_sync_count(1, 128);
        if (thread == 0) {
            tma_store_2d(&C_map, &c_tile[0][0][0][0], n0, m0);
            tma_store_commit();
            tma_store_wait_read<0>();
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 128;
constexpr int N = 256;

// Encodes the tensor map of an array, which launches and graphs copy; one of zeros for an empty array. Sizes are in
// elements, strides in bytes, from the contiguous dimension on.
template <int rank>
static cudaError_t tensor_ladder_5_wgmma_tensor_map(
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

extern "C" cudaError_t tensor_ladder_5_wgmma_launch(
    const __nv_bfloat16* A,
    const __nv_bfloat16* B,
    __nv_bfloat16* C,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    // Also make the device's context current, which the driver requires.
    cudaFuncSetAttribute(tensor_ladder_5_wgmma, cudaFuncAttributeMaxDynamicSharedMemorySize, 40976);
    CUtensorMap A_map;
    if (status == cudaSuccess)
        status = tensor_ladder_5_wgmma_tensor_map(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, A, {K, M}, {2 * K}, {64, 64},
            CU_TENSOR_MAP_SWIZZLE_128B, &A_map);
    CUtensorMap B_map;
    if (status == cudaSuccess)
        status = tensor_ladder_5_wgmma_tensor_map(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, B, {N, K}, {2 * N}, {64, 64},
            CU_TENSOR_MAP_SWIZZLE_128B, &B_map);
    CUtensorMap C_map;
    if (status == cudaSuccess)
        status = tensor_ladder_5_wgmma_tensor_map(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, C, {N, M}, {2 * N}, {64, 64},
            CU_TENSOR_MAP_SWIZZLE_128B, &C_map);
    if (status != cudaSuccess)
        return status;
    tensor_ladder_5_wgmma<<<dim3(8), dim3(160), 40976, stream>>>(A_map, B_map, C_map);
    return cudaGetLastError();
}

#endif
