#pragma once

#include "app/training/evaluation.h"
#include "app/training/trainer.h"

namespace laconic::app::training {

// What a run has done so far, over all its resumes.
struct Done {
  std::uint64_t bytes = 0, bytes_inside = 0;
  std::int64_t dense = 0, coded = 0, silent = 0, skipped = 0;
  double seconds = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Done, bytes, bytes_inside, dense, coded, silent, skipped,
                                   seconds)

struct Finished {
  const Done& done;
  Quality quality;  // of all validation data
  std::uint64_t parameters = 0;
  int ranks = 1;
  std::uint64_t weights_hash = 0;
  std::string describe;
};

// The contents of summary.json (docs/reference/metrics.md).
nlohmann::json summary(const Training& run, const Finished& finished);

}  // namespace laconic::app::training
