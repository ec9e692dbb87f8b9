#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/data/dataset.h"
#include "app/models/sizes.h"
#include "laconic/optim/config.h"
#include "laconic/optim/learning_rate.h"

// Everything that defines a run. Keys are the same in a TOML file ([section] key = value), in
// --set section.key=value and in what a run writes down.
namespace laconic::app::training {

struct RunConfig {
  data::DataConfig data;
  models::ModelConfig model;
  // A method, with "-bf16" where its exact means are bf16, and with options of its own:
  // "adamw:codec=int4:feedback=ema". So a comparison can have one method several times.
  std::string arm = OptimizerConfig{}.algorithm;
  OptimizerConfig optimizer;  // total_steps, seed, algorithm and bf16 follow from the rest

  int ranks = 0;                      // 0: 2 threads, or mpirun's world
  std::int64_t steps = 0, batch = 0;  // 0: the model's; batch is a rank's
  int accumulate = 1;                 // backward passes per step
  std::uint32_t seed = 1;
  double lr = 0;                      // 0: tuned for model and optimizer
  int threads = 0;                    // of each rank; 0: cores / ranks, at least 1
  std::string emulate;                // "100mbit,1ms"; empty: no network but the engine's
  std::string init;                   // a model.safetensors: tensors of equal names are taken over
  std::filesystem::path out;          // empty: runs/<task>-<model>-<optimizer>
  std::int64_t checkpoint_every = 0;  // 0: only when stopped
  std::int64_t validate_every = 0;    // 0: a tenth of the steps
  std::int64_t validation_examples = 2000;  // looked at before the end; the end takes all
  double timeout = 300;         // seconds until a rank that sends nothing counts as lost
  std::filesystem::path trace;  // a file for the time line of every step; empty: none
  bool tensorboard = false;
  bool elastic = false;  // a resume may have another number of ranks

  double warmup = 0.05;  // share of the steps
  double least = 0.02;   // the last learning rate, as a share of the peak
  std::string decay = "cosine";
};

using Assignment = std::pair<std::string, std::string>;  // "section.key", value

// Sets one key. Error(kInvalidArgument): an unknown key, with the nearest name; a value that does
// not parse, with what it may be.
void assign(RunConfig& config, const Assignment& assignment);

// The assignments of a TOML file, in its order. Error(kFile), or Error(kInvalidArgument) with file
// and line.
std::vector<Assignment> read_toml(const std::filesystem::path& path);

// "section.key=value". Error(kInvalidArgument) with a right example.
Assignment parse_assignment(const std::string& text);

// Every key that `assign` knows and that is not left open, with its value (of the optimizer: what
// differs from the default).
std::map<std::string, std::string> to_text(const RunConfig& config);

// A key of [run], [schedule], [model] or [data]; those of [optimizer] are the method's options.
struct KeyDescription {
  std::string_view name, allowed, help;
  std::string default_text;  // "unset": it follows from other keys
  bool may_change;           // on resume
};
std::vector<KeyDescription> describe_keys();

// What an arm's folder is called.
std::string folder_name(std::string arm);

// Fills in what was left to the tables, and checks all names and ranges.
RunConfig resolved(RunConfig config);

LearningRate learning_rate(const RunConfig& config);

// Keys that a resumed run must not change: Error(kInvalidArgument) naming key and both values.
void check_resumable(const std::map<std::string, std::string>& saved,
                     const std::map<std::string, std::string>& now);

}  // namespace laconic::app::training
