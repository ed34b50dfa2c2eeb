// Substitute for the toolkit's header.
#pragma once

#include "cugen_cpu.h"

#include "cugen_cpu/half.h"
