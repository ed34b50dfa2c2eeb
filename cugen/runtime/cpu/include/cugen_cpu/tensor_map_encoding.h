// The driver's function that encodes tensor maps, and the runtime's that finds it, for launchers.
#pragma once

#include "../cuda_runtime_api.h"
#include "tensor_map.h"

typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;
typedef enum cudaError_enum { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1 } CUresult;

// As the driver's numbers, of the types and modes that launchers use.
enum CUtensorMapDataType {
  CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0,
  CU_TENSOR_MAP_DATA_TYPE_UINT32 = 2,
  CU_TENSOR_MAP_DATA_TYPE_INT32 = 3,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7,
  CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9,
  CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 = 11
};
enum CUtensorMapInterleave { CU_TENSOR_MAP_INTERLEAVE_NONE = 0 };
enum CUtensorMapSwizzle {
  CU_TENSOR_MAP_SWIZZLE_NONE = 0,
  CU_TENSOR_MAP_SWIZZLE_32B = 1,
  CU_TENSOR_MAP_SWIZZLE_64B = 2,
  CU_TENSOR_MAP_SWIZZLE_128B = 3
};
enum CUtensorMapL2promotion { CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2 };
enum CUtensorMapFloatOOBfill { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0 };

// Of either mode; fails for what the driver doesn't allow.
inline CUresult encode_array(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, cuuint32_t max_rank,
                             void* address, const cuuint64_t* sizes, const cuuint64_t* strides,
                             CUtensorMapSwizzle swizzle) {
  const bool is_16_bit = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 || type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  *map = {};
  map->address = static_cast<unsigned char*>(address);
  map->rank = rank;
  map->swizzle_bytes = swizzle == CU_TENSOR_MAP_SWIZZLE_NONE ? 0 : 16u << swizzle;
  map->element_bytes = type == CU_TENSOR_MAP_DATA_TYPE_UINT8 ? 1 : is_16_bit ? 2 : 4;
  map->rounds_to_tf32 = type == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
  // What the driver requires.
  if (rank < 1 || rank > max_rank || reinterpret_cast<size_t>(address) % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  for (cuuint32_t i = 0; i < rank; ++i) {
    map->sizes[i] = sizes[i];
    map->strides[i] = i == 0 ? map->element_bytes : strides[i - 1];
    if (sizes[i] == 0 || (i > 0 && map->strides[i] % 16 != 0)) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

inline CUresult check_rows(const CUtensorMap* map) {
  const cuuint32_t row = map->box[0] * map->element_bytes;
  return row % 16 != 0 || (map->swizzle_bytes != 0 && row > map->swizzle_bytes) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

inline CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                       const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                                       const cuuint32_t* steps, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                                       CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  if (encode_array(map, type, rank, 3, address, sizes, strides, swizzle) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
  for (cuuint32_t i = 0; i < rank; ++i) {
    map->box[i] = box[i];
    if (box[i] == 0 || box[i] > 256 || steps[i] != 1) return CUDA_ERROR_INVALID_VALUE;
  }
  return check_rows(map);
}

inline CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                        const cuuint64_t* sizes, const cuuint64_t* strides, const int* lower,
                                        const int* upper, cuuint32_t channels, cuuint32_t pixels,
                                        const cuuint32_t* steps, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                                        CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  if (rank < 3 || encode_array(map, type, rank, 5, address, sizes, strides, swizzle) != CUDA_SUCCESS)
    return CUDA_ERROR_INVALID_VALUE;
  const int limit = rank == 3 ? 1 << 15 : rank == 4 ? 1 << 7 : 1 << 4;
  map->is_im2col = 1;
  map->box[0] = channels;
  map->box[1] = pixels;
  for (cuuint32_t i = 0; i < rank - 2; ++i) {
    map->lower[i] = static_cast<int16_t>(lower[i]);
    map->upper[i] = static_cast<int16_t>(upper[i]);
    map->steps[i] = static_cast<uint8_t>(steps[i + 1]);
    const bool is_in_range = lower[i] >= -limit && lower[i] < limit && upper[i] >= -limit && upper[i] < limit;
    if (!is_in_range || steps[i + 1] == 0 || steps[i + 1] > 8) return CUDA_ERROR_INVALID_VALUE;
    if (static_cast<int64_t>(sizes[i + 1]) + upper[i] <= lower[i]) return CUDA_ERROR_INVALID_VALUE;
  }
  return channels == 0 || channels > 256 || pixels == 0 || pixels > 1024 ? CUDA_ERROR_INVALID_VALUE : check_rows(map);
}

enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess = 0, cudaDriverEntryPointSymbolNotFound = 1 };
#define cudaEnableDefault 0

inline cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                                    cudaDriverEntryPointQueryResult* result) {
  const bool is_tiled = strcmp(name, "cuTensorMapEncodeTiled") == 0;
  const bool is_im2col = strcmp(name, "cuTensorMapEncodeIm2col") == 0;
  *function = is_tiled    ? reinterpret_cast<void*>(&cuTensorMapEncodeTiled)
              : is_im2col ? reinterpret_cast<void*>(&cuTensorMapEncodeIm2col)
                          : nullptr;
  *result = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
