// Runs a job: `program FOLDER` reads FOLDER/job.txt and writes FOLDER/report.txt, FOLDER/<output>.out and, if tracing,
// FOLDER/trace.bin. Exit status 0, or 3 after a fault.

#include <fcntl.h>
#if defined(__linux__)
#include <link.h>
#endif

#include <chrono>
#include <numeric>
#include <thread>

#include "alignment.h"
#include "async_proxy.h"
#include "barriers.h"
#include "block.h"
#include "cluster.h"
#include "collective.h"
#include "job.h"
#include "multicast.h"
#include "shared_addresses.h"
#include "trace.h"

namespace cugen {
namespace {

// Load address of the position-independent executable; the parent uses addresses relative to the file.
size_t load_offset() {
  size_t offset = 0;
#if defined(__linux__)
  dl_iterate_phdr(
      [](dl_phdr_info* information, size_t, void* result) {
        *static_cast<size_t*>(result) = information->dlpi_addr;
        return 1;
      },
      &offset);
#endif
  return offset;
}

// Blocks in order, or permuted by i -> (i * step + shift) mod count with step coprime to count.
struct BlockOrder {
  uint64_t count, step = 1, shift = 0;

  BlockOrder(uint64_t count, const Job& job) : count(count) {
    if (!job.shuffled || count < 2) return;
    std::minstd_rand random(static_cast<unsigned>(job.seed + 1));
    shift = random() % count;
    do step = 1 + random() % (count - 1);
    while (std::gcd(step, count) != 1);
  }

