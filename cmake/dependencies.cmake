# Every library that Feedrace stands on, each with its reason. All come from Debian
# (dev/apt-packages.txt names the packages); nothing is downloaded while building.
include(GNUInstallDirs)
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

# Pixels: the reference JPEG decoder (islow + fancy upsampling), PNG, WebP.
find_package(JPEG REQUIRED)
pkg_check_modules(SPNG REQUIRED IMPORTED_TARGET spng)
pkg_check_modules(WEBP REQUIRED IMPORTED_TARGET libwebp)
# SIMD with run-time dispatch.
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
# The kernel's ring interface, without hand-written barriers.
pkg_check_modules(URING REQUIRED IMPORTED_TARGET liburing)
# Messages, JSON (index metadata, labels, --json), content hashes.
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
# The command line.
find_package(CLI11 REQUIRED)

if(FEEDRACE_TESTS)
  find_package(GTest REQUIRED)
endif()
if(FEEDRACE_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()
