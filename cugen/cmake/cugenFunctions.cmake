# Functions of find_package(cugen):
#
#   cugen_generate(OUT_VAR <variable> SPECS <spec>... [TARGET sm_90] [DEFINES <NAME=VALUE>...] [EMIT cu|cubin|embed]
#                  [OUTPUT_DIR <folder>])
#       Writes the kernels of the specs at build time; <variable> is set to the paths of all files.
#
#   cugen_add_library(<name> SPECS <spec>... [TARGET sm_90] [DEFINES <NAME=VALUE>...] [EMIT cu|cubin|embed]
#                     [CHECK warn|error|off])
#       A static library with the launchers of all kernels. CHECK checks the limits of their specs. With EMIT embed it
#       has machine code and launchers on the driver API; with EMIT cubin it is a custom target, whose property
#       CUGEN_FILES lists the files.
#
#   cugen_add_check(NAME <test> SPECS <spec>... GENERATED_DIR <folder> [TARGET sm_90] [DEFINES <NAME=VALUE>...])
#       A CTest test that fails if committed files differ from the generated ones.
#
# Each spec has its own build step: editing one rebuilds only its kernels and their dependents. Each output folder has one
# more, for cugen_launch.hpp, which the headers of all its kernels include.

get_filename_component(_cugen_package "${CMAKE_CURRENT_LIST_DIR}" DIRECTORY)
set(_cugen_cpu "${_cugen_package}/runtime/cpu" CACHE INTERNAL "")
set(_cugen_scripts "${CMAKE_CURRENT_LIST_DIR}" CACHE INTERNAL "")
file(SHA256 "${_cugen_package}/version.py" _cugen_version)
set(_cugen_version "${_cugen_version}" CACHE INTERNAL "")
unset(_cugen_package)

function(cugen_generate)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "OUT_VAR;TARGET;EMIT;OUTPUT_DIR" "SPECS;DEFINES")
  _cugen_require(cugen_generate OUT_VAR SPECS)
  _cugen_common_arguments()
  _cugen_generate_all()
  set(${arg_OUT_VAR} ${files} ${launch_header} PARENT_SCOPE)
endfunction()

function(cugen_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TARGET;EMIT;CHECK;OUTPUT_DIR" "SPECS;DEFINES")
  _cugen_require(cugen_add_library SPECS)
  if(NOT arg_OUTPUT_DIR)
    set(arg_OUTPUT_DIR "${CMAKE_CURRENT_BINARY_DIR}/cugen/${name}")
  endif()
  _cugen_common_arguments()
  if(NOT arg_CHECK)
    set(arg_CHECK off)
  elseif(NOT arg_CHECK MATCHES "^(warn|error|off)$")
    message(FATAL_ERROR "cugen_add_library: CHECK is `${arg_CHECK}`; it may be warn, error or off")
  endif()

  _cugen_generate_all()
  set(sources ${files})
  if(arg_EMIT STREQUAL "cubin")
    add_custom_target(${name} ALL DEPENDS ${files})
    set_target_properties(${name} PROPERTIES CUGEN_FILES "${files}")
  elseif(arg_EMIT STREQUAL "embed")
    find_package(CUDAToolkit REQUIRED)
    # The .c files are valid C++, the language that is enabled for certain.
    list(FILTER files INCLUDE REGEX "_embed\\.c$")
    set_source_files_properties(${files} PROPERTIES LANGUAGE CXX)
    add_library(${name} STATIC ${sources})
    target_include_directories(${name} SYSTEM PUBLIC ${CUDAToolkit_INCLUDE_DIRS})
    # The driver library isn't installed on every build machine.
    target_link_libraries(${name} PUBLIC $<IF:$<TARGET_EXISTS:CUDA::cuda_driver>,CUDA::cuda_driver,cuda>)
    target_compile_features(${name} PUBLIC cxx_std_17)
  elseif(cugen_DEVICE STREQUAL "cpu")
    # The .cu files are included by the _cpu.cpp files.
    list(FILTER sources EXCLUDE REGEX "\\.cu$")
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC cugen::cpu)
    # Semantics of specs: integers wrap, no FMA contraction, pointers may alias.
    target_compile_options(${name} PRIVATE -fwrapv -ffp-contract=off -fno-strict-aliasing -Wno-unknown-pragmas)
  else()
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC CUDA::cudart)
    target_compile_features(${name} PRIVATE cuda_std_17)
    if(arg_TARGET MATCHES "^sm_([0-9]+a?)$")
      set_target_properties(${name} PROPERTIES CUDA_ARCHITECTURES "${CMAKE_MATCH_1}")
    endif()
  endif()
  if(NOT arg_EMIT STREQUAL "cubin")
    target_include_directories(${name} PUBLIC "${arg_OUTPUT_DIR}")
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
  if(NOT arg_CHECK STREQUAL "off")
    _cugen_check_step(${name})
  endif()
