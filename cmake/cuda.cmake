# The CUDA plug-in, libfeedrace_cuda.so, and the stub libraries that its tests put in the place of
# NVIDIA's. It links none of theirs: the headers say what is called, the names are looked up at run
# time. FEEDRACE_CUDA: ON, OFF, or AUTO, which builds it where headers and compiler are found.
set(FEEDRACE_CUDA "AUTO" CACHE STRING "Build the CUDA plug-in: ON, OFF or AUTO")
set(FEEDRACE_CUDA_ROOT "" CACHE PATH "Where include/cuda.h and bin/nvcc are; empty: looked for")
set(
  FEEDRACE_CUDA_ARCHITECTURES
  "sm_80;sm_90;sm_100;sm_120"
  CACHE STRING
  "Devices that the kernels are compiled for; all others get them as compute_80, by the driver"
)
if(NOT FEEDRACE_CUDA)
  return()
endif()

# The wheels of dev/requirements-cuda.txt, or a toolkit.
file(GLOB wheel_roots ${PROJECT_SOURCE_DIR}/.venv/lib/python3.*/site-packages/nvidia/cu13)
set(roots ${FEEDRACE_CUDA_ROOT} ${wheel_roots} /usr/local/cuda)
find_program(FEEDRACE_NVCC nvcc HINTS ${roots} PATH_SUFFIXES bin NO_DEFAULT_PATH)
foreach(
  header
  cuda.h
  nvjpeg.h
  cufile.h
  nvml.h
  nvtx3/nvToolsExt.h
)
  string(MAKE_C_IDENTIFIER ${header} name)
  find_path(FEEDRACE_INCLUDE_${name} ${header} HINTS ${roots} PATH_SUFFIXES include)
  if(NOT FEEDRACE_INCLUDE_${name})
    list(APPEND cuda_missing ${header})
  endif()
  list(APPEND cuda_includes ${FEEDRACE_INCLUDE_${name}})
endforeach()
if(NOT FEEDRACE_NVCC)
  list(APPEND cuda_missing nvcc)
endif()
# An older toolkit lacks functions and devices that are named here; a newer one's plug-in asks for a
# newer driver.
if(FEEDRACE_INCLUDE_cuda_h)
  file(STRINGS ${FEEDRACE_INCLUDE_cuda_h}/cuda.h cuda_version REGEX "^#define CUDA_VERSION ")
  string(REGEX REPLACE "[^0-9]" "" cuda_version "${cuda_version}")
  if(cuda_version LESS 13000)
    list(APPEND cuda_missing "CUDA 13 (${FEEDRACE_INCLUDE_cuda_h}/cuda.h is of ${cuda_version})")
  endif()
endif()
if(cuda_missing)
  list(JOIN cuda_missing " " cuda_missing)
  set(text "CUDA plug-in: ${cuda_missing} not found; run dev/setup cuda, or set FEEDRACE_CUDA_ROOT")
  if(FEEDRACE_CUDA STREQUAL "AUTO")
    message(STATUS "${text}; left out")
    return()
  endif()
  message(FATAL_ERROR "${text}, or FEEDRACE_CUDA=OFF")
endif()
list(REMOVE_DUPLICATES cuda_includes)

set(cuda_folder ${PROJECT_SOURCE_DIR}/src/feedrace/cuda)

# One file with the kernels for all devices, put into the plug-in as it is.
set(targets -gencode arch=compute_80,code=compute_80)
foreach(sm IN LISTS FEEDRACE_CUDA_ARCHITECTURES)
  string(REPLACE "sm_" "compute_" compute ${sm})
  list(APPEND targets -gencode arch=${compute},code=${sm})
endforeach()
set(fatbin ${CMAKE_BINARY_DIR}/cuda/kernels.fatbin)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/cuda)
add_custom_command(
  OUTPUT ${fatbin}
  COMMAND
    ${FEEDRACE_NVCC} --threads 0 -std=c++20 -O3 -fmad=false ${targets} -I${PROJECT_SOURCE_DIR}/src
    -fatbin -o ${fatbin} -MD -MF ${fatbin}.d -MT ${fatbin} ${cuda_folder}/kernels/fused_pass.cu
  DEPENDS ${cuda_folder}/kernels/fused_pass.cu
  DEPFILE ${fatbin}.d
  COMMENT "Compiling CUDA kernels"
  VERBATIM
)
set(embedded ${CMAKE_BINARY_DIR}/cuda/kernels_embedded.cc)
file(
  CONFIGURE
  OUTPUT ${embedded}
  CONTENT
    [[// Made by cmake/cuda.cmake.
asm(".section .rodata\n"
    ".balign 64\n"
    ".global feedrace_cuda_kernels_begin\n"
    ".hidden feedrace_cuda_kernels_begin\n"
    "feedrace_cuda_kernels_begin:\n"
    ".incbin \"@fatbin@\"\n"
    ".global feedrace_cuda_kernels_end\n"
    ".hidden feedrace_cuda_kernels_end\n"
    "feedrace_cuda_kernels_end:\n"
    ".byte 0\n"
    ".previous\n");
]]
  @ONLY
)
set_source_files_properties(${embedded} PROPERTIES OBJECT_DEPENDS ${fatbin})

