# Configures, builds and runs consumer/ from nothing, in `scratch`.
file(REMOVE_RECURSE ${scratch})

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

if(way STREQUAL "installed")
  run(${CMAKE_COMMAND} --install ${build} --prefix ${scratch}/prefix)
  set(where -D CMAKE_PREFIX_PATH=${scratch}/prefix)
else()
  set(where -D LACONIC_SOURCE=${source} -D LACONIC_WITH_MPI=${with_mpi})
endif()

# No build type: compiling is quick, and without debug information ccache knows the objects of the last run.
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${scratch}/build -G ${generator} ${where}
  -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_CXX_COMPILER_LAUNCHER=${launcher}
  -D CONSUMER_WITH_MPI=${with_mpi})
run(${CMAKE_COMMAND} --build ${scratch}/build --parallel 2)
run(${scratch}/build/consumer)
if(with_mpi)
  run(${mpiexec} -n 2 ${scratch}/build/consumer_mpi)
endif()
