// A fault that is reported later, or not at all, with the thread and the block that caused it.
#pragma once

#include <stdarg.h>
#include <stdio.h>

#include "report.h"

namespace cugen {

class DeferredFault {
 public:
  // `kind` and `counter` are those of fail_from.
  void set(const char* kind, const void* counter, const char* format, ...) {
    is_set_ = true;
    kind_ = kind;
    counter_ = counter;
    thread_ = threadIdx;
    block_ = blockIdx;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message_, sizeof message_, format, arguments);
    va_end(arguments);
  }

  bool is_set() const { return is_set_; }

  void report() const {
    if (!is_set_) return;
    threadIdx = thread_;
    blockIdx = block_;
    fail_from(kind_, counter_, "%s", message_);
  }

 private:
  bool is_set_ = false;
  const char* kind_ = nullptr;
  const void* counter_ = nullptr;
  uint3 thread_{}, block_{};
  char message_[512];
};

}  // namespace cugen
