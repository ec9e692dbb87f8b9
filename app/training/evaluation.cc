#include "app/training/evaluation.h"

#include <cmath>
#include <numeric>

#include "laconic/core/error.h"

namespace laconic::app {
namespace {

struct Sums {
  double loss = 0, correct = 0, targets = 0;
};

}  // namespace

const char* metric_name(const DataShape& shape) {
  return shape.classes > 0 ? "accuracy" : "perplexity";
}

Quality evaluate(Network& model, const Dataset& data, std::int64_t examples, std::int64_t batch,
                 Transport& world) {
  const std::int64_t all = data.size(Split::kValidation);
  const std::int64_t count = examples > 0 ? std::min(examples, all) : all;
  const std::int64_t begin = count * world.rank() / world.size();
  const std::int64_t end = count * (world.rank() + 1) / world.size();
  Sums mine;
  {
    const ::torch::NoGradGuard no_grad;
    model.eval();
    Batch read;
    std::vector<std::int64_t> numbers;
    for (std::int64_t at = begin; at < end; at += batch) {
      numbers.resize(static_cast<std::size_t>(std::min(batch, end - at)));
      std::iota(numbers.begin(), numbers.end(), at);
      data.read(Split::kValidation, numbers, 0, read);
      const Score score =
          score_of(model.forward(inputs_of(read, data.shape())), targets_of(read, data.shape()));
      mine.loss += score.loss;
      mine.correct += static_cast<double>(score.correct);
      mine.targets += static_cast<double>(score.targets);
    }
    model.train();
  }
  Sums total;
  for (const Sums& one : world.gather(mine)) {
    total.loss += one.loss;
    total.correct += one.correct;
    total.targets += one.targets;
  }
  if (total.targets == 0)
    fail(Code::kInvalidArgument, "{}: the validation set asks for nothing", data.describe());
  const double loss = total.loss / total.targets;
  return {loss, data.shape().classes > 0 ? total.correct / total.targets : std::exp(loss)};
}

}  // namespace laconic::app
