// gemm_wgmma_int8: C = A·B of 8-bit integers by wgmma and TMA; B is copied first, since wgmma reads bytes along k alone
//
// computes                C[m, n] = sum(A[m, k] * B[k, n], k)
// params                  M = 64, K = 256, N = 96
// A                       input, int8 [64, 256], aligned to 16 bytes
// B                       input, int8 [256, 96], aligned to 8 bytes
// C                       output, int32 [64, 96], aligned to 8 bytes
// gemm_wgmma_int8_B_copy  grid (4, 2, 1), block (8, 32, 1), 4224 bytes of shared memory; family transpose
// gemm_wgmma_int8_C       grid (3, 1, 1), block (160, 1, 1), 24592 bytes of dynamic shared memory; family wgmma
// pipeline                gemm_wgmma_int8_C: proved for at most 2 k-tiles: 2 stages, none is refilled, 12288 bytes
//                         per stage
// bounds                  19 of 19 accesses proved
// analysis                sm_90a: 11 accesses, 11 ideal
//                         mbarriers: one address per warp, so without bank conflicts; how often waits poll is not
//                         static
//
// Made by cugen 0.1.0 from gemm_wgmma_int8.yaml (hash d1039c605c1a6655) for sm_90a. Edit the spec, not this file.
//
// Ideal accesses of gemm_wgmma_int8_B_copy, without a remark in the code:
//   B[(k_in + p) * N + n_in]                   8 sectors, ideal 8 (256 bytes in 4 runs)
//   tile[ty][16 * tx + 2 * v]                  1 wavefront, ideal 1 (conflict-free)
//   tile[4 * tx + u][2 * ty + 2 * r]           1 wavefront, ideal 1 (conflict-free)
//   B_copy[n * (128 * ((K + 127) / 128)) + k]  8 sectors, ideal 8 (256 bytes in 4 runs)
//
// Ideal accesses of gemm_wgmma_int8_C, without a remark in the code:
//   As[stage][0][0]                                64 wavefronts, ideal 64 (consecutive bytes)
//   A_map(k0, m0)                                  256 sectors, ideal 256 (64 x 128 bytes)
//   B_copy_tiles[stage][0][0]                      32 wavefronts, ideal 32 (consecutive bytes)
//   B_copy_map(k0, n0)                             128 sectors, ideal 128 (32 x 128 bytes)
//   k_major_matrix(&As[stage][0][0], k)            16 wavefronts, ideal 16 (swizzled rows of 128 bytes)
//   k_major_matrix(&B_copy_tiles[stage][0][0], k)  8 wavefronts, ideal 8 (swizzled rows of 128 bytes)
//   C[m * N + n]                                   8 sectors, ideal 8 (256 bytes in 8 runs)

#if defined(__CUDACC_RTC__)
// As cuda.h declares it, which NVRTC can't include for want of the C library's headers.
struct alignas(128) CUtensorMap {
    unsigned long long opaque[16];
};
#else
#include <cuda.h>
#endif

constexpr int K = 256;
constexpr int N = 96;

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

