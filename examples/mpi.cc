// As many ranks as mpirun starts: mpirun -n 4 examples/mpi
#include <laconic/transport/mpi.h>

#include "examples/logistic_regression.h"

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  train(*laconic::make_mpi(MPI_COMM_WORLD));
  MPI_Finalize();
}
