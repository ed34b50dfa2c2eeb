// The job written by the parent: job.txt with one item per line, and a file per buffer.
#pragma once

#include <stdio.h>

#include <fstream>
#include <list>
#include <map>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "../include/cugen_cpu/tensor_map.h"
#include "../include/cugen_cpu/texture_types.h"
#include "arrays.h"

namespace cugen {

struct Upload {
  std::string symbol;
  std::string argument;
  size_t bytes;
};

struct PlannedLaunch {
  const Kernel* kernel;
  uint3 grid, block;
  size_t dynamic_bytes;
  std::vector<std::string> arguments;
};

// Allocates for any type of parameter.
template <class T>
struct ParameterAllocator {
  using value_type = T;
  static constexpr std::align_val_t alignment{alignof(CUtensorMap)};

  ParameterAllocator() = default;
  template <class U>
  ParameterAllocator(const ParameterAllocator<U>&) {}
  T* allocate(size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), alignment)); }
  void deallocate(T* start, size_t) { ::operator delete(start, alignment); }
  bool operator==(const ParameterAllocator&) const { return true; }
  bool operator!=(const ParameterAllocator&) const { return false; }
};

using Bytes = std::vector<char, ParameterAllocator<char>>;

struct Job {
  std::map<std::string, Bytes> values;  // by argument: the bytes of a pointer, number or tensor map
  std::list<cugen_texture> textures;  // their addresses are the objects
  std::vector<Upload> uploads;
  std::vector<PlannedLaunch> launches;
  unsigned repeat = 1;
  unsigned workers = 1;
  bool shuffled = false;
  uint64_t seed = 0;
  bool trace = false;
  bool uninitialised = false;  // whether reads of shared memory without a value are faults
};

inline const Kernel& find_kernel(const std::string& name) {
  for (size_t i = 0; i < program.kernel_count; ++i)
    if (name == program.kernels[i].name) return program.kernels[i];
  fail("launch", 0, "the .cu has no kernel %s", name.c_str());
}

inline Role role_of(const std::string& word) {
  return word == "input"    ? Role::input
         : word == "output" ? Role::output
         : word == "inout"  ? Role::inout
         : word == "zeroed" ? Role::zeroed
                            : Role::workspace;
}

inline void read_buffer(const std::string& folder, std::istringstream& line, Job& job) {
  std::string name, role;
  size_t bytes, alignment;
  line >> name >> role >> bytes >> alignment;
  Buffer& buffer = create_buffer(name, bytes, alignment, role_of(role));
  if (buffer.role != Role::workspace && buffer.role != Role::zeroed) {
    std::ifstream file(folder + "/" + name + ".in", std::ios::binary);
    if (!file.read(buffer.start, static_cast<std::streamsize>(bytes))) fail("job", 0, "cannot read %s", name.c_str());
  }
  if (buffer.role == Role::inout) buffer.initial.assign(buffer.start, buffer.start + bytes);
  seal(buffer);
  Bytes& pointer = job.values[name];
  pointer.resize(sizeof(char*));
  memcpy(pointer.data(), &buffer.start, sizeof(char*));
  dprintf(report, "buffer %s %zx %zu\n", name.c_str(), reinterpret_cast<size_t>(buffer.start), bytes);
}

inline void read_value(std::istringstream& line, Job& job) {
  std::string name, digits;
  line >> name >> digits;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    job.values[name].push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
}

inline void read_launch(std::istringstream& line, Job& job) {
  std::string name;
  PlannedLaunch launch;
  line >> name >> launch.grid.x >> launch.grid.y >> launch.grid.z >> launch.block.x >> launch.block.y >> launch.block.z >>
      launch.dynamic_bytes;
  launch.kernel = &find_kernel(name);
  for (std::string argument; line >> argument;) {
    const size_t number = launch.arguments.size();
    if (number >= launch.kernel->parameter_count || job.values.count(argument) == 0 ||
        job.values[argument].size() != launch.kernel->parameter_bytes[number])
      fail("launch", 0, "%s: argument %zu, %s, differs in size from the kernel's parameter", name.c_str(), number,
           argument.c_str());
    launch.arguments.push_back(argument);
  }
  if (launch.arguments.size() != launch.kernel->parameter_count)
    fail("launch", 0, "%s takes %zu arguments, not %zu", name.c_str(), launch.kernel->parameter_count,
         launch.arguments.size());
  job.launches.push_back(launch);
}

