#include "app/training/summary.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <torch/version.h>

#include "app/machine.h"
#include "laconic/optim/method.h"

namespace laconic::app::training {
namespace {

using nlohmann::json;

double bits_per_step(const RunConfig& config, const Finished& finished) {
  const Done& done = finished.done;
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, config.steps));
  if (finished.ranks > 1)
    return report::bits_per_parameter(static_cast<double>(done.bytes), finished.parameters,
                                      finished.ranks) /
           steps;
  // Nothing is sent: what it would be.
  const Method& method = method_named(config.optimizer.algorithm);
  return (method.dense_bits(config.optimizer) * static_cast<double>(done.dense) +
          method.coded_bits(config.optimizer) * static_cast<double>(done.coded)) /
         steps;
}

std::uint64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace

json summary(const Training& run, const Finished& finished) {
  const RunConfig& config = run.config;
  const Done& done = finished.done;
  return {{"optimizer", config.arm},
          {"task", config.data.task},
          {"model", config.model.name},
          {"parameters", finished.parameters},
          {"ranks", finished.ranks},
          {"steps", config.steps},
          {"seed", config.seed},
          {"batch", config.batch},
          {"lr", config.lr},
          {"final_loss", finished.quality.loss},
          {"final_metric", finished.quality.metric},
          {"metric", metric_name(run.data->shape())},
          {"bits_per_parameter_per_step", bits_per_step(config, finished)},
          {"rounds", done.dense + done.coded},
          {"dense_rounds", done.dense},
          {"coded_rounds", done.coded},
          {"bytes_sent_per_rank", done.bytes},
          {"bytes_inside_node", done.bytes_inside},
          {"skipped_steps", done.skipped},
          {"seconds", done.seconds},
          {"weights_hash", fmt::format("{:016x}", finished.weights_hash)},
          {"peak_memory_bytes", peak_memory()},
          {"emulate", config.emulate.empty() ? json() : json(config.emulate)},
          {"engine", run.engine},
          {"describe", finished.describe},
          {"data", run.data->describe()},
          {"command", run.command},
          {"version", LACONIC_VERSION},
          {"torch", TORCH_VERSION},
          {"threads", config.threads},
          {"machine", machine()},
          {"config", to_text(config)}};
}

}  // namespace laconic::app::training
