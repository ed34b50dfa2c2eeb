// gemm_wgmma_split: C = A·Bᵀ by wgmma and TMA with split-K; the blocks of a cluster reduce the partial sums
//
// computes  C[m, n] = sum(A[m, k] * B[n, k], k)
// params    M = 64, K = 512, N = 128
// A         input, bfloat16 [64, 512], aligned to 16 bytes
// B         input, bfloat16 [128, 512], aligned to 16 bytes
// C         output, float32 [64, 128], aligned to 16 bytes
// launch    grid (4, 1, 1), block (160, 1, 1), clusters of 2, 32800 bytes of dynamic shared memory; family wgmma
// pipeline  proved for 4 k-tiles and every number of tiles: 2 stages, full and empty phases pair, 16384 bytes per
//           stage
// bounds    20 of 20 accesses proved
// analysis  sm_90a: 9 accesses, 8 ideal, 1 unknown
//           mbarriers: one address per warp, so without bank conflicts; how often waits poll is not static
//
// Made by cugen 0.1.0 from gemm_wgmma_split.yaml (hash d0bbc4454acdb443) for sm_90a. Edit the spec, not this file.
//
// Ideal accesses, without a remark in the code:
//   As[stage][0][0]                               64 wavefronts, ideal 64 (consecutive bytes)
//   A_map(k0 + k_offset, m0)                      256 sectors, ideal 256 (64 x 128 bytes)
//   Bs[stage][0][0]                               64 wavefronts, ideal 64 (consecutive bytes)
//   B_map(k0 + k_offset, n0)                      256 sectors, ideal 256 (64 x 128 bytes)
//   k_major_matrix(&As[stage][0][0], k)           16 wavefronts, ideal 16 (swizzled rows of 128 bytes)
//   k_major_matrix(&Bs[stage][0][0], k)           16 wavefronts, ideal 16 (swizzled rows of 128 bytes)
//   partials[thread_m + 8 * i][thread_n + 8 * g]  2 wavefronts, ideal 2 (64 words over 32 banks)
//   C[m * N + n]                                  16 sectors, ideal 16 (512 bytes in 2 runs)

#include <cooperative_groups.h>
#include <cuda_bf16.h>

#if defined(__CUDACC_RTC__)
// As cuda.h declares it, which NVRTC can't include for want of the C library's headers.
struct alignas(128) CUtensorMap {
    unsigned long long opaque[16];
};
#else
#include <cuda.h>
#endif

constexpr int N = 128;

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

