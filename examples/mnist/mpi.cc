// As many ranks as mpirun starts: mpirun -n 2 examples/mnist_mpi
#include <laconic/transport/mpi.h>

#include "examples/mnist/train.h"

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  train(*laconic::make_mpi(MPI_COMM_WORLD));
  MPI_Finalize();
}
