# Rules for GNU make 4.3 and newer:
#
#   include $(shell cugen config --makefile)
#   $(eval $(call cugen_kernels,NAME,SPECS,OPTIONS))
#
# generates the kernels of the specs in $(CUGEN_OUT)/NAME and sets NAME_objects (to link), NAME_headers (order-only
# prerequisites of their users) and NAME_flags (compiler flags of their users). OPTIONS are those of `cugen generate`.
# CUGEN_DEVICE is gpu or cpu; by default gpu if nvcc is on the PATH.

ifeq ($(filter grouped-target,$(.FEATURES)),)
$(error cugen.mk needs GNU make 4.3 or newer)
endif

# The rules here are no default goal.
cugen_goal := $(.DEFAULT_GOAL)

CUGEN ?= cugen
CUGEN_OUT ?= build
CUGEN_DEVICE ?= $(if $(shell command -v nvcc),gpu,cpu)
CUGEN_NVCCFLAGS ?= -O3 -arch=sm_90
CUGEN_CXXFLAGS ?= -O2

ifeq ($(CUGEN_DEVICE),cpu)
cugen_config := $(shell $(CUGEN) config --runtime --cxxflags)
cugen_runtime := $(CUGEN_OUT)/cugen_cpu.o
cugen_flags := $(wordlist 2,$(words $(cugen_config)),$(cugen_config))
# Linker of programs with kernels, and compiler of sources that launch them.
CUGEN_LINK = $(CXX) -pthread
CUGEN_CXX = $(CXX)
$(cugen_runtime): $(firstword $(cugen_config))
	@mkdir -p $(@D)
	$(CXX) $(CUGEN_CXXFLAGS) $(cugen_flags) -c $< -o $@
cugen_compile_options = $(CXX) $(CUGEN_CXXFLAGS) $(cugen_flags)
else
cugen_runtime :=
cugen_flags := -std=c++17
cugen_compile_options = nvcc $(CUGEN_NVCCFLAGS)
CUGEN_LINK = nvcc
CUGEN_CXX = nvcc
endif

# The generated files of a spec; for an invalid spec default names, so that the rule below reports the error.
# $(1) folder, $(2) spec, $(3) options
cugen_files = $(or $(shell $(CUGEN) generate --list -o $(1) $(3) $(2) 2>/dev/null),\
	$(addprefix $(1)/$(basename $(notdir $(2))),.cu .h .json .hpp))

# Updates a file of the options, of which the device and the compiler's are a part, when they have changed or an output
# is missing: Make may check another output of the grouped rule first.
# $(1) file, $(2) options, $(3) files
cugen_options_file = $(shell mkdir -p $(dir $(1)); \
	$(if $(filter-out $(wildcard $(3)),$(3)),false,$(call cugen_options_text,$(2)) | cmp -s - $(1)) || \
	$(call cugen_options_text,$(2)) > $(1))
cugen_options_text = printf '%s\n' '$(subst ','\'',$(strip $(1) ($(CUGEN_DEVICE): $(cugen_compile_options))))'

# Gives each dependency an empty rule, so that a deleted one is no error.
# $(1) depfile
cugen_empty_rules = @sed -n 's/^  \(.*[^\\ ]\)\( \\\)*$$$$/\1:/p' $(1) > $(1).rules && cat $(1).rules >> $(1) && rm $(1).rules

# Files are always written, for their modification times.
# $(1) name, $(2) spec, $(3) options, $(4) the folder and the spec's stem, $(5) files
define cugen_spec
$(call cugen_options_file,$(4).options,$(3),$(5))
$(5) &: $(2) $(4).options $(wildcard $(dir $(2))cugen.lock) | $(CUGEN_OUT)/$(1)/cugen_launch.hpp
	$(CUGEN) generate --gnu --quiet --write always --depfile $(4).d -o $(CUGEN_OUT)/$(1) $(3) $(2)
	$(call cugen_empty_rules,$(4).d)
-include $(4).d
$(1)_headers += $(filter %.h %.hpp,$(5))
$(1)_objects += $(patsubst %.cu,%.$(CUGEN_DEVICE).o,$(filter %.cu,$(5)))
$(foreach source,$(filter %.cu,$(5)),$(call cugen_compile_$(CUGEN_DEVICE),$(basename $(source)),$(1)))
endef

# $(1) path of the kernel without a suffix, $(2) name
define cugen_compile_cpu

$(1)_cpu.cpp: $(1).cu
	$(CUGEN) cpu --quiet --write always $(1).cu
$(1).cpu.o: $(1)_cpu.cpp $(1).cu $(1).h $(dir $(1))cugen_launch.hpp
	$(CXX) $(CUGEN_CXXFLAGS) $(cugen_flags) -c $(1)_cpu.cpp -o $(1).cpu.o
endef

define cugen_compile_gpu

$(1).gpu.o: $(1).cu $(1).h
	nvcc $(cugen_flags) $(CUGEN_NVCCFLAGS) -c $(1).cu -o $(1).gpu.o
endef

# $(1) name, $(2) specs, $(3) options
define cugen_kernels
cugen_goal := $$(.DEFAULT_GOAL)
$(CUGEN_OUT)/$(1)/cugen_launch.hpp:
	$(CUGEN) generate --gnu --quiet --emit launch --write always --depfile $(CUGEN_OUT)/$(1)/cugen_launch.d -o $$(@D)
	$(call cugen_empty_rules,$(CUGEN_OUT)/$(1)/cugen_launch.d)
-include $(CUGEN_OUT)/$(1)/cugen_launch.d
$(1)_headers := $(CUGEN_OUT)/$(1)/cugen_launch.hpp
$(1)_objects := $(cugen_runtime)
$(1)_flags := -I$(CUGEN_OUT)/$(1) $(cugen_flags)
$(foreach spec,$(2),$(call cugen_spec,$(1),$(spec),$(3),$(CUGEN_OUT)/$(1)/$(basename $(notdir $(spec))),$(call cugen_files,$(CUGEN_OUT)/$(1),$(spec),$(3)))
)
.DEFAULT_GOAL := $$(cugen_goal)
endef

.DEFAULT_GOAL := $(cugen_goal)
