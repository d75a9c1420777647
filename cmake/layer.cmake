# feedrace_layer(NAME [NO_TESTS] [USES layer...] [LINKS target...] [TEST_LINKS target...]) declares one
# folder of src/feedrace.
#
# The folder's *.cc become the library feedrace_NAME; *_test.cc become feedrace_NAME_test (run by
# ctest), *_bench.cc feedrace_NAME_bench, and each *_fuzz.cc a program of its own. Sources are found
# by GLOB on purpose: a list kept by hand is how tests get lost. A layer links only the layers that
# it names, so an include that the architecture forbids does not link either.
function(feedrace_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 layer "NO_TESTS" "" "USES;LINKS;TEST_LINKS")
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/${name})
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cc)
  file(GLOB tests CONFIGURE_DEPENDS ${folder}/*_test.cc)
  file(GLOB benches CONFIGURE_DEPENDS ${folder}/*_bench.cc)
  file(GLOB fuzzers CONFIGURE_DEPENDS ${folder}/*_fuzz.cc)
  list(
    REMOVE_ITEM sources
    ${tests}
    ${benches}
    ${fuzzers}
    ${folder}/main.cc
    ${folder}/replay_main.cc
  )

  set(target feedrace_${name})
  add_library(${target} STATIC ${sources})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(
    ${target}
    PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
  )
  list(TRANSFORM layer_USES PREPEND feedrace_ OUTPUT_VARIABLE used)
  target_link_libraries(${target} PUBLIC ${used} PRIVATE ${layer_LINKS} feedrace_flags)
  set_property(GLOBAL APPEND PROPERTY FEEDRACE_LAYERS ${target})

  if(NOT TARGET feedrace_cuda_plugin) # Their stubs need headers of NVIDIA's.
    list(FILTER tests EXCLUDE REGEX "/device_[a-z_]*_test\\.cc$")
  endif()
  if(FEEDRACE_TESTS AND tests AND NOT layer_NO_TESTS)
    add_executable(${target}_test ${tests})
    target_link_libraries(
      ${target}_test
      PRIVATE
        ${target}
        feedrace_testing
        ${layer_LINKS}
        ${layer_TEST_LINKS}
        feedrace_flags
        GTest::gmock_main
    )
    target_compile_definitions(
      ${target}_test
      PRIVATE FEEDRACE_TEST_DATA="${PROJECT_SOURCE_DIR}/tests"
    )
    # Test code is compiled more often than it runs: optimising it costs more than it saves. Under a
    # sanitizer it doubles the time, and g++ 12 then warns of what is not there.
    if(FEEDRACE_SANITIZE)
      target_compile_options(${target}_test PRIVATE -O0)
    else()
      target_compile_options(${target}_test PRIVATE -O1)
    endif()
    # A pipeline's typical failure is a hang, so every test has a time limit; sanitizers take long.
    if(FEEDRACE_SANITIZE)
      set(limit_seconds 300)
    else()
      set(limit_seconds 120)
    endif()
    gtest_discover_tests(
      ${target}_test
      DISCOVERY_TIMEOUT 60
      PROPERTIES TIMEOUT ${limit_seconds} LABELS ${name}
    )
  endif()

  if(FEEDRACE_BENCHMARKS AND benches)
    add_executable(${target}_bench ${benches})
    target_link_libraries(
      ${target}_bench
      PRIVATE ${target} feedrace_testing ${layer_LINKS} feedrace_flags benchmark::benchmark_main
    )
  endif()

  foreach(fuzzer IN LISTS fuzzers)
    cmake_path(GET fuzzer STEM fuzz_name)
    feedrace_fuzzer(${fuzz_name} ${fuzzer} ${target} ${layer_LINKS})
  endforeach()
endfunction()

# A fuzz target: with libFuzzer under the preset `fuzz`, otherwise with a small main that replays
# the corpus in tests/corpus/NAME, so that targets and found inputs never rot.
function(feedrace_fuzzer name source)
  if(NOT (FEEDRACE_TESTS OR FEEDRACE_FUZZ))
    return()
  endif()
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE ${ARGN} feedrace_flags)
  if(FEEDRACE_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src/feedrace/testing/replay_main.cc)
    target_link_libraries(${name} PRIVATE feedrace_testing)
    add_test(NAME replay.${name} COMMAND ${name} ${PROJECT_SOURCE_DIR}/tests/corpus/${name})
    set_tests_properties(replay.${name} PROPERTIES TIMEOUT 300 LABELS fuzz)
  endif()
endfunction()
