#include "app/training/evaluation.h"

#include <cmath>
#include <numeric>

#include "app/models/model.h"
#include "app/training/model_file.h"
#include "laconic/core/error.h"
#include "laconic/transport/threads.h"

namespace laconic::app::training {
namespace {

struct Sums {
  double loss = 0, correct = 0, targets = 0;
};

}  // namespace

const char* metric_name(const data::DataShape& shape) {
  return shape.classes > 0 ? "accuracy" : "perplexity";
}

Quality evaluate(models::Network& model, const data::Dataset& data, std::int64_t examples,
                 std::int64_t batch, Transport& world) {
  const std::int64_t all = data.size(data::Split::kValidation);
  const std::int64_t count = examples > 0 ? std::min(examples, all) : all;
  const std::int64_t begin = count * world.rank() / world.size();
  const std::int64_t end = count * (world.rank() + 1) / world.size();
  Sums mine;
  {
    const ::torch::NoGradGuard no_grad;
    model.eval();
    data::Batch read;
    std::vector<std::int64_t> numbers;
    for (std::int64_t at = begin; at < end; at += batch) {
      numbers.resize(static_cast<std::size_t>(std::min(batch, end - at)));
      std::iota(numbers.begin(), numbers.end(), at);
      data.read(data::Split::kValidation, numbers, 0, read);
      const auto inputs = models::inputs_of(read, data.shape()).to(model.device());
      const models::Score score =
          models::score_of(model.forward(inputs), models::targets_of(read, data.shape()));
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

Quality evaluate_file(const std::filesystem::path& file, const RunConfig& config,
                      const data::Dataset& data, int threads) {
  at::set_num_threads(threads);
  const auto model = models::make_blank_model(config.model, data.shape());
  read_model(file, *model, Names::kAll);
  Quality quality;
  run_threads(1,
              [&](Transport& world) { quality = evaluate(*model, data, 0, config.batch, world); });
  return quality;
}

}  // namespace laconic::app::training
