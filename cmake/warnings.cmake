# One interface target carries the warning and sanitizer flags of our own code. Warnings are errors
# only where FEEDRACE_WERROR is on (presets and CI): a user's newer compiler must not break a build.
add_library(feedrace_flags INTERFACE)
target_compile_features(feedrace_flags INTERFACE cxx_std_20)
# The same bits from every build: a fused multiply-add rounds once where the code says twice.
target_compile_options(feedrace_flags INTERFACE -ffp-contract=off)
target_compile_options(
  feedrace_flags
  INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarms in std::string of GCC 12 at -O3 (GCC bug 105651).
  target_compile_options(feedrace_flags INTERFACE -Wno-restrict)
endif()
if(FEEDRACE_WERROR)
  target_compile_options(feedrace_flags INTERFACE -Werror)
endif()
if(FEEDRACE_SANITIZE)
  target_compile_options(
    feedrace_flags
    INTERFACE -fsanitize=${FEEDRACE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
  )
  target_link_options(feedrace_flags INTERFACE -fsanitize=${FEEDRACE_SANITIZE})
endif()
if(FEEDRACE_FUZZ)
  target_compile_options(feedrace_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# feedrace_coverage(TARGET...): where FEEDRACE_COVERAGE is on, counts the lines of these that run. Not
# optimised, so that each line is one; by atomic additions, because threads run the same ones.
function(feedrace_coverage)
  if(NOT FEEDRACE_COVERAGE)
    return()
  endif()
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE -O0 --coverage -fprofile-update=atomic)
    target_link_options(${target} PUBLIC --coverage)
  endforeach()
endfunction()
