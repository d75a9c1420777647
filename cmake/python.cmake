# The native part of the Python package: `_feedrace`, linked from the same layers as the library, so
# nothing is compiled twice. `cmake --install BUILD --component python --prefix SITE-PACKAGES` puts
# the whole package there; scikit-build-core (pyproject.toml) does the same into a wheel.
set(sabi)
if(CMAKE_VERSION VERSION_GREATER_EQUAL 3.26)
  # Older versions of CMake can't find it, so they build for one version of Python.
  set(sabi Development.SABIModule)
endif()
find_package(
  Python
  3.10
  REQUIRED
  COMPONENTS Interpreter Development.Module
  OPTIONAL_COMPONENTS ${sabi}
)
execute_process(
  COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
  OUTPUT_VARIABLE nanobind_ROOT
  OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_QUIET
  RESULT_VARIABLE nanobind_status
)
if(nanobind_status)
  message(
    FATAL_ERROR
    "Python package: ${Python_EXECUTABLE} has no nanobind; "
    "run dev/setup, or configure with -DFEEDRACE_PYTHON=OFF"
  )
endif()
find_package(nanobind CONFIG REQUIRED)

# Without the C++ interface: a Python program has no use for what libfeedrace.so exports.
get_property(layers GLOBAL PROPERTY FEEDRACE_LAYERS)
list(REMOVE_ITEM layers feedrace_tools feedrace_exchange feedrace_diagnose feedrace_testing)

# Optimised as the layers are, not for size: these functions run once a batch.
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/feedrace/python/*.cc)
nanobind_add_module(
  feedrace_python
  STABLE_ABI
  FREE_THREADED
  NB_STATIC
  NB_SUPPRESS_WARNINGS
  NOMINSIZE
  NB_DOMAIN
  feedrace
  ${sources}
)
set_target_properties(
  feedrace_python
  PROPERTIES
    OUTPUT_NAME _feedrace
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python
    VISIBILITY_INLINES_HIDDEN ON
    LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/python_exports.map
)
target_compile_definitions(feedrace_python PRIVATE FEEDRACE_VERSION="${PROJECT_VERSION}")
target_link_libraries(
  feedrace_python
  PRIVATE ${layers} fmt::fmt nlohmann_json::nlohmann_json feedrace_flags
)
# Nothing but the entry point is visible: other packages in the process may carry what we carry.
target_link_options(
  feedrace_python
  PRIVATE -Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/python_exports.map -Wl,--gc-sections
)

# EXCLUDE_FROM_ALL: no business under the prefix that C++ programs are built against.
install(TARGETS feedrace_python LIBRARY DESTINATION feedrace COMPONENT python EXCLUDE_FROM_ALL)
install(
  DIRECTORY ${PROJECT_SOURCE_DIR}/python/feedrace
  DESTINATION .
  COMPONENT python
  EXCLUDE_FROM_ALL
  FILES_MATCHING
  PATTERN "*.py"
  PATTERN "*.pyi"
  PATTERN "py.typed"
  PATTERN "__pycache__" EXCLUDE
)
