#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "laconic/core/parallel.h"
#include "laconic/optim/method.h"
#include "laconic/optim/policy.h"
#include "laconic/transport/emulated.h"

// What a training step costs on a given cluster. Pure functions: nothing is sent or measured here.
// All throw Error(kInvalidArgument), with a right example, for what cannot exist.
namespace laconic::plan {

// Equal nodes. The ranks of a node share one full-duplex network card; inside it each has a link of
// its own.
struct Cluster {
  int nodes = 1, per_node = 1;
  Link inter, intra;
  std::vector<Link> inter_of =
      {};  // of each node where they differ; else empty, and `inter` counts
  int ranks() const noexcept { return nodes * per_node; }
  // The lowest rate and the longest latency between nodes.
  Link slowest() const noexcept;
  // The same where the lowest rate between nodes is this, others in proportion.
  Cluster at_rate(double bytes_per_second) const;
};

// What one rank computes. Buckets are those of an Optimizer: exchanged from the last to the first.
struct Work {
  std::size_t parameters = 0;
  double step_seconds = 0;          // forward and backward, nothing else running
  double backward_share = 2.0 / 3;  // of them
  std::size_t bucket_elements = OptimizerConfig{}.bucket_elements;
  // The share of the backward pass after which a bucket is ready, first exchanged first; empty: in
  // proportion to the elements.
  std::vector<double> ready = {};
  int useful_slices = Transport::kUsefulSlices;  // of the engine: 8 over torch.distributed
  bool shares_cores = false;  // coding takes turns with the backward pass on the same cores
  // Stragglers: the standard deviation of step_seconds as a share of it, drawn anew for each rank and
  // step; and how many times as long as the others one rank takes, always.
  double spread = 0, slowest = 1;
};

// FSDP shards the model over the ranks of a node, and exchanges are of one shard: what one rank then
// does, as a cluster of nodes with one rank each. It has 1/shards of the parameters (rounded up) and
// of its node's link. `step_seconds` contains what FSDP sends inside the node. REQUIRES: per_node is
// 1 or `shards`; throws otherwise.
void shard(Cluster& cluster, Work& work, int shards);

// Seconds of one rank for one element; per message where several are added. The defaults are of one
// core of the machine of bench/results/kernels.json.
struct Speeds {
  Speeds();

  double copy = 0.60e-9, add_values = 0.44e-9, narrow = 0.43e-9, widen = 0.46e-9;
  double encode = 0.62e-9, add_signs = 0.08e-9, decode = 0.20e-9;
  double draw = 0.76e-9, count_signs = 0.05e-9, redraw = 0.86e-9;
  // By method: what its update adds to encoding and decoding (draws are in `before`).
  std::map<std::string, MethodCost> methods;
  double message = 1e-6;  // of a message to one peer, whatever its length
  double byte = 0;        // of a byte that is sent and one that is received

  // All by name ("adamw_before", …), for texts; the last two do not scale with memory.
  std::vector<std::pair<std::string, double*>> fields();
  // All that scales with memory, so many times as fast.
  Speeds faster(double times) const;
};

// Who talks to whom. An all-reduce is what others offer: ring or tree, whichever is better, and
// updates overlapped as here, so that a comparison is of the exchanges.
enum class Topology : std::uint8_t { kAllReduce, kFlat, kNodes };

// One step of a method.
struct MethodStep {
  std::string algorithm = "adamw";
  Step::Kind step = Step::Kind::kDense;  // kDense, kCoded or kSilent
  Topology topology = Topology::kFlat;
  bool bf16 = false;  // dense steps
  RandomForm form = RandomForm::kTwoRound;
  std::size_t scale_block = 4096, quant_block = 256;
  std::string codec = {};       // of coded steps; empty: the method's
  std::string codec_down = {};  // of their way back; empty: the codec's
  std::size_t top_k = 128;
  std::string dense_codec = {};  // of dense steps; empty: fp32, or bf16
  bool momentum = false;         // coded steps average the momenta beside (Rounds::momentum)
  bool update = true;    // false: the mean of a vector in memory alone, as in `laconic bench mean`
  Spacing spacing = {};  // fragments and delay of an exchange
};

// A step of a method under a completed config; the kind of step and the topology are left open.
MethodStep method_of(const OptimizerConfig& config);

struct Forecast {
  double seconds = 0;                                 // the step
  double exposed = 0;                                 // of it, what links without limits would save
  double coding = 0, inter_busy = 0, intra_busy = 0;  // seconds of work, overlapped or not
  double bytes_inside = 0, bytes_between = 0;         // sent by a rank; between nodes
  double beside = 0;  // of an exchange that runs beside later steps: its seconds; not in `seconds`
};

// Runs one step of one rank as a sequence of events: the ranks are alike, and stragglers are left
// out. Its bytes are exactly those of the mean (an all-reduce: 2(n-1)/n of the vector). In fragments:
// the mean of the steps that exchange one. With a delay: a step and what the exchange adds to it.
Forecast predict(const Cluster& cluster, const Work& work, const Speeds& speeds,
                 const MethodStep& method);

// The steps of a whole run in their proportions. `mean` has stragglers in it.
struct Average {
  Forecast dense, coded, silent;  // the mean step of each kind
  double dense_share = 0, coded_share = 0, silent_share = 0;
  Forecast mean;
};
// `method.step` and `method.momentum` are not looked at.
Average predict(const Cluster& cluster, const Work& work, const Speeds& speeds, MethodStep method,
                const Rounds& rounds);

// Bytes of weights, gradients and optimizer state on a rank.
double memory_bytes(const Cluster& cluster, const Work& work, const MethodStep& method);

// The highest rate between nodes, in bytes a second, at which `ours` takes no longer than `theirs`:
// 0 when it never does, infinity when it does at kHighest too.
inline constexpr double kLowestRate = 1e6 / 8, kHighestRate = 10e12 / 8;
double break_even(const Cluster& cluster, FunctionRef<double(const Cluster&)> ours,
                  FunctionRef<double(const Cluster&)> theirs);

}  // namespace laconic::plan
