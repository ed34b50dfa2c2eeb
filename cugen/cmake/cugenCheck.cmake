# cmake -DCUGEN=… -DSPEC=… -DOPTIONS=… -DCHECK=warn|error -DSTAMP=… -P cugenCheck.cmake: one step of a build.
execute_process(COMMAND "${CUGEN}" check --gnu --quiet ${OPTIONS} "${SPEC}" RESULT_VARIABLE status)
# Status 1: a limit is exceeded. Others: the check failed to run.
if(NOT status EQUAL 0 AND NOT (status EQUAL 1 AND CHECK STREQUAL "warn"))
  message(FATAL_ERROR "cugen: ${SPEC} exceeds a limit of its check, or could not be checked")
endif()
file(TOUCH "${STAMP}")
