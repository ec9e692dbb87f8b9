#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "laconic/optim/optimizer.h"

// LibTorch modules on several ranks. Inside this namespace LibTorch is ::torch.
namespace laconic::torch {

// Which group a parameter belongs to, by its name and itself: the index into
// DataParallelConfig::groups.
using Grouping =
    std::function<std::size_t(const std::string& name, const ::torch::Tensor& parameter)>;

struct DataParallelConfig {
  OptimizerConfig optimizer;
  // Groups without `elements`, which follow from `grouping`; empty: one group of everything.
  std::vector<Group> groups;
  Grouping grouping;
};

// Trains one module on this rank of a group, every rank having its own copy:
//
//   laconic::torch::DataParallel parallel(net, {.optimizer = {...}}, world);
//   for (...) {
//     parallel.begin(lr);
//     loss(net).backward();   // buckets are exchanged while it runs
//     parallel.step();        // and zeroes the gradients
//   }
//
// Construction is collective: ranks compare names, shapes and types of what they built, parameters
// and gradients become views of flat memory (in parameters() order, group by group, shared ones
// once), and rank 0's weights and buffers go to everyone. Parameters must be dense float32, all on
// the CPU or all on one GPU, where the optimizer then works too; those that require no gradient
// stay where they are. Parameters stay valid when this object is gone. Weights move during
// backward, as soon as their gradient is complete, so nothing in the graph may read a parameter
// behind autograd's back (e.g. through detach()). On a GPU every call follows torch's current
// stream, and what others write to the weights is known by torch's counts: not a write to .data. The
// caller keeps `transport` alive. One thread at a time; objects of different threads know nothing of
// each other.
class DataParallel {
 public:
  DataParallel(std::shared_ptr<::torch::nn::Module> module, DataParallelConfig config,
               Transport& transport);
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  // Before the backward pass of the step (after it, nothing overlaps). `accumulate`: so many
  // backward passes make the step; the exchange starts in the last one, and gradients are their
  // mean.
  void begin(double lr, int accumulate = 1);
  // From now on steps begin by themselves, at their first gradient, with what `lr` then returns.
  // Null: no longer. REQUIRES: on a GPU, one rank per process, since torch runs the backward passes
  // of all of them on one thread, and the first step begins together.
  void begin_with(std::function<double()> lr, int accumulate = 1);
  // After it: waits for what is still under way, moves the weights, zeroes the gradients.
  void step();
  // Zeroes, and attaches again what the module's own zero_grad() dropped.
  void zero_grad();

  // Collective. Floating-point buffers become their mean over the ranks, others rank 0's.
  void average_buffers();
  // While it lives the module has the weights of the last sync, equal on all ranks, for evaluation
  // and saving; afterwards this rank's own again.
  class Synced {
   public:
    explicit Synced(DataParallel& parallel);
    ~Synced();
    Synced(const Synced&) = delete;
    Synced& operator=(const Synced&) = delete;

   private:
    DataParallel& parallel_;
    ::torch::Tensor own_;
  };

  Optimizer& optimizer() noexcept;
  ::torch::nn::Module& module() noexcept;
  // Trained parameters as they lie in memory, by name.
  const std::vector<NamedRange>& ranges() const noexcept;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace laconic::torch
