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
