// Substitute for the toolkit's header; its types are in cugen_cpu/tensor_map.h.
#pragma once

#include "cugen_cpu/tensor_map.h"
