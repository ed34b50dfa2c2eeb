# cmake -DCUGEN=… -DSPEC=… -DOPTIONS=… -DCHECK=warn|error -DSTAMP=… -P cugenCheck.cmake: one step of a build.
execute_process(COMMAND "${CUGEN}" check --gnu --quiet ${OPTIONS} "${SPEC}" RESULT_VARIABLE status)
# Status 1 says that a limit is passed; any other that there is no answer.
if(NOT status EQUAL 0 AND NOT (status EQUAL 1 AND CHECK STREQUAL "warn"))
  message(FATAL_ERROR "cugen: ${SPEC} passes a limit of its check, or could not be checked")
endif()
file(TOUCH "${STAMP}")
