#pragma once

#include <memory>

#include "app/training/trainer.h"

namespace laconic::app::training {

enum class Start : std::uint8_t { kFresh, kOverwrite, kResume };

// Runs trainings one after the other: each rank a thread of this process, or, under mpirun, this
// process one of its ranks. Ctrl-C and SIGTERM ask the run to stop at a step boundary; a second one
// ends the process at once.
class Launcher {
 public:
  // `command`: the command line, for the record. `timeout`: seconds until a silent process of
  // mpirun's counts as lost; threads have that of their run.
  explicit Launcher(std::string command, double timeout = RunConfig{}.timeout);
  ~Launcher();

  // The number of ranks that a run will have; Error(kInvalidArgument) when `wanted` (0: any) is not
  // what mpirun started.
  int ranks(int wanted) const;
  // Whether this process is the one that prints and writes.
  bool speaks() const;

  // Opens the data and trains. Throws what open_dataset and train() throw; Error(kInvalidArgument)
  // when a fresh run finds results in config.out. Under mpirun an error ends all ranks with its
  // exit code.
  Outcome run(RunConfig config, Start start);
  // Takes the steps of config for their times; writes nothing. The folder is looked at, and
  // emptied where `start` permits, as run() would. Throws as run().
  Rehearsal rehearse(RunConfig config, Start start);
  // What the process that speaks passed, on all of them. Collective.
  double of_speaker(double value) const;

 private:
  Training prepared(RunConfig config, Start start) const;
  template <typename Result>
  Result on_ranks(RunConfig config, Start start, Result (*work)(const Training&, Transport&));

  struct Mpi;
  std::string command_;
  std::unique_ptr<Mpi> mpi_;
};

// The config of the run whose checkpoint is in `out`, with `given` on top. Error(kFile) when there
// is none, Error(kInvalidArgument) when `given` would make it another run.
RunConfig resumed_config(const std::filesystem::path& out, const std::vector<Assignment>& given);

}  // namespace laconic::app::training
