// Writes an event file into the folder it is given, for a reader of another kind.
#include <cmath>
#include <limits>

#include "app/report/tensorboard.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  laconic::app::report::EventFile file(argv[1]);
  for (int step = 1; step <= 300; ++step)
    file.append(step, {{"loss/training", 1.0 / step}, {"lr", 0.5}});
  file.append(std::int64_t{1} << 40, {{"loss/validation", -2.25}});
  file.append(301, {{"loss/training", std::numeric_limits<double>::quiet_NaN()}});
  file.close();
}
