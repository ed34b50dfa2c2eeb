// For the files that `cugen cpu` writes: launches of kernels that are part of the same program.
#pragma once

#include "cuda_runtime.h"

namespace cugen {

// What stands between <<< and >>>.
struct Configuration {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

// Where the blocks of clusters take turns: all `__shared__` variables of a file, which no two workers may use at once.
struct SharedMemory {
  char* start = nullptr;
  size_t bytes = 0;
};

// Runs all blocks and returns when they have ended. A fault is told on standard error and ends the process.
void play(const Kernel& kernel, void* const* parameters, const Configuration& configuration, SharedMemory shared = {});

template <auto function>
struct Launcher;

template <class... Parameters, void (*function)(Parameters...)>
struct Launcher<function> {
  static void run(unsigned cluster, SharedMemory shared, const Configuration& configuration, Parameters... parameters) {
    void* const pointers[] = {const_cast<void*>(static_cast<const volatile void*>(&parameters))..., nullptr};
    play(kernel<function>("kernel", cluster), pointers, configuration, shared);
  }
};

template <auto function, class... Arguments>
void launch(const Configuration& configuration, Arguments... arguments) {
  Launcher<function>::run(1, {}, configuration, arguments...);
}

// In a file that has clusters.
#if defined(__APPLE__)
#define CUGEN_IN_SECTION __attribute__((section("__DATA,cugen_shared")))
extern char cugen_shared_start[] __asm__("section$start$__DATA$cugen_shared");
extern char cugen_shared_stop[] __asm__("section$end$__DATA$cugen_shared");
#else
#define CUGEN_IN_SECTION __attribute__((section("cugen_shared")))
extern char cugen_shared_start[] __asm__("__start_cugen_shared") __attribute__((weak, visibility("hidden")));
extern char cugen_shared_stop[] __asm__("__stop_cugen_shared") __attribute__((weak, visibility("hidden")));
#endif
#define CUGEN_SHARED_MEMORY \
  cugen::SharedMemory { cugen::cugen_shared_start, size_t(cugen::cugen_shared_stop - cugen::cugen_shared_start) }

template <auto function, class... Arguments>
void launch_clusters(unsigned cluster, SharedMemory shared, const Configuration& configuration, Arguments... arguments) {
  Launcher<function>::run(cluster, shared, configuration, arguments...);
}

}  // namespace cugen
