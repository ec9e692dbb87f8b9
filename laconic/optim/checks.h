#pragma once

#include "laconic/core/parallel.h"
#include "laconic/optim/optimizer.h"
#include "laconic/optim/shards.h"

// What a model must be before it is trained, and what must be the same on all ranks. Those that
// take a transport are collective; a difference is an error on every rank, and names what differs.
namespace laconic::inline optim {

// The model with what was left out filled in. Error(kInvalidArgument) when its parts do not fit.
Model completed(Model model, const OptimizerConfig& config);

// REQUIRES: `model` is completed.
void agree_on_setup(Transport& transport, const OptimizerConfig& config, const Model& model);
void agree_on_first_weights(Transport& transport, std::span<const float> weights);

// Compares the weights of replicas, range by range, and those that several shards hold.
class ReplicaCheck {
 public:
  // Every so many steps; 0: never. `model` is completed, and outlives this.
  ReplicaCheck(const Model& model, std::int64_t every)
      : model_(model), every_(every), mine_(model.ranges.size()) {}

  // After a step: compares `weights()`, as many as the model has, when that is due. Error(kMismatch)
  // with the range and the ranks.
  void after(std::int64_t step, Transport& transport, Shards& shards,
             FunctionRef<std::span<const float>()> weights);

 private:
  const Model& model_;
  std::int64_t every_, last_ = 0;
  std::vector<std::uint64_t> mine_, all_;
};

// Notices writes to the weights, range by range.
class WriteWatch {
 public:
  // `model` is completed, and outlives this, as `pool` does.
  WriteWatch(const Model& model, Pool& pool);

  // The weights are taken to be as they are now. REQUIRES: Model::watched, here and below.
  void note(std::span<const float> weights);
  // The first range with other weights than noted; null: none has.
  const NamedRange* written(std::span<const float> weights);

 private:
  struct Piece {
    const NamedRange* range;
    std::size_t begin, count;
    std::uint64_t noted = 0, found = 0;
  };
  void look(std::span<const float> weights);

  Pool& pool_;
  std::vector<Piece> pieces_;  // small enough to occupy all threads
};

// Error(kInvalidArgument): the method would undo a write between two syncs.
[[noreturn]] void refuse_write(const NamedRange& written, std::int64_t step,
                               std::string_view method);

}  // namespace laconic::inline optim
