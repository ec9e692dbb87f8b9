#pragma once

#include <span>
#include <vector>

#include "laconic/collective/switching.h"
#include "laconic/optim/config.h"

namespace laconic::inline optim {

// Which path the mean of each bucket takes, the same on all ranks: never slower than the fastest,
// but for the time it takes to find out.
//
// Before the first coded step all paths are measured on short vectors (a probe); those that may be
// the fastest are then tried in some steps; all buckets keep what was fastest in all, but for those
// that are clearly faster otherwise. From then on the time of the steps is watched: when it changes
// for good, so did the network, and all of this happens again. With `strict` the probe alone
// decides, once.
class Choice {
 public:
  // `paths`: those of each mean. `flat` is null where none of them is. `means`: those of the buckets
  // that choose. The caller keeps all of it alive.
  Choice(const OptimizerConfig& config, std::span<const Path> paths, const Nodes& nodes,
         const Nodes* flat, Device& device, std::vector<SwitchingMean*> means);

  // Collective, at the begin of a coded step: sets the path of every mean.
  void decide();
  // "int4", "dense in 3 of 16 buckets, coded in 13 of 16 buckets".
  const std::string& describe() const noexcept { return described_; }

 private:
  using Seconds = std::vector<double>;  // of each bucket

  void look();
  void probe();
  void try_next();
  void settle();
  void watch();
  double time(const Path& path, std::size_t elements);
  void use(const std::vector<std::size_t>& chosen);
  // In all buckets.
  void use_everywhere(std::size_t path) { use(std::vector<std::size_t>(means_.size(), path)); }
  // The most over ranks of each bucket's median since the last call.
  Seconds measured();

  const OptimizerConfig& config_;
  const std::span<const Path> paths_;  // the first is the configured one
  const Nodes& nodes_;
  const Nodes* flat_;
  Device& device_;
  const std::vector<SwitchingMean*> means_;

  std::vector<std::size_t> chosen_;  // of each bucket, as all that follows: an index into paths_
  std::vector<std::pair<std::size_t, Seconds>> tried_;
  std::vector<std::size_t> to_try_;
  std::vector<std::vector<double>> taken_;  // seconds of the last steps, of each bucket
  int steps_ = 0;                           // since something was decided
  int window_ = 0;                          // steps that are looked at together
  double level_ = 0;  // seconds of all buckets as they were decided; 0: none yet
  bool probed_ = false, off_level_ = false;
  std::string described_;
};

}  // namespace laconic::inline optim
