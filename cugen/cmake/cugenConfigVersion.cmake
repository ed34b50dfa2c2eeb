# Semantic versioning: same major version, before 1.0 also the same minor version.
file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/../version.py" _cugen_line REGEX "^__version__ = ")
string(REGEX REPLACE ".*\"(.*)\".*" "\\1" PACKAGE_VERSION "${_cugen_line}")
unset(_cugen_line)

set(PACKAGE_VERSION_COMPATIBLE FALSE)
set(PACKAGE_VERSION_EXACT FALSE)
string(REGEX MATCH "^[0-9]+(\\.[0-9]+)?" _cugen_series "${PACKAGE_VERSION}")
if(PACKAGE_VERSION VERSION_GREATER_EQUAL 1.0)
  string(REGEX MATCH "^[0-9]+" _cugen_series "${PACKAGE_VERSION}")
endif()
if(PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
elseif(PACKAGE_VERSION VERSION_GREATER PACKAGE_FIND_VERSION
       AND "${PACKAGE_FIND_VERSION}." MATCHES "^${_cugen_series}\\.")
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
unset(_cugen_series)