#ifndef CUGEN_WGMMA_M64N32K32_S8
#define CUGEN_WGMMA_M64N32K32_S8
// D = A * B + D, or A * B unless `accumulates`, by a warpgroup, asynchronously (PTX ISA: wgmma.mma_async), with A of
// 64 x 32 and B of 32 x 32 elements in shared memory. Lane 4 * g + t of warp w has of each 8 columns of D the pair
// 2 * t and 2 * t + 1: of row 16 * w + g in `upper`, of row 16 * w + g + 8 in `lower`.
__device__ __forceinline__ void wgmma_m64n32k32_s8(
    int* upper, int* lower, unsigned long long a, unsigned long long b, bool accumulates)
{
    asm volatile(
        "{\n"
        ".reg .pred accumulates;\n"
        "setp.ne.b32 accumulates, %18, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "%16, %17, accumulates;\n"
        "}"
        : "+r"(upper[0]), "+r"(upper[1]), "+r"(lower[0]), "+r"(lower[1]),
          "+r"(upper[2]), "+r"(upper[3]), "+r"(lower[2]), "+r"(lower[3]),
          "+r"(upper[4]), "+r"(upper[5]), "+r"(lower[4]), "+r"(lower[5]),
          "+r"(upper[6]), "+r"(upper[7]), "+r"(lower[6]), "+r"(lower[7])
        : "l"(a), "l"(b), "r"(static_cast<int>(accumulates)));
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

extern "C" __global__ void __launch_bounds__(256) gemm_wgmma_int8_B_copy(
    const signed char* __restrict__ B,
    signed char* __restrict__ B_copy)
{
    __shared__ __align__(2) signed char tile[32][132];

    const int k0 = blockIdx.x * 64;
    const int n0 = blockIdx.y * 64;
    const int tx = threadIdx.x;
    const int ty = threadIdx.y;

    // beyond the edges the last elements are loaded again, and not stored
    const int n_in = min(n0 + 8 * tx, N - 8);
    const int k_in = k0 + 2 * ty;
    Vector<signed char, 8> b8[2];
    #pragma unroll
    for (int p = 0; p < 2; ++p) {
        b8[p] = load<8>(&B[(k_in + p) * N + n_in]);
    }
    #pragma unroll
    for (int v = 0; v < 8; ++v) {
        Vector<signed char, 2> word2;
        #pragma unroll
        for (int p = 0; p < 2; ++p) {
            word2.data[p] = b8[p].data[v];
        }
        store<2>(&tile[ty][16 * tx + 2 * v], word2);
    }
    __syncthreads();

    const int k = k0 + 8 * tx;
    #pragma unroll
    for (int r = 0; r < 64; r += 32) {
        const int n = n0 + ty + r;
        if (n < N) {
            Vector<signed char, 2> b2[4];
            #pragma unroll
            for (int u = 0; u < 4; ++u) {
                b2[u] = load<2>(&tile[4 * tx + u][2 * ty + 2 * r]);
            }
            Vector<signed char, 8> b_copy8;
            #pragma unroll
            for (int v = 0; v < 8; ++v) {
                b_copy8.data[v] = b2[v / 2].data[v % 2];
            }
            store<8>(&B_copy[n * (128 * ((K + 127) / 128)) + k], b_copy8);
        }
    }
}

extern "C" __global__ void __launch_bounds__(160, 1) gemm_wgmma_int8_C(
    const __grid_constant__ CUtensorMap A_map,
    const __grid_constant__ CUtensorMap B_copy_map,
    int* __restrict__ C)
{
    extern __shared__ __align__(1024) unsigned char shared_memory[];

    constexpr int BM = 64, BN = 32, BK = 128, STAGES = 2;

    // circular buffer of 2 stages, swizzled rows of 128 bytes
    signed char (*As)[BM][BK] = reinterpret_cast<signed char (*)[BM][BK]>(shared_memory);
    signed char (*B_copy_tiles)[BN][BK] = reinterpret_cast<signed char (*)[BN][BK]>(As + STAGES);
    // mbarriers: full once the tiles of a stage have been copied
    unsigned long long* full = reinterpret_cast<unsigned long long*>(B_copy_tiles + STAGES);

    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int thread_m = 16 * (thread / 32) + lane / 4;
    const int thread_n = 2 * (lane % 4);
    const int m0 = 0;
    const int n0 = blockIdx.x * BN;

    // producer: one thread copies all k-tiles, for none of which it waits
    if (thread >= 128 && elect_one()) {
        prefetch_tensor_map(&A_map);
        prefetch_tensor_map(&B_copy_map);
        #pragma unroll
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(&full[stage], 1);
        }
        mbarrier_init_fence();
        #pragma unroll 1
        for (int k0 = 0; k0 < K; k0 += BK) {
            const int stage = k0 / BK;
            mbarrier_arrive_expect_tx(&full[stage], BK * BM + BK * BN);
            tma_load_2d(&As[stage][0][0], &A_map, &full[stage], k0, m0);
            tma_load_2d(&B_copy_tiles[stage][0][0], &B_copy_map, &full[stage], k0, n0);
        }
    }
    __syncthreads();

    if (thread < 128) {
        // consumers: each warpgroup multiplies its rows of the stages that are full
        int acc[2][8];
        #pragma unroll 1
        for (int k0 = 0; k0 < K; k0 += BK) {
            const int stage = k0 / BK;
            mbarrier_wait(&full[stage], 0);
            wgmma_fence();
            #pragma unroll
            for (int k = 0; k < BK; k += 32) {
                wgmma_m64n32k32_s8(&acc[0][0], &acc[1][0], k_major_matrix(&As[stage][0][0], k),
                    k_major_matrix(&B_copy_tiles[stage][0][0], k), k0 + k > 0);
            }
            wgmma_commit();
            // until the k-tile before has been read
            wgmma_wait<1>();
        }
        wgmma_wait<0>();

        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int m = m0 + thread_m + 8 * i;
            #pragma unroll
            for (int g = 0; g < 4; ++g) {
                const int n = n0 + thread_n + 8 * g;
                Vector<int, 2> c2;
                #pragma unroll
                for (int v = 0; v < 2; ++v) {
                    c2.data[v] = acc[i][2 * g + v];
                }
                store<2>(&C[m * N + n], c2);
            }
        }
    }
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

