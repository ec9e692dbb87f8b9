# What only a build of laconic itself decides, never a project that includes it.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(LACONIC_CCACHE ccache)
mark_as_advanced(LACONIC_CCACHE)
if(LACONIC_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${LACONIC_CCACHE})
endif()

if(LACONIC_SANITIZE)
  add_compile_options(
    -fsanitize=${LACONIC_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${LACONIC_SANITIZE})
  if(LACONIC_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fno-tree-sra)  # g++ 12 fails in this pass (an internal error) on kernels of whole vectors
  endif()
endif()
