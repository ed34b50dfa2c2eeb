// Plays launches inside a program of somebody else's; compiled once for all kernels of that program.

#include <cugen_launch.h>

#include <mutex>
#include <thread>

#include "block.h"
#include "cluster.h"
#include "collective.h"

namespace cugen {

void play(const Kernel& kernel, void* const* parameters, const Configuration& configuration, SharedMemory shared) {
  // Kernels keep `__constant__` and `__device__` variables, so that one launch ends before the next begins.
  static std::mutex one_at_a_time;
  const std::lock_guard<std::mutex> lock(one_at_a_time);
  report = STDERR_FILENO;

  const dim3 grid = configuration.grid, block = configuration.block;
  const Launch launch = {&kernel, parameters, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, 0, false, 0};
  const std::vector<Stretch> stretches(shared.bytes > 0, {shared.start, shared.bytes});
  const uint64_t count = static_cast<uint64_t>(grid.x / kernel.cluster) * grid.y * grid.z;
  std::atomic<uint64_t> next{0};
  const auto work = [&] {
    const auto own = std::make_unique<Cluster>();
    for (uint64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) own->run(launch, i, stretches);
    waiting.leave();
  };

  const unsigned most = shared.bytes > 0 ? 1 : std::max(1u, std::thread::hardware_concurrency());
  const uint64_t workers = std::min<uint64_t>(most, count);
  waiting.begin(static_cast<unsigned>(workers));
  std::vector<std::thread> others;
  for (uint64_t i = 1; i < workers; ++i) others.emplace_back(work);
  if (workers > 0) work();
  for (std::thread& other : others) other.join();
}

}  // namespace cugen
