#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/mpi.h"
#include "app/timing.h"
#include "app/units.h"
#include "laconic/collective/mean.h"
#include "laconic/core/buffer.h"
#include "laconic/transport/metered.h"

namespace laconic::app::commands {

struct MeanOptions {
  std::string kind = "one-bit", codec = "sign", codec_down, form = "two-round",
              transport = "threads", emulate, wire = "fp32";
  std::size_t elements = std::size_t{4} << 20, scale_block = 4096;
  int ranks = 2, ranks_per_node = 0, repeats = 7, threads = 0;
  bool sweep = false, json = false;
};

// One rank of `bench mean`: makes the mean that the options ask for, checks it and times it.
// Construction and run are collective.
class MeanRank {
 public:
  // `network` and `mpi` may be null.
  MeanRank(const MeanOptions& options, Transport& engine, std::shared_ptr<Network> network,
           MpiSession* mpi);

  // A row of the benchmark's JSON. `limit_rate`: bytes per second of the emulated link, or null.
  nlohmann::json run(const double* limit_rate);

 private:
  struct PerRun {
    std::uint64_t bytes, inside, between, rounds;
  };

  void reset();
  bool verify();
  bool rounds_to_bf16() const;
  bool exact() const;
  bool counted() const;
  bool lawful();
  PerRun per_run(const Traffic& before, int runs);
  nlohmann::json row(bool verified, const Sample& took, const std::vector<double>& theirs,
                     const PerRun& sent, const double* limit_rate) const;

  const MeanOptions& options_;
  Transport& engine_;
  MpiSession* mpi_;
  std::string codec_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Transport> emulated_, metered_;
  Traffic traffic_;
  Nodes nodes_;
  std::unique_ptr<Mean> mean_;
  Buffer<float> values_, work_;
};

}  // namespace laconic::app::commands
