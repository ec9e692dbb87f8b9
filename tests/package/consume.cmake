# Configures, builds and runs consumer/ from nothing, in `scratch`: against the static package that is installed from `build`,
# or with laconic's sources included as a shared library, and then against what that installs.
file(REMOVE_RECURSE ${scratch})
file(COPY ${CMAKE_CURRENT_LIST_DIR}/consumer DESTINATION ${scratch}/elsewhere)

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# consume(name options...)
function(consume name)
  # No build type: compiling is quick, and without debug information ccache knows the objects of the last run.
  run(${CMAKE_COMMAND} -S ${scratch}/elsewhere/consumer -B ${scratch}/${name} -G ${generator} ${ARGN}
    -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_CXX_COMPILER_LAUNCHER=${launcher}
    -D CONSUMER_WITH_MPI=${with_mpi})
  run(${CMAKE_COMMAND} --build ${scratch}/${name} --parallel 2)
  run(${scratch}/${name}/consumer)
  if(with_mpi)
    run(${mpiexec} -n 2 ${scratch}/${name}/consumer_mpi)
  endif()
endfunction()

# Without CMake: one line with pkg-config.
function(consume_with_pkg_config prefix)
  find_program(pkg_config pkg-config)
  if(NOT pkg_config)
    message(STATUS "pkg-config is not installed: laconic.pc was not tried")
    return()
  endif()
  file(GLOB_RECURSE pc ${prefix}/*/laconic.pc)
  get_filename_component(folder ${pc} DIRECTORY)
  set(ENV{PKG_CONFIG_PATH} ${folder})
  execute_process(COMMAND ${pkg_config} --cflags --libs laconic
    OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  get_filename_component(libraries ${folder} DIRECTORY)
  run(${compiler} ${scratch}/elsewhere/consumer/consumer.cc -o ${scratch}/by_pkg_config ${flags}
    -Wl,-rpath,${libraries})
  run(${scratch}/by_pkg_config)
endfunction()

# Names of ours only, under a name that a program of the next minor version does not take.
function(check_exports prefix)
  file(GLOB_RECURSE library ${prefix}/*/liblaconic.so)
  execute_process(COMMAND objdump -p ${library} OUTPUT_VARIABLE header COMMAND_ERROR_IS_FATAL ANY)
  if(NOT header MATCHES "SONAME +liblaconic[.]so[.]0[.][0-9]+\n")
    message(FATAL_ERROR "${library} has no SONAME with major and minor version:\n${header}")
  endif()
  execute_process(COMMAND nm -DC --defined-only ${library} OUTPUT_VARIABLE names COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE ";" " " names "${names}")
  string(REGEX REPLACE "\n" ";" names "${names}")
  set(foreign)
  foreach(name IN LISTS names)
    if(name MATCHES "laconic::kernels::N_" OR
       NOT (name STREQUAL "" OR name MATCHES "^[0-9a-f]+ . (typeinfo for |typeinfo name for |vtable for )?laconic::"))
      list(APPEND foreign ${name})
    endif()
  endforeach()
  list(LENGTH names all)
  message(STATUS "${all} names are exported")
  if(foreign)
    list(JOIN foreign "\n" foreign)
    message(FATAL_ERROR "names that are not laconic's are exported:\n${foreign}")
  endif()
endfunction()

if(way STREQUAL "installed")
  run(${CMAKE_COMMAND} --install ${build} --prefix ${scratch}/prefix)
else()
  consume(included -D LACONIC_SOURCE=${source} -D LACONIC_WITH_MPI=${with_mpi} -D BUILD_SHARED_LIBS=ON)
  run(${CMAKE_COMMAND} --install ${scratch}/included --prefix ${scratch}/prefix)
  check_exports(${scratch}/prefix)
endif()
consume(build -D CMAKE_PREFIX_PATH=${scratch}/prefix)
consume_with_pkg_config(${scratch}/prefix)
