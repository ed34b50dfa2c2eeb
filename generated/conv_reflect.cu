// conv_reflect: A convolution with mirrored borders and channels last; an im2col launch lays
// out its windows as a matrix first
//
// computes                 y[n, i, j, k] = relu(sum(x[n, i + r - 1, j + s - 1, c] * w[r, s, c, k], r, s, c))
// params                   N = 1, H = 17, W = 16, C = 32, K = 32
// x                        input, float32 [1, 17, 16, 32], outside: reflect
// w                        input, float32 [3, 3, 32, 32], aligned to 16 bytes
// y                        output, float32 [1, 17, 16, 32], aligned to 16 bytes
// conv_reflect_x_unfolded  grid (1, 1, 544), block (32, 4, 2); family map
// conv_reflect_y           grid (1, 9, 1), block (256, 1, 1), 26112 bytes of dynamic shared memory; family gemm
// pipeline                 conv_reflect_y: proved for every number of k-tiles: 3 stages, commit groups and
//                          barriers order copies and reads
// bounds                   22 of 22 accesses proved
// analysis                 sm_90: 19 accesses, 17 ideal, 2 costly
//                          worst: x_unfoldeds[stage][x_unfolded_rsc][x_unfolded_ij + c], 4 wavefronts, ideal 1
//                          (lanes 0 and 8 copy from one bank)
//
// Made by cugen 0.1.0 from conv_reflect.yaml (hash 19eaf03a6eb3ea6c) for sm_90. Edit the spec, not this file.
//
// Ideal accesses of conv_reflect_x_unfolded, without a remark in the code:
//   x[(h * W + w_) * C + c]                              4 sectors, ideal 4 (128 contiguous bytes)
//   x_unfolded[(((i * W + j) * 3 + r) * 3 + s) * C + c]  4 sectors, ideal 4 (128 contiguous bytes)
//
// Ideal accesses of conv_reflect_y, without a remark in the code:
//   x_unfolded_global[c * (9 * C) + BK * stage]              4 sectors, ideal 4 (128 bytes in 4 runs)
//   ws[stage][w_rsc][w_k]                                    4 wavefronts, ideal 4 (128 words over 32 banks)
//   w_global[BK * stage * K]                                 16 sectors, ideal 16 (512 contiguous bytes)
//   x_unfolded_shared[0][0][0]                               2 wavefronts, ideal 2 (conflict-free)
//   w_shared[0][0][0]                                        2 wavefronts, ideal 2 (conflict-free)
//   x_unfolded_global[c * (9 * C) + prefetch_k]              4 sectors, ideal 4 (128 bytes in 4 runs)
//   ws[write_stage][w_rsc][w_k]                              4 wavefronts, ideal 4 (128 words over 32 banks)
//   w_global[prefetch_k * K]                                 16 sectors, ideal 16 (512 contiguous bytes)
//   x_unfolded_shared[read_stage][rsc][0]                    2 wavefronts, ideal 2 (conflict-free)
//   w_shared[read_stage][rsc][0]                             2 wavefronts, ideal 2 (conflict-free)
//   x_unfolded_shared[next_stage][0][0]                      2 wavefronts, ideal 2 (conflict-free)
//   w_shared[next_stage][0][0]                               2 wavefronts, ideal 2 (conflict-free)
//   partials[k_slice][thread_m + i][thread_n]                4 wavefronts, ideal 4 (128 words over 32 banks)
//   partials[s][thread / (BN / 4)][4 * (thread % (BN / 4))]  4 wavefronts, ideal 4 (128 words over 32 banks)
//   y[ij * K + k]                                            16 sectors, ideal 16 (512 contiguous bytes)

#include <cuda_pipeline_primitives.h>

constexpr int H = 17;
constexpr int W = 16;
constexpr int C = 32;
constexpr int K = 32;

#ifndef CUGEN_VECTOR
#define CUGEN_VECTOR
// `count` elements, moved by one vector access.
template <typename T, int count>
struct alignas(count * sizeof(T)) Vector {
    T data[count];
};
#endif

