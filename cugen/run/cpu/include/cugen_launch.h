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

// Runs all blocks and returns when they have ended. A fault is told on standard error and ends the process.
void play(const Kernel& kernel, void* const* parameters, const Configuration& configuration);

template <auto function>
struct Launcher;

template <class... Parameters, void (*function)(Parameters...)>
struct Launcher<function> {
  static void run(const Configuration& configuration, Parameters... parameters) {
    void* const pointers[] = {const_cast<void*>(static_cast<const volatile void*>(&parameters))..., nullptr};
    play(kernel<function>("kernel"), pointers, configuration);
  }
};

template <auto function, class... Arguments>
void launch(const Configuration& configuration, Arguments... arguments) {
  Launcher<function>::run(configuration, arguments...);
}

}  // namespace cugen
