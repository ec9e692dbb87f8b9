#include <CLI/CLI.hpp>

#include "app/commands/bench_rows.h"
#include "app/commands/commands.h"
#include "app/plan/arms.h"
#include "app/sweeps.h"
#include "laconic/optim/method.h"
#include "laconic/optim/optimizer.h"
#include "laconic/transport/threads.h"

namespace laconic::app::commands {
namespace {

constexpr std::size_t kTile = laconic::kTile;

struct StepOptions {
  std::size_t elements = std::size_t{64} << 20;
  int repeats = 7;
  bool json = false;
  std::string only, target;
};

// Steps of one rank: nothing to exchange. Methods with local steps take those only.
class Alone {
 public:
  Alone(const std::string& algorithm, Arrays& arrays) : world_(make_threads(1)) {
    OptimizerConfig config{.algorithm = algorithm};
    config.variance_freeze_step = config.double_every = 1;
    config.max_interval = config.every = std::int64_t{1} << 40;
    optimizer_ = make_optimizer(
        config,
        {.weights = arrays.x.span(), .gradient = arrays.g.span(), .groups = {}, .ranges = {}},
        *world_.front());
    for (int t = 0; t < 3; ++t) step();
  }
  void step() { optimizer_->step(1e-4); }

 private:
  std::vector<std::unique_ptr<Transport>> world_;
  std::unique_ptr<Optimizer> optimizer_;
};

constexpr const char* kStreaming = "streaming";

// What lies before and after a coded mean; nothing where there is no such sweep.
void measure_exchange(Rows& rows, Arrays& arrays, const std::string& name, const Sweep* before,
                      const Sweep* after) {
  if (before == nullptr || after == nullptr) return;
  auto sweeps = before->traffic(arrays);
  for (const kernels::Traffic& one : after->traffic(arrays)) sweeps.push_back(one);
  rows.measure(name.c_str(), kStreaming, sweeps, [&] {
    before->run(arrays);
    after->run(arrays);
  });
}

void measure(Rows& rows, Arrays& arrays, const Method& method) {
  const Sweeps& sweeps = method.sweeps;
  std::string name = method.name;
  if (const Sweep* whole = sweep_named(method.exact ? sweeps.exact : sweeps.local)) {
    Alone alone(method.name, arrays);
    rows.measure(name.c_str(), kStreaming, whole->traffic(arrays), [&] { alone.step(); });
    if (!method.spacing) return;
    name += "-exchange";
  }
  measure_exchange(rows, arrays, name, sweep_named(sweeps.before), sweep_named(sweeps.after));
  measure_exchange(rows, arrays, name + "-int4", sweep_named(sweeps.before_int4),
                   sweep_named(sweeps.after_int4));
}

void run(const StepOptions& options) {
  run_on(options.target);
  Arrays arrays(options.elements);
  Rows rows(options.elements, options.repeats, options.json);
  // Presets take the steps of their method.
  for (const Method* method : methods())
    if (options.only.empty() ? method->preset_of.empty() : options.only == method->name)
      measure(rows, arrays, *method);
}

}  // namespace

void add_bench_step(CLI::App& bench) {
  auto options = std::make_shared<StepOptions>();
  CLI::App* command = bench.add_subcommand(
      "step", "The local part of each optimizer's step against the speed of memory");
  command->footer(
      "No communication: exact methods with one rank, methods with local steps on those, others "
      "without serving a chunk; -exchange: a coded exchange of displacements, by signs and in "
      "four bits, and its outer step.\nExample: laconic bench step --elements 67108864 --json");
  command->add_option("--elements", options->elements, "Parameters")
      ->check(CLI::Range(kTile, std::size_t{1} << 32))
      ->capture_default_str();
  command->add_option("--repeats", options->repeats, "Timed steps of each")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--only", options->only, "Just this optimizer")
      ->check(CLI::IsMember(plan::planned_optimizers()));
  add_target(*command, options->target);
  command->add_flag("--json", options->json, "An array of objects instead of a table");
  command->callback([options] { run(*options); });
}

}  // namespace laconic::app::commands