#ifndef CUGEN_MBARRIER_ARRIVE
#define CUGEN_MBARRIER_ARRIVE
// Arrives at a barrier (PTX ISA: mbarrier.arrive).
__device__ __forceinline__ void mbarrier_arrive(unsigned long long* barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
        :: "r"(static_cast<unsigned>(__cvta_generic_to_shared(barrier))) : "memory");
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

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(160, 1) gemm_wgmma_split(
    const __grid_constant__ CUtensorMap A_map,
    const __grid_constant__ CUtensorMap B_map,
    float* __restrict__ C)
{
    const auto cluster = cooperative_groups::this_cluster();
    extern __shared__ __align__(1024) unsigned char shared_memory[];

    constexpr int BM = 64, BN = 64, BK = 64, STAGES = 2, K_TILES = 8;

    // circular buffer of 2 stages, swizzled rows of 128 bytes
    __nv_bfloat16 (*As)[BM][BK] = reinterpret_cast<__nv_bfloat16 (*)[BM][BK]>(shared_memory);
    __nv_bfloat16 (*Bs)[BN][BK] = reinterpret_cast<__nv_bfloat16 (*)[BN][BK]>(As + STAGES);
    float (*partials)[BN + 8] = reinterpret_cast<float (*)[BN + 8]>(shared_memory);
    // mbarriers: full once the tiles of a stage have been copied, empty once all consumers have read them
    unsigned long long* full = reinterpret_cast<unsigned long long*>(Bs + STAGES);
    unsigned long long* empty = full + STAGES;

    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int rank = blockIdx.x % 2;
    const int thread_m = 16 * (thread / 32) + lane / 4;
    const int thread_n = 2 * (lane % 4);
    const int m0 = 0;
    const int n0 = blockIdx.x / 2 * BN;
    // split-K: the 2 blocks of a cluster each take a range of k
    const int k_offset = BK * (K_TILES * rank / 2);
    const int k_length = BK * (K_TILES * (rank + 1) / 2) - k_offset;

    if (thread == 0) {
        prefetch_tensor_map(&A_map);
        prefetch_tensor_map(&B_map);
        #pragma unroll
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(&full[stage], 1);
            mbarrier_init(&empty[stage], 4);
        }
        mbarrier_init_fence();
    }
    __syncthreads();

    if (thread >= 128) {
        // producer: one thread copies k-tiles to the stages that are empty
        if (elect_one()) {
            #pragma unroll 1
            for (int k0 = 0, empty_parity = 1, stage = 0; k0 < k_length;
                k0 += BK, empty_parity ^= (stage + 1) / STAGES, stage = (stage + 1) % STAGES) {
                mbarrier_wait(&empty[stage], empty_parity);
                mbarrier_arrive_expect_tx(&full[stage], 2 * BK * BM + 2 * BK * BN);
                tma_load_2d(&As[stage][0][0], &A_map, &full[stage], k0 + k_offset, m0);
                tma_load_2d(&Bs[stage][0][0], &B_map, &full[stage], k0 + k_offset, n0);
            }
        }
    } else {
        // consumers: each warpgroup multiplies its rows of the stages that are full
        float acc[2][16];
        #pragma unroll 1
        for (int k0 = 0, full_parity = 0, stage = 0; k0 < k_length;
            k0 += BK, full_parity ^= (stage + 1) / STAGES, stage = (stage + 1) % STAGES) {
            mbarrier_wait(&full[stage], full_parity);
            wgmma_fence();
            #pragma unroll
            for (int k = 0; k < BK; k += 16) {
                wgmma_m64n64k16_bf16<false, false>(&acc[0][0], &acc[1][0], k_major_matrix(&As[stage][0][0], k),
                    k_major_matrix(&Bs[stage][0][0], k), k0 + k > 0);
            }
            wgmma_commit();
            // until the k-tile before has been read
            wgmma_wait<1>();
            if (k0 > 0 && lane == 0) {
                mbarrier_arrive(&empty[(stage + STAGES - 1) % STAGES]);
            }
        }
        wgmma_wait<0>();

        // partial sums, in the memory of the pipeline after its last read
        __barrier_sync_count(1, 128);
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            #pragma unroll
            for (int g = 0; g < 8; ++g) {
                Vector<float, 2> acc_vector;
                #pragma unroll
                for (int w = 0; w < 2; ++w) {
                    acc_vector.data[w] = acc[i][2 * g + w];
                }
                store<2>(&partials[thread_m + 8 * i][thread_n + 8 * g], acc_vector);
            }
        }
    }

    cluster.sync();
    // each block reduces a part of the tile, in block order
    if (thread < 128) {
        #pragma unroll
        for (int e = 0; e < 512; e += 128) {
            const int vector_id = thread + 512 * rank + e;
            const int tile_m = vector_id / (BN / 4);
            const int tile_n = 4 * (vector_id % (BN / 4));
            const int m = m0 + tile_m;
            const int n = n0 + tile_n;
            Vector<float, 4> block_sums[2];
            #pragma unroll
            for (int p = 0; p < 2; ++p) {
                // cluster.map_shared_rank(partials, p)[tile_m][tile_n]: unknown:
                // distributed shared memory is not modelled
                block_sums[p] = load<4>(&cluster.map_shared_rank(partials, p)[tile_m][tile_n]);
            }
            Vector<float, 4> c4;
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                c4.data[v] = block_sums[0].data[v] + block_sums[1].data[v];
            }
            store<4>(&C[m * N + n], c4);
        }
    }
    // no block exits while others read its shared memory
    cluster.sync();
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 64;
constexpr int K = 512;

// Encodes the tensor map of an array, which launches and graphs copy; one of zeros for an empty array. Sizes are in
// elements, strides in bytes, from the contiguous dimension on.
template <int rank>
static cudaError_t gemm_wgmma_split_tensor_map(
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

extern "C" cudaError_t gemm_wgmma_split_launch(
    const __nv_bfloat16* A,
    const __nv_bfloat16* B,
    float* C,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    // Also make the device's context current, which the driver requires.
    cudaFuncSetAttribute(gemm_wgmma_split, cudaFuncAttributeMaxDynamicSharedMemorySize, 32800);
    CUtensorMap A_map;
    if (status == cudaSuccess)
        status = gemm_wgmma_split_tensor_map(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, A, {K, M}, {2 * K}, {64, 64},
            CU_TENSOR_MAP_SWIZZLE_128B, &A_map);
    CUtensorMap B_map;
    if (status == cudaSuccess)
        status = gemm_wgmma_split_tensor_map(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, B, {K, N}, {2 * K}, {64, 64},
            CU_TENSOR_MAP_SWIZZLE_128B, &B_map);
    if (status != cudaSuccess)
        return status;
    gemm_wgmma_split<<<dim3(4), dim3(160), 32800, stream>>>(A_map, B_map, C);
    return cudaGetLastError();
}

#endif
