#include <CLI/CLI.hpp>

#include "app/commands/bench_rows.h"
#include "app/commands/commands.h"
#include "app/plan/arms.h"
#include "app/sweeps.h"
#include "laconic/optim/optimizer.h"
#include "laconic/transport/threads.h"

namespace laconic::app::commands {
namespace {

namespace k = kernels;

constexpr std::size_t kTile = Mean::kTile;

struct Options {
  std::size_t elements = std::size_t{64} << 20;
  int repeats = 7;
  bool json = false;
  std::string only;
};

// Steps of one rank: nothing to exchange. 0/1 Adam is measured on its silent steps.
class Alone {
 public:
  Alone(const std::string& algorithm, Arrays& arrays) : world_(make_threads(1)) {
    OptimizerConfig config{.algorithm = algorithm};
    config.variance_freeze_step = config.double_every = 1;
    config.max_interval = std::int64_t{1} << 40;
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

void run(const Options& options) {
  constexpr const char* kStreaming = "streaming";
  Arrays a(options.elements);
  float *g = a.g.data(), *x = a.x.data(), *m = a.m.data(), *v = a.v.data(), *e = a.e.data();
  Rows rows(options.elements, options.repeats, options.json);
  const auto wanted = [&](const char* name) {
    return options.only.empty() || options.only == name;
  };
  const auto optimizer = [&](const char* algorithm, const k::Traffic& traffic) {
    if (!wanted(algorithm)) return;
    Alone alone(algorithm, a);
    rows.measure(algorithm, kStreaming, {traffic}, [&] { alone.step(); });
  };
  optimizer("sgdm", {.reads = {g}, .updates = {m, x}});
  optimizer("adamw", {.reads = {g}, .updates = {m, v, x}});
  std::uint8_t* bits = a.bits.data();
  if (wanted("one-bit-adam"))
    rows.measure("one-bit-adam", kStreaming,
                 {{.reads = {g, m}, .updates = {e}, .bits_out = bits},
                  {.reads = {v}, .updates = {x}, .writes = {m}, .bits_in = bits}},
                 [&] {
                   one_bit_code(a);
                   one_bit_take(a);
                 });
  optimizer("zero-one-adam", {.reads = {g, v}, .updates = {m, e, x}});
  if (wanted("birder"))
    rows.measure(
        "birder", kStreaming,
        {{.reads = {g}, .updates = {m, e}, .bits_out = bits}, {.updates = {x}, .bits_in = bits}},
        [&] {
          birder_code(a);
          birder_take(a);
        });
}

}  // namespace

void add_bench_step(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand(
      "step", "The local part of each optimizer's step against the speed of memory");
  command->footer(
      "No communication: sgdm and adamw with one rank, zero-one-adam on silent steps; one-bit-adam "
      "and birder\n"
      "without serving a chunk.\nExample: laconic bench step --elements 67108864 --json");
  command->add_option("--elements", options->elements, "Parameters")
      ->check(CLI::Range(kTile, std::size_t{1} << 32))
      ->capture_default_str();
  command->add_option("--repeats", options->repeats, "Timed steps of each")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--only", options->only, "Just this optimizer")
      ->check(CLI::IsMember(plan::planned_optimizers()));
  command->add_flag("--json", options->json, "An array of objects instead of a table");
  command->callback([options] { run(*options); });
}

}  // namespace laconic::app::commands
