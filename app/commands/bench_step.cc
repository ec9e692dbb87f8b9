#include <CLI/CLI.hpp>
#include <cstring>

#include "app/commands/bench_rows.h"
#include "app/commands/commands.h"
#include "laconic/core/buffer.h"
#include "laconic/core/random.h"
#include "laconic/kernels/dense.h"
#include "laconic/kernels/random_sign.h"
#include "laconic/kernels/sign.h"
#include "laconic/kernels/update.h"
#include "laconic/optim/optimizer.h"
#include "laconic/transport/threads.h"

namespace laconic::app {
namespace {

namespace k = kernels;

constexpr std::size_t kTile = Mean::kTile;

struct Options {
  std::size_t elements = std::size_t{64} << 20;
  int repeats = 7;
  bool json = false;
  std::string only;
};

Buffer<float> random_floats(std::size_t n, float size) {
  Buffer<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto r =
        philox({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), 0, 0}, {1, 2});
    values[i] = static_cast<float>(static_cast<std::int32_t>(r[0])) * 0x1p-31F * size;
  }
  return values;
}

// The memory that a plain loop moves in place of the optimizer's own.
struct Arrays {
  explicit Arrays(std::size_t n)
      : g(random_floats(n, 0.1F)), x(random_floats(n, 1.0F)), m(n), v(n), e(n), bits(n / 8 + 512) {
    std::fill_n(v.data(), n, 0.01F);
  }
  Buffer<float> g, x, m, v, e;
  Buffer<std::uint8_t> bits;
};

// Steps of one rank: nothing to exchange. 0/1 Adam is measured on its silent steps.
class Alone {
 public:
  Alone(Algorithm algorithm, Arrays& arrays) : world_(make_threads(1)) {
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

// What a rank does for its own parameters on a coded step of 1-bit Adam, beside serving a chunk:
// momentum and coding before the exchange, decoding and the update after it.
void one_bit_step(Arrays& a, std::size_t n) {
  const k::AdamStep step{0.9F, 0.1F, 0.999F, 0.001F, 1e-4F, 1.0F, 1.0F, 1e-8F, 1e-5F};
  static float tile[kTile];
  static Buffer<float> scales;
  if (scales.size() != n / kTile + 1) scales = Buffer<float>(n / kTile + 1);
  for (std::size_t i = 0; i < n; i += kTile) {
    const std::size_t count = std::min(kTile, n - i);
    const float* g = k::all_finite(a.g.data() + i, count) ? a.g.data() + i : nullptr;
    k::momentum(step, g, a.m.data() + i, tile, count);
    k::Lanes lanes;
    k::measure(tile, a.e.data() + i, nullptr, count, k::Norm::kL2, tile, lanes);
    scales[i / kTile] = k::scale_of(k::fold(lanes), count, k::Norm::kL2);
    k::code(tile, nullptr, count, scales[i / kTile], 1.0F, a.e.data() + i, a.bits.data() + i / 8);
  }
  for (std::size_t i = 0; i < n; i += kTile) {
    const std::size_t count = std::min(kTile, n - i);
    k::decode({scales[i / kTile], a.bits.data() + i / 8}, count, tile);
    k::one_bit_apply(step, tile, a.m.data() + i, a.v.data() + i, a.x.data() + i, count);
  }
}

// The same for Birder: moments and draws, then the update by the signs.
void birder_step(Arrays& a, std::size_t n) {
  static float tile[kTile];
  const k::Draw draw{.key = {1, 1}};
  const std::uint8_t active[8] = {255, 255, 255, 255, 255, 255, 255, 255};
  for (std::size_t i = 0; i < n; i += kTile) {
    const std::size_t count = std::min(kTile, n - i);
    if (!k::all_finite(a.g.data() + i, count)) continue;
    k::birder_moments({0.9F, 0.1F}, a.g.data() + i, a.m.data() + i, a.e.data() + i, count, draw, i,
                      ~0ULL, a.bits.data() + i / 8);
  }
  for (std::size_t i = 0; i < n; i += kTile) {
    const std::size_t count = std::min(kTile, n - i);
    k::signs_to_floats(a.bits.data() + i / 8, active, count, tile);
    k::birder_update(1e-4F, 1.0F, tile, a.x.data() + i, count);
  }
}

void run(const Options& options) {
  constexpr const char* kStreaming = "streaming";
  Arrays a(options.elements);
  float *g = a.g.data(), *x = a.x.data(), *m = a.m.data(), *v = a.v.data(), *e = a.e.data();
  Rows rows(options.elements, options.repeats, options.json);
  const auto wanted = [&](const char* name) {
    return options.only.empty() || options.only == name;
  };
  const auto optimizer = [&](Algorithm algorithm, const k::Traffic& traffic) {
    if (!wanted(name(algorithm))) return;
    Alone alone(algorithm, a);
    rows.measure(name(algorithm), kStreaming, {traffic}, [&] { alone.step(); });
  };
  optimizer(Algorithm::kSgdm, {.reads = {g}, .updates = {m, x}});
  optimizer(Algorithm::kAdamW, {.reads = {g}, .updates = {m, v, x}});
  std::uint8_t* bits = a.bits.data();
  if (wanted("one-bit-adam"))
    rows.measure("one-bit-adam", kStreaming,
                 {{.reads = {g, m}, .updates = {e}, .bits_out = bits},
                  {.reads = {v}, .updates = {x}, .writes = {m}, .bits_in = bits}},
                 [&] { one_bit_step(a, options.elements); });
  optimizer(Algorithm::kZeroOneAdam, {.reads = {g, v}, .updates = {m, e, x}});
  if (wanted("birder"))
    rows.measure(
        "birder", kStreaming,
        {{.reads = {g}, .updates = {m, e}, .bits_out = bits}, {.updates = {x}, .bits_in = bits}},
        [&] { birder_step(a, options.elements); });
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
      ->check(CLI::IsMember({"sgdm", "adamw", "one-bit-adam", "zero-one-adam", "birder"}));
  command->add_flag("--json", options->json, "An array of objects instead of a table");
  command->callback([options] { run(*options); });
}

}  // namespace laconic::app
