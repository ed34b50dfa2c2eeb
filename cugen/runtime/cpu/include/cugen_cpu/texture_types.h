/* Texture objects of linear and pitched memory: an object is the address of its description. C, for the runtime API's
   header. */
#pragma once

#include <stddef.h>

typedef unsigned long long cudaTextureObject_t;

enum cudaChannelFormatKind {
  cudaChannelFormatKindSigned = 0,
  cudaChannelFormatKindUnsigned = 1,
  cudaChannelFormatKindFloat = 2,
  cudaChannelFormatKindNone = 3
};

enum cudaTextureAddressMode {
  cudaAddressModeWrap = 0,
  cudaAddressModeClamp = 1,
  cudaAddressModeMirror = 2,
  cudaAddressModeBorder = 3
};

struct cugen_texture {
  const void* data;
  size_t elements;
  int bits; /* of an element */
  enum cudaChannelFormatKind kind;
  size_t width; /* 0 in linear memory */
  size_t height;
  size_t pitch; /* bytes */
  enum cudaTextureAddressMode address;
  int normalized;
  int linear; /* filtered; else point sampled */
};
