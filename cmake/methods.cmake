# Writes the registry's list from LACONIC_METHODS.
set(LACONIC_GENERATED ${CMAKE_CURRENT_BINARY_DIR}/generated)
set(LACONIC_METHOD_SOURCES)
set(declarations "")
set(calls "")
foreach(method ${LACONIC_METHODS})
  list(APPEND LACONIC_METHOD_SOURCES laconic/optim/methods/${method}.cc)
  string(APPEND declarations "Method ${method}_method();\n")
  list(APPEND calls "${method}_method()")
endforeach()
list(JOIN calls ", " calls)
file(CONFIGURE OUTPUT ${LACONIC_GENERATED}/laconic/optim/built_in_methods.h @ONLY CONTENT
"#pragma once

// Written by cmake/methods.cmake.
#include <deque>

#include \"laconic/optim/method.h\"

namespace laconic::inline optim {

@declarations@
inline std::deque<Method> built_in_methods() { return {@calls@}; }

}  // namespace laconic::inline optim
")
