// Stands in for the toolkit's header of this name.
#pragma once

#include "cugen_cpu.h"

#include "cugen_cpu/half.h"
