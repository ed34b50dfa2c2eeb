# find_package(cugen CONFIG) for CMake 3.21 and newer: the functions of cugenFunctions.cmake, and the choice of the device.
# It may enable CUDA, so that it must be called in a CMakeLists.txt, not in a function.

if(CMAKE_VERSION VERSION_LESS 3.21)
  set(cugen_FOUND FALSE)
  set(cugen_NOT_FOUND_MESSAGE "cugen needs CMake 3.21 or newer")
  return()
endif()

# The program is at a fixed path relative to an installed package, and on the PATH for a checkout. A cached path that no
# longer exists, such as one in pip's isolated build environment, is searched for again.
if(CUGEN_EXECUTABLE AND NOT EXISTS "${CUGEN_EXECUTABLE}")
  unset(CUGEN_EXECUTABLE CACHE)
endif()
find_program(CUGEN_EXECUTABLE cugen
  HINTS "${CMAKE_CURRENT_LIST_DIR}/../../../../../bin" "${CMAKE_CURRENT_LIST_DIR}/../../../../Scripts"
  DOC "The command line of cugen")
if(NOT CUGEN_EXECUTABLE)
  set(cugen_FOUND FALSE)
  set(cugen_NOT_FOUND_MESSAGE "the program `cugen` is not on the PATH; give -DCUGEN_EXECUTABLE=…")
  return()
endif()

if(DEFINED ENV{CUGEN_DEVICE})
  set(_cugen_default "$ENV{CUGEN_DEVICE}")
else()
  set(_cugen_default "auto")
endif()
set(CUGEN_DEVICE "${_cugen_default}" CACHE STRING "What kernels are built for: gpu, cpu, or auto (gpu where a CUDA compiler is)")
unset(_cugen_default)
set_property(CACHE CUGEN_DEVICE PROPERTY STRINGS auto gpu cpu)
if(NOT CUGEN_DEVICE MATCHES "^(auto|gpu|cpu)$")
  message(FATAL_ERROR "CUGEN_DEVICE is `${CUGEN_DEVICE}`; it may be auto, gpu or cpu")
endif()
if(CUGEN_DEVICE STREQUAL "auto")
  include(CheckLanguage)
  check_language(CUDA)
endif()
if(CUGEN_DEVICE STREQUAL "gpu" OR (CUGEN_DEVICE STREQUAL "auto" AND CMAKE_CUDA_COMPILER))
  set(cugen_DEVICE gpu)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90)
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
else()
  set(cugen_DEVICE cpu)
endif()
if(NOT cugen_FIND_QUIETLY)
  message(STATUS "cugen: kernels are built for the ${cugen_DEVICE} (CUGEN_DEVICE=${CUGEN_DEVICE})")
endif()

include("${CMAKE_CURRENT_LIST_DIR}/cugenFunctions.cmake")
