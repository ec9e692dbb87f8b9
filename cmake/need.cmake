# laconic_need(package debian_package [version]): notes a package that is missing.
# laconic_need_header(header debian_package): the same for one without a CMake package.
# laconic_have_all(): ends with one line to type for all that are.
set(LACONIC_MISSING "")
set(LACONIC_MISSING_PACKAGES "")

macro(laconic_need package debian_package)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    string(JOIN " " missing ${package} ${ARGN})
    list(APPEND LACONIC_MISSING ${missing})
    list(APPEND LACONIC_MISSING_PACKAGES ${debian_package})
  endif()
endmacro()

macro(laconic_need_header header debian_package)
  find_path(LACONIC_HAS_${debian_package} ${header})
  mark_as_advanced(LACONIC_HAS_${debian_package})
  if(NOT LACONIC_HAS_${debian_package})
    list(APPEND LACONIC_MISSING ${header})
    list(APPEND LACONIC_MISSING_PACKAGES ${debian_package})
  endif()
endmacro()

macro(laconic_have_all)
  if(LACONIC_MISSING)
    list(JOIN LACONIC_MISSING ", " missing)
    list(JOIN LACONIC_MISSING_PACKAGES " " packages)
    message(FATAL_ERROR "not found: ${missing}. Install it, on Debian and Ubuntu with\n"
      "  apt-get install -y ${packages}\n"
      "(all that the library needs: libhwy-dev libfmt-dev libxxhash-dev nlohmann-json3-dev)")
  endif()
endmacro()
