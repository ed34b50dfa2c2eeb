// Bytes of memory that holds no value.
#pragma once

namespace cugen {

constexpr unsigned char kPoison = 0xff;       // NaN in every floating-point format
constexpr unsigned char kLargePoison = 0x7e;  // a large number in every floating-point format

}  // namespace cugen