  uint64_t operator[](uint64_t i) const { return static_cast<uint64_t>((static_cast<unsigned __int128>(i) * step + shift) % count); }
};

// The shared memory of this worker.
std::vector<MemoryRange> shared_memory(const PlannedLaunch& launch) {
  std::vector<MemoryRange> ranges;
  for (const SharedArray& array : shared_arrays) ranges.push_back({array.start, array.bytes});
  if (char* const start = thread_local_arrays.empty() ? nullptr : thread_local_start())
    for (const SharedArray& array : thread_local_arrays)
      ranges.push_back({start + reinterpret_cast<size_t>(array.start), array.bytes});
  for (size_t i = 0; i < program.dynamic_shared_count; ++i)
    ranges.push_back({static_cast<char*>(program.dynamic_shared(i).address), launch.dynamic_bytes});
  return ranges;
}

// What no thread of the block has written: 16 bytes of NaN, which a product with 0 keeps, alternate with 16 bytes of
// large numbers, which a maximum keeps. They change places with the block.
void poison_shared(const std::vector<MemoryRange>& ranges, uint64_t block) {
  constexpr size_t kPiece = 16;
  for (const MemoryRange& range : ranges) {
    memset(range.start, kPoison, range.bytes);
    for (size_t i = block % 2 * kPiece; i < range.bytes; i += 2 * kPiece)
      memset(range.start + i, kLargePoison, std::min(kPiece, range.bytes - i));
  }
}

void run_blocks(const PlannedLaunch& planned, const Launch& launch, const BlockOrder& order,
                 std::atomic<uint64_t>& next, Cluster& cluster) {
  const std::vector<MemoryRange> shared = shared_memory(planned);
  for (uint64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < order.count;) {
    poison_shared(shared, order[i]);
    forget_values(launch.kernel->cluster);
    cluster.run(launch, order[i], shared);
  }
  spin_waiters.leave();
}

void run_launch(Job& job, const PlannedLaunch& planned, unsigned number,
                 std::vector<std::unique_ptr<Cluster>>& clusters) {
  std::vector<void*> parameters;
  for (const std::string& name : planned.arguments) parameters.push_back(job.values[name].data());
  const Launch launch = {planned.kernel, parameters.data(), planned.grid, planned.block, number, job.shuffled, job.seed};
  const unsigned size = planned.kernel->cluster;
  if (planned.grid.x % size != 0)
    fail("launch", 0, "%s: the grid's x extent is no multiple of the cluster size %u: %u", planned.kernel->name, size, planned.grid.x);
  const uint64_t count = static_cast<uint64_t>(planned.grid.x / size) * planned.grid.y * planned.grid.z;
  memory_order.begin_launch(count);
  const BlockOrder order(count, job);
  std::atomic<uint64_t> next{0};
  const size_t workers = std::min<uint64_t>(job.workers, count);
  while (clusters.size() < workers) clusters.push_back(std::make_unique<Cluster>());

  spin_waiters.begin(static_cast<unsigned>(workers));
  std::vector<std::thread> threads;
  for (size_t i = 1; i < workers; ++i)
    threads.emplace_back([&, i] {
      catch_faults_on_this_thread();
      run_blocks(planned, launch, order, next, *clusters[i]);
    });
  if (workers > 0) run_blocks(planned, launch, order, next, *clusters[0]);
  for (std::thread& thread : threads) thread.join();
}

void upload(const Job& job, const Upload& upload) {
  const auto symbol = std::find_if(program.constants, program.constants + program.constant_count,
                                   [&](const Symbol& s) { return upload.symbol == s.name; });
  const auto value = job.values.find(upload.argument);
  if (symbol == program.constants + program.constant_count || value == job.values.end() || upload.bytes > symbol->bytes)
    fail("launch", 0, "cannot upload %zu bytes of %s to %s", upload.bytes, upload.argument.c_str(), upload.symbol.c_str());
  const void* source = value->second.data();
  for (const Buffer& buffer : buffers)
    if (buffer.name == upload.argument) {
      if (upload.bytes > buffer.bytes)
        fail("launch", 0, "%s has %zu bytes, fewer than the %zu to upload", upload.argument.c_str(), buffer.bytes, upload.bytes);
      source = buffer.start;
    }
  memcpy(symbol->address, source, upload.bytes);
}

// Poisons dynamic shared memory beyond the size of the launch.
void poison_past_dynamic_shared([[maybe_unused]] const PlannedLaunch& launch) {
#if defined(CUGEN_ADDRESS_SANITIZER)
  for (size_t i = 0; i < program.dynamic_shared_count; ++i) {
    const Symbol array = program.dynamic_shared(i);
    char* const start = static_cast<char*>(array.address);
    __asan_unpoison_memory_region(start, launch.dynamic_bytes);
    __asan_poison_memory_region(start + launch.dynamic_bytes, array.bytes - launch.dynamic_bytes);
  }
#endif
}

// Milliseconds of one run of the launch list. In-out buffers are reset first.
double run_launches(Job& job, std::vector<std::unique_ptr<Cluster>>& clusters) {
  double milliseconds = 0;
  for (const Buffer& buffer : buffers) {
    if (buffer.role == Role::workspace) memset(buffer.start, kPoison, buffer.bytes);
    if (buffer.role == Role::zeroed) memset(buffer.start, 0, buffer.bytes);
    if (buffer.role == Role::inout) memcpy(buffer.start, buffer.initial.data(), buffer.bytes);
  }
  for (const Upload& item : job.uploads) upload(job, item);
  for (size_t i = 0; i < job.launches.size(); ++i) {
    poison_past_dynamic_shared(job.launches[i]);
    const auto start = std::chrono::steady_clock::now();
    run_launch(job, job.launches[i], static_cast<unsigned>(i), clusters);
    milliseconds += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    check_canaries(job.launches[i].kernel->name);
  }
  return milliseconds;
}

void write_outputs(const std::string& folder) {
  for (const Buffer& buffer : buffers) {
    if (buffer.role != Role::output && buffer.role != Role::inout) continue;
    std::ofstream file(folder + "/" + buffer.name + ".out", std::ios::binary);
    file.write(buffer.start, static_cast<std::streamsize>(buffer.bytes));
  }
}

void trace_arrays([[maybe_unused]] const std::string& folder, [[maybe_unused]] const Job& job) {
#if defined(CUGEN_TRACE)
  for (const Buffer& buffer : buffers) {
    trace_array(buffer.name, buffer.start, buffer.bytes, false);
    if (buffer.role != Role::input) track_writes(traced_arrays.back());
  }
  for (size_t i = 0; i < program.constant_count; ++i)
    trace_array(program.constants[i].name, program.constants[i].address, program.constants[i].bytes, false);
  for (const SharedArray& array : shared_arrays) trace_array(array.name, array.start, array.bytes, true);
  for (size_t i = 0; i < program.dynamic_shared_count; ++i) {
    const Symbol array = program.dynamic_shared(i);
    trace_array(array.name, array.address, array.bytes, true);
  }
  shared_values.are_checked = job.uninitialised;
  if (job.trace) trace_file = fopen((folder + "/trace.bin").c_str(), "wb");
#endif
}

int run(const std::string& folder) {
  report = open((folder + "/report.txt").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (report < 0) return 2;
  const size_t offset = load_offset();
  dprintf(report, "offset %zx\n", offset);
  catch_faults_on_this_thread();
  Job job = read_job(folder, offset);
  report_memory();
  trace_arrays(folder, job);
  std::vector<std::unique_ptr<Cluster>> clusters;
  for (unsigned i = 0; i < job.repeat; ++i) {
    const double milliseconds = run_launches(job, clusters);
    if (i == 0) write_outputs(folder);
    dprintf(report, "time %.6f\n", milliseconds);
  }
#if defined(CUGEN_TRACE)
  if (trace_file != nullptr) fclose(trace_file);
#endif
  return 0;
}

}  // namespace
}  // namespace cugen

int main(int count, char** arguments) { return count == 2 ? cugen::run(arguments[1]) : 2; }
