# Every library that Feedrace stands on, each with its reason. All come from Debian
# (dev/apt-packages.txt names the packages); nothing is downloaded while building.
include(GNUInstallDirs)
find_package(Threads REQUIRED)

# feedrace_need(DEBIAN-PACKAGE [PKG-CONFIG-NAME PREFIX | CMAKE-NAME]) finds a library. What is missing
# is remembered, so that one message names all of it.
set(missing)
macro(feedrace_need package name)
  if(${ARGC} GREATER 2)
    pkg_check_modules(${ARGV2} QUIET IMPORTED_TARGET ${name})
    set(is_there ${${ARGV2}_FOUND})
  else()
    find_package(${name} QUIET)
    set(is_there ${${name}_FOUND})
  endif()
  if(NOT is_there)
    list(APPEND missing ${package})
  endif()
endmacro()

feedrace_need(pkg-config PkgConfig)
# Pixels: the reference JPEG decoder (islow + fancy upsampling), PNG, WebP.
feedrace_need(libjpeg62-turbo-dev JPEG)
feedrace_need(libspng-dev spng SPNG)
feedrace_need(libwebp-dev libwebp WEBP)
# Decoded pictures, squeezed without loss: fast to unpack, or smaller.
feedrace_need(liblz4-dev liblz4 LZ4)
feedrace_need(libzstd-dev libzstd ZSTD)
# SIMD with run-time dispatch.
feedrace_need(libhwy-dev libhwy HWY)
# The kernel's ring interface, without hand-written barriers.
feedrace_need(liburing-dev liburing URING)
# Messages, JSON (index metadata, labels, --json), content hashes.
feedrace_need(libfmt-dev fmt)
feedrace_need(nlohmann-json3-dev nlohmann_json)
feedrace_need(libxxhash-dev libxxhash XXHASH)
# Indexes of Megatron Energon, which feedrace index --import reads; the program alone links it.
feedrace_need(libsqlite3-dev sqlite3 SQLITE)
# The command line.
feedrace_need(libcli11-dev CLI11)

if(FEEDRACE_TESTS)
  feedrace_need(libgtest-dev GTest)
endif()
if(FEEDRACE_BENCHMARKS)
  feedrace_need(libbenchmark-dev benchmark)
endif()

if(missing)
  list(JOIN missing " " missing)
  message(
    FATAL_ERROR
    "Feedrace: libraries are missing; on Debian and Ubuntu: apt-get install ${missing}"
  )
endif()
