# What `cmake --install` leaves for other programs: one shared library made of all layers but tools,
# exchange and testing, the public headers, and a package that find_package(feedrace) finds.
include(CMakePackageConfigHelpers)

get_property(layers GLOBAL PROPERTY FEEDRACE_LAYERS)
list(REMOVE_ITEM layers feedrace_tools feedrace_exchange feedrace_testing)

# All objects of the layers, since nothing in the library itself calls what it offers. The archives
# follow for the libraries that they need; their own members are there already.
list(TRANSFORM layers REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
add_library(feedrace SHARED ${objects})
add_library(feedrace::feedrace ALIAS feedrace)
set_target_properties(
  feedrace
  PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINKER_LANGUAGE CXX
)
target_link_libraries(feedrace PRIVATE ${layers} feedrace_flags)
target_compile_features(feedrace INTERFACE cxx_std_20)
target_include_directories(
  feedrace
  INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
)

# What users install, without tests and benchmarks.
add_custom_target(program)
add_dependencies(program feedrace)
if(TARGET feedrace_cli)
  add_dependencies(program feedrace_cli)
  install(TARGETS feedrace_cli RUNTIME)
endif()

# Not linked, but opened: it comes along where it is built.
if(TARGET feedrace_cuda_plugin)
  add_dependencies(program feedrace_cuda_plugin)
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/feedrace)
install(TARGETS feedrace EXPORT feedraceTargets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/feedrace TYPE INCLUDE FILES_MATCHING PATTERN "*.h")
install(EXPORT feedraceTargets NAMESPACE feedrace:: DESTINATION ${package_dir})
configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/feedrace-config.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/feedraceConfig.cmake
  INSTALL_DESTINATION ${package_dir}
)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(
  ${CMAKE_CURRENT_BINARY_DIR}/feedraceConfigVersion.cmake
  COMPATIBILITY SameMinorVersion
)
install(
  FILES
    ${CMAKE_CURRENT_BINARY_DIR}/feedraceConfig.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/feedraceConfigVersion.cmake
  DESTINATION ${package_dir}
)
