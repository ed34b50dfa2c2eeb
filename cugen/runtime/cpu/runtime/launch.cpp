// Launches kernels in a host program; compiled once for all kernels of the program.

#include <cugen_launch.h>

#include <mutex>
#include <thread>

#include "async_proxy.h"
#include "barriers.h"
#include "block.h"
#include "cluster.h"
#include "collective.h"
#include "multicast.h"

namespace cugen {

void fail_misaligned(const char* what, const void* address, size_t alignment, int line) {
  fail("misaligned-address", line, "%s at %p, an address that is no multiple of %zu", what, address, alignment);
}

void require_shared(const char*, const void*, int) {}  // arrays are unknown

void execute(const Kernel& kernel, void* const* parameters, const Configuration& configuration, SharedMemory shared) {
  // Launches are serialised: kernels share `__constant__` and `__device__` variables.
  static std::mutex launch_mutex;
  const std::lock_guard<std::mutex> lock(launch_mutex);
  report = STDERR_FILENO;

  const dim3 grid = configuration.grid, block = configuration.block;
  const Launch launch = {&kernel, parameters, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, 0, false, 0};
  const std::vector<MemoryRange> ranges(shared.bytes > 0, {shared.start, shared.bytes});
  const uint64_t count = static_cast<uint64_t>(grid.x / kernel.cluster) * grid.y * grid.z;
  std::atomic<uint64_t> next{0};
  const auto work = [&] {
    const auto cluster = std::make_unique<Cluster>();
    for (uint64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) cluster->run(launch, i, ranges);
    spin_waiters.leave();
  };

  const unsigned max_workers = shared.bytes > 0 ? 1 : std::max(1u, std::thread::hardware_concurrency());
  const uint64_t workers = std::min<uint64_t>(max_workers, count);
  spin_waiters.begin(static_cast<unsigned>(workers));
  std::vector<std::thread> threads;
  for (uint64_t i = 1; i < workers; ++i) threads.emplace_back(work);
  if (workers > 0) work();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace cugen