endfunction()

function(cugen_add_check)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;GENERATED_DIR;TARGET" "SPECS;DEFINES")
  _cugen_require(cugen_add_check NAME SPECS GENERATED_DIR)
  _cugen_common_arguments()
  cmake_path(ABSOLUTE_PATH arg_GENERATED_DIR BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
  add_test(NAME ${arg_NAME}
    COMMAND "${CUGEN_EXECUTABLE}" generate --check --gnu -o "${arg_GENERATED_DIR}" ${options} ${arg_SPECS})
endfunction()

# Internal. Macros use the caller's variables.

macro(_cugen_require function)
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${function}: `${arg_UNPARSED_ARGUMENTS}` is no argument")
  endif()
  foreach(needed ${ARGN})
    if(NOT DEFINED arg_${needed})
      message(FATAL_ERROR "${function}: ${needed} is missing")
    endif()
  endforeach()
endmacro()

# Makes the paths absolute, and sets `options` to the options of cugen for target and values.
macro(_cugen_common_arguments)
  set(absolute "")
  foreach(spec IN LISTS arg_SPECS)
    cmake_path(ABSOLUTE_PATH spec BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
    list(APPEND absolute "${spec}")
  endforeach()
  set(arg_SPECS ${absolute})
  if(NOT arg_OUTPUT_DIR)
    set(arg_OUTPUT_DIR "${CMAKE_CURRENT_BINARY_DIR}/cugen")
  endif()
  cmake_path(ABSOLUTE_PATH arg_OUTPUT_DIR BASE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}" NORMALIZE)
  if(NOT arg_EMIT)
    set(arg_EMIT cu)
  elseif(NOT arg_EMIT MATCHES "^(cu|cubin|embed)$")
    message(FATAL_ERROR "EMIT is `${arg_EMIT}`; it may be cu, cubin or embed")
  endif()
  set(options "")
  if(arg_TARGET)
    list(APPEND options --target ${arg_TARGET})
  endif()
  foreach(define IN LISTS arg_DEFINES)
    list(APPEND options --set "${define}")
  endforeach()
endmacro()

# Sets `files` to the files of all specs, `launch_header` to the header that they share, and `stems` to a name per spec.
macro(_cugen_generate_all)
  if(cugen_DEVICE STREQUAL "cpu")
    _cugen_cpu_runtime()
  endif()
  set(launch_header "")
  set(launch_target "")
  # For Ninja, unwritten outputs are unchanged (restat) and their dependents pruned; other generators would rerun the step.
  if(CMAKE_GENERATOR MATCHES "Ninja")
    set(write if-changed)
  else()
    set(write always)
  endif()
  if(NOT arg_EMIT STREQUAL "cubin")
    _cugen_launch_header()
  endif()
  set(files "")
  set(stems "")
  foreach(spec IN LISTS arg_SPECS)
    _cugen_generate_one("${spec}")
    list(APPEND files ${outputs})
    list(APPEND stems "${stem}")
  endforeach()
endmacro()

# Sets `launch_header` to the path of cugen_launch.hpp in the output folder, and `launch_target` to the target that owns it:
# one for all calls for the folder, in whatever directory of the project, or steps would race for it.
macro(_cugen_launch_header)
  set(launch_header "${arg_OUTPUT_DIR}/cugen_launch.hpp")
  string(SHA256 folder_key "${arg_OUTPUT_DIR}")
  string(SUBSTRING "${folder_key}" 0 16 folder_key)
  set(launch_target "cugen_launch_${folder_key}")
  if(NOT TARGET ${launch_target})
    add_custom_command(
      OUTPUT "${launch_header}"
      COMMAND "${CUGEN_EXECUTABLE}" generate --gnu --quiet --emit launch --write ${write} -o "${arg_OUTPUT_DIR}"
        --depfile "${arg_OUTPUT_DIR}/cugen_launch.d"
      DEPFILE "${arg_OUTPUT_DIR}/cugen_launch.d"
      COMMENT "cugen: cugen_launch.hpp"
      VERBATIM)
    add_custom_target(${launch_target} DEPENDS "${launch_header}")
  endif()
  # Visible as a source in this directory, too.
  set_source_files_properties("${launch_header}" PROPERTIES GENERATED TRUE)
endmacro()

# Sets `outputs` to the files of one spec, `stem` to its name, and adds the build step. The names are listed by cugen if
# the spec or the options have changed since the last configuration.
macro(_cugen_generate_one spec)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${spec}")
  set(command "${CUGEN_EXECUTABLE}" generate --gnu -o "${arg_OUTPUT_DIR}" ${options} --emit ${arg_EMIT} "${spec}")
  string(SHA256 key "${command}")
  set(state "${_cugen_version}")
  if(EXISTS "${spec}")
    file(SHA256 "${spec}" state)
    string(APPEND state ";${_cugen_version}")
  endif()
  if(NOT "${_cugen_state_${key}}" STREQUAL "${state}")
    execute_process(
      COMMAND ${command} --list
      OUTPUT_VARIABLE listed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_VARIABLE errors RESULT_VARIABLE status)
    if(status EQUAL 0)
      string(REPLACE "\n" ";" listed "${listed}")
      set(_cugen_outputs_${key} "${listed}" CACHE INTERNAL "")
      set(_cugen_state_${key} "${state}" CACHE INTERNAL "")
    elseif(NOT _cugen_outputs_${key})
      # Without a cached list configuration fails; with one the build step will report the error.
      message(NOTICE "${errors}")
      message(FATAL_ERROR "cugen: ${spec} was refused; see the errors above")
    endif()
  endif()
  set(outputs ${_cugen_outputs_${key}})
  # Kernel names are unique, unlike names of specs in different folders.
  list(GET outputs 0 first)
  cmake_path(GET first STEM LAST_ONLY stem)

  # The command is a dependency of the step through a file, since not every generator compares commands.
  set(options_file "${arg_OUTPUT_DIR}/${stem}.options")
  cmake_path(GET spec PARENT_PATH spec_folder)
  set(lock "")
  if(EXISTS "${spec_folder}/cugen.lock")
    set(lock "${spec_folder}/cugen.lock")
  endif()
  file(CONFIGURE OUTPUT "${options_file}" CONTENT "${command};${outputs};${lock}\n" @ONLY)
  set(more "")
  if(cugen_DEVICE STREQUAL "cpu" AND arg_EMIT STREQUAL "cu")
    set(kernels ${outputs})
    list(FILTER kernels INCLUDE REGEX "\\.cu$")
    set(more COMMAND "${CUGEN_EXECUTABLE}" cpu --quiet --write ${write} ${kernels})
    list(TRANSFORM kernels REPLACE "\\.cu$" "_cpu.cpp")
    list(APPEND outputs ${kernels})
  endif()
  # Makefiles compare the time of the first output only and mark the others as new, so that a step that was killed between
  # two files would count as done. But they run a step of which an output is missing, as this one is until its end.
  set(complete "")
  set(begin "")
  if(NOT CMAKE_GENERATOR MATCHES "Ninja")
    set(complete "${arg_OUTPUT_DIR}/${stem}.complete")
    set(begin COMMAND "${CMAKE_COMMAND}" -E rm -f "${complete}")
    list(APPEND more COMMAND "${CMAKE_COMMAND}" -E touch "${complete}")
  endif()
  add_custom_command(
    OUTPUT ${outputs} ${complete}
    ${begin}
    COMMAND ${command} --quiet --write ${write} --depfile "${arg_OUTPUT_DIR}/${stem}.d"
    ${more}
    DEPENDS "${spec}" "${options_file}" ${launch_target}
    DEPFILE "${arg_OUTPUT_DIR}/${stem}.d"
    COMMENT "cugen: ${stem}"
    VERBATIM)
endmacro()

# Checks the limits of the specs before compilation; for several targets, those of the first.
macro(_cugen_check_step name)
  set(stamps "")
  string(REGEX REPLACE "(--target;[^;,]*),[^;]*" "\\1" check_options "${options}")
  foreach(spec stem IN ZIP_LISTS arg_SPECS stems)
    set(stamp "${arg_OUTPUT_DIR}/${stem}.checked")
    add_custom_command(
      OUTPUT "${stamp}"
      COMMAND "${CMAKE_COMMAND}" "-DCUGEN=${CUGEN_EXECUTABLE}" "-DSPEC=${spec}" "-DOPTIONS=${check_options}"
        "-DCHECK=${arg_CHECK}" "-DSTAMP=${stamp}" -P "${_cugen_scripts}/cugenCheck.cmake"
      DEPENDS "${spec}" "${arg_OUTPUT_DIR}/${stem}.json"
      COMMENT "cugen: checking ${stem}"
      VERBATIM)
    list(APPEND stamps "${stamp}")
  endforeach()
  add_custom_target(${name}_check DEPENDS ${stamps})
  add_dependencies(${name} ${name}_check)
endmacro()

# cugen::cpu, the runtime of the CPU device: one library per project, built on demand.
function(_cugen_cpu_runtime)
  if(TARGET cugen_cpu)
    return()
  endif()
  add_library(cugen_cpu STATIC EXCLUDE_FROM_ALL "${_cugen_cpu}/runtime/launch.cpp")
  target_include_directories(cugen_cpu SYSTEM PUBLIC "${_cugen_cpu}/include")
  target_compile_features(cugen_cpu PUBLIC cxx_std_17)
  target_compile_options(cugen_cpu PUBLIC -pthread PRIVATE -O2)
  target_link_options(cugen_cpu PUBLIC -pthread)
  set_target_properties(cugen_cpu PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
  add_library(cugen::cpu ALIAS cugen_cpu)
endfunction()