constexpr int M = 64;

extern "C" size_t gemm_wgmma_int8_workspace_bytes(void)
{
    return 256 * ((128 * N * ((K + 127) / 128) + K + 255 - 128 * ((K + 127) / 128)) / 256);
}

// Encodes the tensor map of an array, which launches and graphs copy; one of zeros for an empty array. Sizes are in
// elements, strides in bytes, from the contiguous dimension on.
template <int rank>
static cudaError_t gemm_wgmma_int8_tensor_map(
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

extern "C" cudaError_t gemm_wgmma_int8_launch(
    const signed char* A,
    const signed char* B,
    int* C,
    void* workspace,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    const bool allocates = workspace == nullptr;
    if (allocates)
        status = cudaMallocAsync(&workspace, gemm_wgmma_int8_workspace_bytes(), stream);
    if (status != cudaSuccess)
        return status;
    signed char* const B_copy = static_cast<signed char*>(workspace);
    // Also make the device's context current, which the driver requires.
    cudaFuncSetAttribute(gemm_wgmma_int8_C, cudaFuncAttributeMaxDynamicSharedMemorySize, 24592);
    CUtensorMap A_map;
    if (status == cudaSuccess)
        status = gemm_wgmma_int8_tensor_map(CU_TENSOR_MAP_DATA_TYPE_UINT8, A, {K, M}, {K}, {128, 64},
            CU_TENSOR_MAP_SWIZZLE_128B, &A_map);
    CUtensorMap B_copy_map;
    if (status == cudaSuccess)
        status = gemm_wgmma_int8_tensor_map(CU_TENSOR_MAP_DATA_TYPE_UINT8, B_copy, {K, N}, {128 * ((K + 127) / 128)},
            {128, 32}, CU_TENSOR_MAP_SWIZZLE_128B, &B_copy_map);
    if (status != cudaSuccess && allocates)
        cudaFreeAsync(workspace, stream);
    if (status != cudaSuccess)
        return status;
    gemm_wgmma_int8_B_copy<<<dim3((K + 63) / 64, (N + 63) / 64), dim3(8, 32), 0, stream>>>(B, B_copy);
    gemm_wgmma_int8_C<<<dim3(3), dim3(160), 24592, stream>>>(A_map, B_copy_map, C);
    if (allocates)
        cudaFreeAsync(workspace, stream);
    return cudaGetLastError();
}

#endif
