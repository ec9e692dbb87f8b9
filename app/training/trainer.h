#pragma once

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "app/data/dataset.h"
#include "app/report/metrics.h"
#include "app/training/run_config.h"
#include "laconic/transport/emulated.h"

// Without torch's headers, so that what starts a training compiles quickly.
namespace laconic::app::training {

// What all ranks of a run share. The signal's number once the run shall stop, else 0.
struct Training {
  RunConfig config;  // resolved
  std::shared_ptr<const data::Dataset> data;
  std::shared_ptr<laconic::Network> network;  // null: not emulated
  const std::atomic<int>* stop = nullptr;
  bool resume = false;          // from the checkpoint in config.out
  std::string command, engine;  // for the record
};

struct Outcome {
  nlohmann::json summary;  // rank 0's; empty on the others
  int stopped_by = 0;      // a signal; a checkpoint was written
};

// A run's first steps, for their times: nothing is validated or written.
struct Rehearsal {
  std::vector<report::StepRecord> steps;  // as this rank saw them, without losses
  int stopped_by = 0;
};

// Takes the steps of run.config. Collective; throws as train().
Rehearsal rehearse(const Training& run, Transport& engine);

// One rank's part of a run, from making the model to writing it down. Collective; call it on the
// thread that plays the rank. Throws Diverged (app/failure.h), and what the library throws.
Outcome train(const Training& run, Transport& engine);

}  // namespace laconic::app::training
