// Four ranks as threads of one process: examples/threads
#include <laconic/transport/threads.h>

#include "examples/logistic_regression.h"

int main() { laconic::run_threads(4, train); }
