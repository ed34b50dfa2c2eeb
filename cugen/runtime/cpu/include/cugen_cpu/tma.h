// Asynchronous copies of boxes of a tensor map (TMA), in place of the inline PTX of a .cu (runtime/tensor_copies.h).
#pragma once

#include "tensor_map.h"

namespace cugen {

// First element of a box, contiguous dimension first; in im2col mode its pixels are read `offsets` further on.
struct BoxCoordinates {
  unsigned rank;
  int index[5];
  bool is_im2col = false;
  unsigned short offsets[3] = {};
};

void load_box(void* target, const CUtensorMap& map, void* barrier, const BoxCoordinates& first, int line);
// To the shared memory of each block of the cluster whose bit is set in `blocks`.
void multicast_box(void* target, const CUtensorMap& map, void* barrier, unsigned blocks, const BoxCoordinates& first,
                   int line);
void store_box(const CUtensorMap& map, const void* source, const BoxCoordinates& first, int line);
void commit_stores();
void await_stores(size_t pending);

// Makes the thread's writes visible to the async proxy (fence.proxy.async).
void fence_async_proxy();

}  // namespace cugen

#define CUGEN_TMA_LOAD_2D
CUGEN_INLINE void tma_load_2d(void* target, const CUtensorMap* map, unsigned long long* barrier, int x, int y,
                        int line = __builtin_LINE()) {
  cugen::load_box(target, *map, barrier, {2, {x, y, 0}}, line);
}
#define CUGEN_TMA_LOAD_3D
CUGEN_INLINE void tma_load_3d(void* target, const CUtensorMap* map, unsigned long long* barrier, int x, int y, int z,
                        int line = __builtin_LINE()) {
  cugen::load_box(target, *map, barrier, {3, {x, y, z}}, line);
}
#define CUGEN_TMA_LOAD_4D
CUGEN_INLINE void tma_load_4d(void* target, const CUtensorMap* map, unsigned long long* barrier, int x, int y, int z,
                        int u, int line = __builtin_LINE()) {
  cugen::load_box(target, *map, barrier, {4, {x, y, z, u}}, line);
}
#define CUGEN_TMA_LOAD_5D
CUGEN_INLINE void tma_load_5d(void* target, const CUtensorMap* map, unsigned long long* barrier, int x, int y, int z,
                        int u, int v, int line = __builtin_LINE()) {
  cugen::load_box(target, *map, barrier, {5, {x, y, z, u, v}}, line);
}
#define CUGEN_TMA_LOAD_2D_MULTICAST
CUGEN_INLINE void tma_load_2d_multicast(void* target, const CUtensorMap* map, unsigned long long* barrier,
                        unsigned short blocks, int x, int y, int line = __builtin_LINE()) {
  cugen::multicast_box(target, *map, barrier, blocks, {2, {x, y, 0}}, line);
}
#define CUGEN_TMA_LOAD_3D_MULTICAST
CUGEN_INLINE void tma_load_3d_multicast(void* target, const CUtensorMap* map, unsigned long long* barrier,
                        unsigned short blocks, int x, int y, int z, int line = __builtin_LINE()) {
  cugen::multicast_box(target, *map, barrier, blocks, {3, {x, y, z}}, line);
}
#define CUGEN_TMA_LOAD_4D_MULTICAST
CUGEN_INLINE void tma_load_4d_multicast(void* target, const CUtensorMap* map, unsigned long long* barrier,
                        unsigned short blocks, int x, int y, int z, int u, int line = __builtin_LINE()) {
  cugen::multicast_box(target, *map, barrier, blocks, {4, {x, y, z, u}}, line);
}
#define CUGEN_TMA_LOAD_5D_MULTICAST
CUGEN_INLINE void tma_load_5d_multicast(void* target, const CUtensorMap* map, unsigned long long* barrier,
                        unsigned short blocks, int x, int y, int z, int u, int v, int line = __builtin_LINE()) {
  cugen::multicast_box(target, *map, barrier, blocks, {5, {x, y, z, u, v}}, line);
}
#define CUGEN_TMA_STORE_2D
CUGEN_INLINE void tma_store_2d(const CUtensorMap* map, const void* source, int x, int y, int line = __builtin_LINE()) {
  cugen::store_box(*map, source, {2, {x, y, 0}}, line);
}
#define CUGEN_TMA_STORE_3D
CUGEN_INLINE void tma_store_3d(const CUtensorMap* map, const void* source, int x, int y, int z, int line = __builtin_LINE()) {
  cugen::store_box(*map, source, {3, {x, y, z}}, line);
}
#define CUGEN_TMA_STORE_4D
CUGEN_INLINE void tma_store_4d(const CUtensorMap* map, const void* source, int x, int y, int z, int u,
                        int line = __builtin_LINE()) {
  cugen::store_box(*map, source, {4, {x, y, z, u}}, line);
}
#define CUGEN_TMA_STORE_5D
CUGEN_INLINE void tma_store_5d(const CUtensorMap* map, const void* source, int x, int y, int z, int u, int v,
                        int line = __builtin_LINE()) {
  cugen::store_box(*map, source, {5, {x, y, z, u, v}}, line);
}
#define CUGEN_TMA_LOAD_IM2COL_3D
CUGEN_INLINE void tma_load_im2col_3d(void* target, const CUtensorMap* map, unsigned long long* barrier, int c, int w,
                        int n, unsigned short s, int line = __builtin_LINE()) {
  cugen::load_box(target, *map, barrier, {3, {c, w, n}, true, {s}}, line);
}
#define CUGEN_TMA_LOAD_IM2COL_4D
CUGEN_INLINE void tma_load_im2col_4d(void* target, const CUtensorMap* map, unsigned long long* barrier, int c, int w,
                        int h, int n, unsigned short s, unsigned short r, int line = __builtin_LINE()) {
  cugen::load_box(target, *map, barrier, {4, {c, w, h, n}, true, {s, r}}, line);
}
#define CUGEN_TMA_LOAD_IM2COL_5D
CUGEN_INLINE void tma_load_im2col_5d(void* target, const CUtensorMap* map, unsigned long long* barrier, int c, int w,
                        int h, int d, int n, unsigned short s, unsigned short r, unsigned short t,
                        int line = __builtin_LINE()) {
  cugen::load_box(target, *map, barrier, {5, {c, w, h, d, n}, true, {s, r, t}}, line);
}
#define CUGEN_PREFETCH_TENSOR_MAP
CUGEN_INLINE void prefetch_tensor_map(const CUtensorMap*) {}
#define CUGEN_TMA_STORE_COMMIT
CUGEN_INLINE void tma_store_commit() { cugen::commit_stores(); }
#define CUGEN_TMA_STORE_WAIT_READ
template <int pending>
CUGEN_INLINE void tma_store_wait_read() {
  cugen::await_stores(pending);
}
#define CUGEN_FENCE_PROXY_ASYNC
CUGEN_INLINE void fence_proxy_async() { cugen::fence_async_proxy(); }
