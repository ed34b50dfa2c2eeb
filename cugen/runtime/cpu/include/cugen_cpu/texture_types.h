/* Texture objects of linear memory: an object is the address of its description. C, for the runtime API's header. */
#pragma once

#include <stddef.h>

typedef unsigned long long cudaTextureObject_t;

enum cudaChannelFormatKind {
  cudaChannelFormatKindSigned = 0,
  cudaChannelFormatKindUnsigned = 1,
  cudaChannelFormatKindFloat = 2,
  cudaChannelFormatKindNone = 3
};

struct cugen_texture {
  const void* data;
  size_t elements;
  int bits; /* of an element */
  enum cudaChannelFormatKind kind;
};