#ifndef CUGEN_FLOOR_MOD_INT
#define CUGEN_FLOOR_MOD_INT
// Remainder of the floor division by a positive b: 0 .. b - 1.
__device__ __forceinline__ int floor_mod(int a, int b)
{
    const int remainder = a % b;
    return remainder < 0 ? remainder + b : remainder;
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

extern "C" __global__ void __launch_bounds__(256) conv_reflect_x_unfolded(
    const float* __restrict__ x,
    float* __restrict__ x_unfolded)
{
    const int i = blockIdx.z / (2 * W);
    const int j = blockIdx.z / 2 % W;
    const int r = blockIdx.z % 2 * 2 + threadIdx.z;
    const int s = blockIdx.y * 4 + threadIdx.y;
    const int c = blockIdx.x * 32 + threadIdx.x;
    if (r >= 3 || s >= 3)
        return;

    const int h_in_period = floor_mod(r + i - 1, 2 * H - 2);
    const int h = min(h_in_period, 2 * H - h_in_period - 2);
    const int w_in_period = floor_mod(s + j - 1, 2 * W - 2);
    const int w_ = min(w_in_period, 2 * W - w_in_period - 2);
    x_unfolded[(((i * W + j) * 3 + r) * 3 + s) * C + c] = x[(h * W + w_) * C + c];
}

extern "C" __global__ void __launch_bounds__(256) conv_reflect_y(
    const float* __restrict__ w,
    float* __restrict__ y,
    const float* __restrict__ x_unfolded)
{
    extern __shared__ __align__(16) unsigned char shared_memory[];

    constexpr int BM = 32, BN = 32, BK = 32, STAGES = 3, TM = 4, TN = 4, WM = 16;

    // circular buffer of 3 stages, [stage][rsc][ij or k]
    float (*x_unfoldeds)[BK][BM + 4] = reinterpret_cast<float (*)[BK][BM + 4]>(shared_memory);
    float (*ws)[BK][BN] = reinterpret_cast<float (*)[BK][BN]>(x_unfoldeds + STAGES);
    float (*partials)[BM][BN + 4] = reinterpret_cast<float (*)[BM][BN + 4]>(shared_memory);

    // tiles at the edge are shifted inside and overlap others: they need no bounds checks
    const int ij0 = min(blockIdx.y * BM, H * W - BM);
    const int k0 = blockIdx.x * BN;
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    // sliced-K: each warp group multiplies 8 of the 32 rsc of a tile, with copies and barriers of its own
    const int k_slice = thread / 64;
    const int thread_in_slice = thread % 64;
    const int warp = thread_in_slice / 32;
    // warp tile 16 x 32, lanes 4 x 8 interleaved so that lane pairs broadcast
    const int lane_m = 2 * (lane / 16) + lane % 2;
    const int lane_n = lane / 2 % 8;
    const int thread_m = WM * warp + 4 * lane_m;
    const int thread_n = 4 * lane_n;
    const int x_unfolded_rsc = BK / 4 * k_slice + thread_in_slice % 8;
    const int x_unfolded_ij = thread_in_slice / 8;
    const int w_rsc = BK / 4 * k_slice + thread_in_slice / 8;
    const int w_k = 4 * (thread_in_slice % 8);

    float acc[TM][TN] = {};

    const float* x_unfolded_global = &x_unfolded[(ij0 + x_unfolded_ij) * (9 * C) + x_unfolded_rsc];
    const float* w_global = &w[w_rsc * K + k0 + w_k];
    #pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        #pragma unroll
        for (int c = 0; c < BM; c += 8) {
            // x_unfoldeds[stage][x_unfolded_rsc][x_unfolded_ij + c]: 4 wavefronts, ideal 1
            // (lanes 0 and 8 copy from one bank)
            __pipeline_memcpy_async(&x_unfoldeds[stage][x_unfolded_rsc][x_unfolded_ij + c],
                &x_unfolded_global[c * (9 * C) + BK * stage], 4);
        }
        __pipeline_memcpy_async(&ws[stage][w_rsc][w_k], &w_global[BK * stage * K], 16);
        __pipeline_commit();
    }

    __pipeline_wait_prior(STAGES - 2);
    __barrier_sync_count(k_slice + 1, 64);
    // register fragments of A and B for one k, double-buffered
    Vector<float, 4> x_unfolded_frag[2];
    Vector<float, 4> w_frag[2];
    const float (*x_unfolded_shared)[BK][BM + 4] =
        reinterpret_cast<const float (*)[BK][BM + 4]>(&x_unfoldeds[0][BK / 4 * k_slice][thread_m]);
    const float (*w_shared)[BK][BN] = reinterpret_cast<const float (*)[BK][BN]>(&ws[0][BK / 4 * k_slice][thread_n]);
    x_unfolded_frag[0] = load<4>(&x_unfolded_shared[0][0][0]);
    w_frag[0] = load<4>(&w_shared[0][0][0]);
    for (int rsc0 = 0, read_stage = 0; rsc0 < 9 * C;
        rsc0 += BK, read_stage = read_stage < STAGES - 1 ? read_stage + 1 : 0) {
        const int write_stage = read_stage > 0 ? read_stage - 1 : STAGES - 1;
        // past the last k-tile: copy it again, so that the loop has no branch
        const int prefetch_k = min(rsc0 + BK * (STAGES - 1), 9 * C - BK);
        #pragma unroll
        for (int rsc = 1; rsc < BK / 4; ++rsc) {
            if (rsc == BK / 4 / 4) {
                #pragma unroll
                for (int c = 0; c < BM; c += 8) {
                    // x_unfoldeds[write_stage][x_unfolded_rsc][x_unfolded_ij + c]: 4 wavefronts, ideal 1
                    // (lanes 0 and 8 copy from one bank)
                    __pipeline_memcpy_async(&x_unfoldeds[write_stage][x_unfolded_rsc][x_unfolded_ij + c],
                        &x_unfolded_global[c * (9 * C) + prefetch_k], 4);
                }
            }
            if (rsc == BK / 4 / 2) {
                __pipeline_memcpy_async(&ws[write_stage][w_rsc][w_k], &w_global[prefetch_k * K], 16);
                __pipeline_commit();
            }
            x_unfolded_frag[rsc % 2] = load<4>(&x_unfolded_shared[read_stage][rsc][0]);
            w_frag[rsc % 2] = load<4>(&w_shared[read_stage][rsc][0]);
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                #pragma unroll
                for (int t = 0; t < TN; ++t) {
                    // serpentine: every other row backwards
                    const int j = i % 2 == 0 ? t : TN - t - 1;
                    acc[i][j] += x_unfolded_frag[(rsc + 1) % 2].data[i] * w_frag[(rsc + 1) % 2].data[j];
                }
            }
        }
        __pipeline_wait_prior(STAGES - 2);
        __barrier_sync_count(k_slice + 1, 64);
        // fragments of the next k-tile; unused after the last
        const int next_stage = read_stage < STAGES - 1 ? read_stage + 1 : 0;
        x_unfolded_frag[0] = load<4>(&x_unfolded_shared[next_stage][0][0]);
        w_frag[0] = load<4>(&w_shared[next_stage][0][0]);
        #pragma unroll
        for (int i = 0; i < TM; ++i) {
            #pragma unroll
            for (int t = 0; t < TN; ++t) {
                // serpentine: every other row backwards
                const int j = i % 2 == 0 ? t : TN - t - 1;
                acc[i][j] += x_unfolded_frag[1].data[i] * w_frag[1].data[j];
            }
        }
    }
    // drain the outstanding copies
    __pipeline_wait_prior(0);

    // opaque 1.0f: keeps ptxas from choosing accumulator registers for the vector stores, which
    // causes register-bank conflicts
    const float opaque_one = blockDim.z;
    // partial sums of the k slices, in the memory of the pipeline after its last read
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        Vector<float, 4> acc_vector;
        #pragma unroll
        for (int w_ = 0; w_ < 4; ++w_) {
            acc_vector.data[w_] = opaque_one * acc[i][w_];
        }
        store<4>(&partials[k_slice][thread_m + i][thread_n], acc_vector);
    }
    __syncthreads();
    const int ij = ij0 + thread / (BN / 4);
    const int k = k0 + 4 * (thread % (BN / 4));
    Vector<float, 4> slice_sums[4];
    #pragma unroll
    for (int s = 0; s < 4; ++s) {
        slice_sums[s] = load<4>(&partials[s][thread / (BN / 4)][4 * (thread % (BN / 4))]);
    }
    Vector<float, 4> y4;
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
        y4.data[v] = maximum(slice_sums[0].data[v] + slice_sums[1].data[v] + slice_sums[2].data[v]
            + slice_sums[3].data[v], 0.0f);
    }
    store<4>(&y[ij * K + k], y4);
}

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include <cuda_runtime.h>

extern "C" size_t conv_reflect_workspace_bytes(void)
{
    return 256 * ((36 * C * H * W + 255) / 256);
}

extern "C" cudaError_t conv_reflect_launch(
    const float* x,
    const float* w,
    float* y,
    void* workspace,
    cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    const bool allocates = workspace == nullptr;
    if (allocates)
        status = cudaMallocAsync(&workspace, conv_reflect_workspace_bytes(), stream);
    if (status != cudaSuccess)
        return status;
    float* const x_unfolded = static_cast<float*>(workspace);
    conv_reflect_x_unfolded<<<dim3((C + 31) / 32, 1, 2 * H * W), dim3(32, 4, 2), 0, stream>>>(x, x_unfolded);
    conv_reflect_y<<<dim3((K + 31) / 32, (H * W + 31) / 32), dim3(256), 26112, stream>>>(w, y, x_unfolded);
    if (allocates)
        cudaFreeAsync(workspace, stream);
    return cudaGetLastError();
}

#endif
