// For files written by `cugen cpu`: launches of kernels in the same program.
#pragma once

#include "cuda_runtime.h"

namespace cugen {

// Launch configuration, the arguments of <<<...>>>.
struct Configuration {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

// All `__shared__` variables of a file with clusters, which only one worker may use.
struct SharedMemory {
  char* start = nullptr;
  size_t bytes = 0;
};

// Runs all blocks synchronously. A fault is reported on standard error and ends the process.
void execute(const Kernel& kernel, void* const* parameters, const Configuration& configuration, SharedMemory shared = {});

template <auto function>
struct Launcher;

template <class... Parameters, void (*function)(Parameters...)>
struct Launcher<function> {
  static void run(unsigned cluster, SharedMemory shared, const Configuration& configuration, Parameters... parameters) {
    void* const pointers[] = {const_cast<void*>(static_cast<const volatile void*>(&parameters))..., nullptr};
    execute(kernel<function>("kernel", cluster), pointers, configuration, shared);
  }
};

template <auto function, class... Arguments>
void launch(const Configuration& configuration, Arguments... arguments) {
  Launcher<function>::run(1, {}, configuration, arguments...);
}

// For files with clusters.
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