// Launches take the texture object of an argument in place of its pointer.
inline void read_texture(std::istringstream& line, Job& job) {
  std::string name;
  int kind;
  line >> name >> kind;
  cugen_texture& texture = job.textures.emplace_back();
  line >> texture.bits >> texture.elements;
  texture.kind = static_cast<cudaChannelFormatKind>(kind);
  if (int mode;
      line >> texture.width >> texture.height >> texture.pitch >> mode >> texture.normalized >> texture.linear)
    texture.address = static_cast<cudaTextureAddressMode>(mode);
  memcpy(&texture.data, job.values.at(name).data(), sizeof(texture.data));
  const cudaTextureObject_t object = reinterpret_cast<cudaTextureObject_t>(&texture);
  memcpy(job.values.at(name).data(), &object, sizeof(object));
}

// Launches take tensor maps by value.
inline void read_tensor_map(std::istringstream& line, Job& job) {
  std::string name, argument;
  CUtensorMap map = {};
  line >> name >> argument;
  unsigned numbers[4];  // not characters
  for (unsigned& number : numbers) line >> number;
  map.element_bytes = static_cast<uint8_t>(numbers[0]);
  map.swizzle_bytes = static_cast<uint8_t>(numbers[1]);
  map.rounds_to_tf32 = static_cast<uint8_t>(numbers[2]);
  map.rank = static_cast<uint8_t>(numbers[3]);
  map.strides[0] = map.element_bytes;
  for (uint32_t i = 0; i < map.rank; ++i) line >> map.sizes[i];
  for (uint32_t i = 1; i < map.rank; ++i) line >> map.strides[i];
  for (uint32_t i = 0; i < map.rank; ++i) line >> map.box[i];
  unsigned is_im2col = 0;
  line >> is_im2col;
  map.is_im2col = static_cast<uint8_t>(is_im2col);
  const uint32_t dimensions = is_im2col ? map.rank - 2 : 0;
  for (uint32_t i = 0; i < dimensions; ++i) line >> map.lower[i];
  for (uint32_t i = 0; i < dimensions; ++i) line >> map.upper[i];
  for (uint32_t i = 0; i < dimensions; ++i) {
    unsigned step;
    line >> step;
    map.steps[i] = static_cast<uint8_t>(step);
  }
  memcpy(&map.address, job.values.at(argument).data(), sizeof(map.address));
  Bytes& value = job.values[name];
  value.resize(sizeof(map));
  memcpy(value.data(), &map, sizeof(map));
}

inline Job read_job(const std::string& folder, size_t load_offset) {
  Job job;
  std::ifstream file(folder + "/job.txt");
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string item;
    line >> item;
    if (item == "buffer") {
      read_buffer(folder, line, job);
    } else if (item == "value") {
      read_value(line, job);
    } else if (item == "launch") {
      read_launch(line, job);
    } else if (item == "upload") {
      Upload upload;
      line >> upload.symbol >> upload.argument >> upload.bytes;
      job.uploads.push_back(upload);
    } else if (item == "texture") {
      read_texture(line, job);
    } else if (item == "tensor_map") {
      read_tensor_map(line, job);
    } else if (item == "shared" || item == "thread_local") {
      const bool is_static = item == "shared";
      SharedArray array;
      size_t address;
      line >> array.name >> address >> array.bytes;
      array.start = reinterpret_cast<char*>(is_static ? address + load_offset : address);
      (is_static ? shared_arrays : thread_local_arrays).push_back(array);
    } else if (item == "repeat") {
      line >> job.repeat;
    } else if (item == "workers") {
      line >> job.workers;
    } else if (item == "shuffle") {
      job.shuffled = true;
      line >> job.seed;
    } else if (item == "trace") {
      job.trace = true;
    } else if (item == "uninitialised") {
      job.uninitialised = true;
    }
  }
  return job;
}

}  // namespace cugen
