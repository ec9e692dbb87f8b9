#pragma once

#include <torch/torch.h>

#include "app/data/dataset.h"
#include "app/models/sizes.h"

// The models that `laconic train` knows by name.
namespace laconic::app::models {

// A network with its loss. Whatever is random inside draws from a generator of its own: ranks that
// are threads of one process share torch's global one.
class Network : public ::torch::nn::Module {
 public:
  // Images or tokens to logits: [n, classes], or [n, length, vocabulary].
  virtual ::torch::Tensor forward(const ::torch::Tensor& inputs) = 0;
  // Where its parameters are.
  ::torch::Device device() const { return parameters().front().device(); }
  // Before each training step: dropout is then a pure function of (seed, rank, step).
  void reseed(std::uint32_t seed, int rank, std::int64_t step);

 protected:
  // Nothing while evaluating. REQUIRES: reseed was called, if training with p > 0.
  ::torch::Tensor dropout(const ::torch::Tensor& x, double p);

 private:
  at::Generator generator_;
};

struct Score {
  double loss = 0;  // sum over targets
  std::int64_t correct = 0, targets = 0;
};

// "resnet8", …, "bert-large".
std::vector<std::string> model_names();

// The same weights for the same seed; torch's global generator is left alone. A size that `shape`
// leaves at 0 is the published one; there are never fewer positions than that. Throws
// Error(kInvalidArgument): unknown name with the nearest one, a size that is impossible, or data
// the model is not for, naming what fits.
std::shared_ptr<Network> make_model(const ModelConfig& config, const data::DataShape& shape,
                                    std::uint32_t seed);
// The same without weights: their memory is not touched. To count, or to load.
std::shared_ptr<Network> make_blank_model(const ModelConfig& config, const data::DataShape& shape);

// Tensors that view the batch's memory.
::torch::Tensor inputs_of(const data::Batch& batch, const data::DataShape& shape);
::torch::Tensor targets_of(const data::Batch& batch, const data::DataShape& shape);

// Targets are those of a batch, in memory of the host; logits are where the network is.

// Mean cross-entropy over the targets that count; 0 if none does.
::torch::Tensor loss_of(const ::torch::Tensor& logits, const ::torch::Tensor& targets);
// Without gradients: sums, so that batches and ranks add up.
Score score_of(const ::torch::Tensor& logits, const ::torch::Tensor& targets);

}  // namespace laconic::app::models