file(GLOB plugin_sources CONFIGURE_DEPENDS ${cuda_folder}/plugin/*.cc)
add_library(feedrace_cuda_plugin MODULE ${plugin_sources} ${embedded})
set_target_properties(
  feedrace_cuda_plugin
  PROPERTIES
    OUTPUT_NAME feedrace_cuda
    PREFIX lib
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
    LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/cuda_exports.map
)
target_link_options(
  feedrace_cuda_plugin
  PRIVATE -Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/cuda_exports.map
)
list(JOIN FEEDRACE_CUDA_ARCHITECTURES " " architectures)
string(STRIP "${architectures} compute_80" architectures)
target_compile_definitions(
  feedrace_cuda_plugin
  PRIVATE FEEDRACE_VERSION="${PROJECT_VERSION}" FEEDRACE_CUDA_ARCHITECTURES="${architectures}"
)
target_include_directories(
  feedrace_cuda_plugin
  PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
)
target_include_directories(feedrace_cuda_plugin SYSTEM PRIVATE ${cuda_includes})
# fmt by its headers: nothing of ours but the one symbol is visible, and nothing else is needed.
target_link_libraries(
  feedrace_cuda_plugin
  PRIVATE fmt::fmt-header-only nlohmann_json::nlohmann_json feedrace_flags ${CMAKE_DL_LIBS}
)
feedrace_coverage(feedrace_cuda_plugin)
install(TARGETS feedrace_cuda_plugin LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cuda)

if(NOT FEEDRACE_TESTS)
  return()
endif()

# feedrace_cuda_stub(NAME SONAME [LINKS target...]): stubs/NAME_stub.cc as build/stubs/SONAME.
function(feedrace_cuda_stub name soname)
  cmake_parse_arguments(PARSE_ARGV 2 stub "" "" "SOURCES;LINKS")
  add_library(feedrace_${name}_stub SHARED ${cuda_folder}/stubs/${name}_stub.cc ${stub_SOURCES})
  set_target_properties(
    feedrace_${name}_stub
    PROPERTIES
      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/stubs
      LIBRARY_OUTPUT_NAME ${name}_stub
      NO_SONAME ON
      SUFFIX ""
      PREFIX ""
      OUTPUT_NAME ${soname}
      BUILD_RPATH ${CMAKE_BINARY_DIR}/stubs
  )
  set_target_properties(feedrace_${name}_stub PROPERTIES LIBRARY_OUTPUT_NAME ${soname})
  target_link_options(feedrace_${name}_stub PRIVATE -Wl,-soname,${soname})
  target_include_directories(
    feedrace_${name}_stub
    PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
  )
  target_include_directories(feedrace_${name}_stub SYSTEM PRIVATE ${cuda_includes})
  target_link_libraries(feedrace_${name}_stub PRIVATE feedrace_flags ${stub_LINKS})
endfunction()

feedrace_cuda_stub(cuda libcuda.so.1 SOURCES ${cuda_folder}/stubs/fused_pass_host.cc LINKS Threads::Threads)
feedrace_cuda_stub(nvml libnvidia-ml.so.1 LINKS feedrace_cuda_stub)
feedrace_cuda_stub(nvjpeg libnvjpeg.so.13 LINKS feedrace_cuda_stub JPEG::JPEG)
feedrace_cuda_stub(cufile libcufile.so.0 LINKS feedrace_cuda_stub)
feedrace_cuda_stub(nvtx libnvtx_tool.so)
feedrace_cuda_stub(table libtable.so)
# With the headers that kernels share with their host build.
feedrace_coverage(feedrace_cuda_stub)

# The tests start NVIDIA's own cuFile too, which says why it cannot without a GPU.
find_path(
  FEEDRACE_CUFILE_FOLDER
  libcufile.so.0
  HINTS ${FEEDRACE_INCLUDE_cufile_h}/..
  PATH_SUFFIXES lib lib64
  NO_DEFAULT_PATH
)
