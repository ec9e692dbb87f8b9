include(CMakePackageConfigHelpers)
include(public_headers)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/laconic)
set(headers ${LACONIC_PUBLIC_HEADERS})
install(TARGETS laconic EXPORT laconic_targets)
if(TARGET laconic_mpi)
  list(APPEND headers ${LACONIC_PUBLIC_MPI_HEADERS})
  install(TARGETS laconic_mpi EXPORT laconic_mpi_targets)
  install(EXPORT laconic_mpi_targets NAMESPACE laconic:: DESTINATION ${package})
endif()
if(TARGET laconic_torch)
  list(APPEND headers ${LACONIC_PUBLIC_TORCH_HEADERS})
  install(TARGETS laconic_torch EXPORT laconic_torch_targets)
  install(EXPORT laconic_torch_targets NAMESPACE laconic:: DESTINATION ${package})
endif()
if(TARGET laconic_command)
  install(TARGETS laconic_command)
endif()

foreach(header IN LISTS headers)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
endforeach()

get_target_property(type laconic TYPE)
set(LACONIC_IS_STATIC FALSE)
if(type STREQUAL "STATIC_LIBRARY")
  set(LACONIC_IS_STATIC TRUE)
endif()
# pkg-config; a static laconic brings the libraries that a shared one links itself.
set(pc_requires libhwy libxxhash)
if(LACONIC_IS_STATIC)
  list(JOIN pc_requires ", " pc_requires)
  set(LACONIC_PC_REQUIRES "fmt, ${pc_requires}")
else()
  set(LACONIC_PC_REQUIRES "fmt")
endif()
# Wherever the files were moved to: the prefix as seen from <libdir>/pkgconfig.
file(RELATIVE_PATH LACONIC_PC_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_LIBDIR BASE_DIRECTORY "\${prefix}" OUTPUT_VARIABLE LACONIC_PC_LIBDIR)
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_INCLUDEDIR BASE_DIRECTORY "\${prefix}" OUTPUT_VARIABLE LACONIC_PC_INCLUDEDIR)
configure_file(cmake/laconic.pc.in ${PROJECT_BINARY_DIR}/cmake/laconic.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cmake/laconic.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
configure_package_config_file(cmake/laconic-config.cmake.in
  ${PROJECT_BINARY_DIR}/cmake/laconic-config.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/cmake/laconic-config-version.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT laconic_targets NAMESPACE laconic:: DESTINATION ${package})
install(FILES
  cmake/Findxxhash.cmake
  ${PROJECT_BINARY_DIR}/cmake/laconic-config.cmake
  ${PROJECT_BINARY_DIR}/cmake/laconic-config-version.cmake
  DESTINATION ${package})
