#include <laconic/transport/mpi.h>

#include <cstdio>

#include "gather.h"

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  {
    const auto transport = laconic::make_mpi(MPI_COMM_WORLD);
    gather_hashes(*transport);
    if (transport->rank() == 0) std::printf("consumer: %d processes agree\n", transport->size());
  }
  MPI_Finalize();
}
