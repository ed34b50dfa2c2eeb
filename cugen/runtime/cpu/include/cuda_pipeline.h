// Substitute for the toolkit's header; its functions are in cugen_cpu/memory.h.
#pragma once
