#include "app/commands/mean_rank.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "laconic/core/hash.h"

namespace laconic::app::commands {
namespace {

// The codec of a kind; `coded` leaves the choice to --codec.
std::string codec_of(const MeanOptions& options) {
  if (options.kind == "coded") return options.codec;
  if (options.kind == "dense") return options.wire;
  return options.kind == "one-bit" ? "sign" : options.kind;
}

MeanConfig config_of(const MeanOptions& options) {
  MeanConfig config{.codec = codec_of(options),
                    .codec_down = options.kind == "coded" ? options.codec_down : "",
                    .elements = options.elements,
                    .scale_block = options.scale_block,
                    .seed = 1};
  config.form = options.form == "two-round"      ? RandomForm::kTwoRound
                : options.form == "single-round" ? RandomForm::kSingleRound
                                                 : RandomForm::kCount;
  return config;
}

// Values in [-1, 1) that any rank can compute for any other, and quickly.
float value_of(int rank, std::size_t element) {
  std::uint64_t mixed = element * 1024 + static_cast<std::uint64_t>(rank) + 1;
  for (const std::uint64_t factor : {0xBF58476D1CE4E5B9U, 0x94D049BB133111EBU})
    mixed = (mixed ^ mixed >> 29) * factor;
  return static_cast<float>(static_cast<std::int32_t>(mixed >> 32)) * 0x1p-31F;
}

// Weights that see a misplaced element.
double weight_of(std::size_t element) { return 1.0 + static_cast<double>(element * 7 % 11); }

template <typename T>
T greatest(Transport& transport, const T& mine) {
  const auto all = transport.gather(mine);
  return *std::max_element(all.begin(), all.end());
}

}  // namespace

MeanRank::MeanRank(const MeanOptions& options, Transport& engine, std::shared_ptr<Network> network,
                   MpiSession* mpi)
    : options_(options),
      engine_(engine),
      mpi_(mpi),
      codec_(codec_of(options)),
      device_(make_host_device(
          options.threads > 0 ? options.threads
                              : std::max(1, static_cast<int>(std::thread::hardware_concurrency()) /
                                                engine.size()))),
      values_(options.elements),
      work_(options.elements) {
  Transport* below = &engine;
  if (network) {
    emulated_ = make_emulated(engine, std::move(network));
    below = emulated_.get();
  }
  metered_ = make_metered(*below, traffic_, std::max(0, options.ranks_per_node));
  nodes_ = make_nodes(*metered_, options.ranks_per_node);
  mean_ = make_mean(config_of(options), nodes_, *device_);
  for (std::size_t i = 0; i < options.elements; ++i) values_[i] = value_of(engine.rank(), i);
}

nlohmann::json MeanRank::run(const double* limit_rate) {
  const bool verified = verify();
  std::vector<double> ours, theirs;
  const Traffic before = traffic_;
  double spent = 0;
  int runs = 0;
  for (; runs < options_.repeats && (runs < 3 || spent < 30); ++runs) {
    reset();
    spent += ours.emplace_back(greatest(engine_, seconds_of([&] { mean_->reduce(work_.span()); })));
    if (mpi_ == nullptr) continue;
    reset();
    theirs.push_back(greatest(engine_, seconds_of([&] { mpi_->all_reduce(work_.span()); })));
  }
  return row(verified, Sample(ours), theirs, per_run(before, runs), limit_rate);
}

void MeanRank::reset() {
  if (!values_.empty()) std::memcpy(work_.data(), values_.data(), 4 * values_.size());
  engine_.gather(0);  // all start together
}

bool MeanRank::verify() {
  reset();
  mean_->reduce(work_.span());
  const auto hash = hash64(std::as_bytes(work_.span()));
  const auto hashes = engine_.gather(hash);
  if (std::any_of(hashes.begin(), hashes.end(), [&](auto other) { return other != hash; }))
    return false;
  const bool good = codec_ == "fp32" || codec_ == "bf16" ? exact()
                    : codec_ == kVote                    ? counted()
                                                         : lawful();
  const auto all = engine_.gather(static_cast<int>(good));
  return std::all_of(all.begin(), all.end(), [](int one) { return one != 0; });
}

// Sums are exact then, what travels is not.
bool MeanRank::rounds_to_bf16() const { return codec_ == "bf16" || options_.codec_down == "bf16"; }

// Each rank looks at its own stripe.
bool MeanRank::exact() const {
  const auto ranks = static_cast<std::size_t>(engine_.size()),
             me = static_cast<std::size_t>(engine_.rank());
  const double tolerance = rounds_to_bf16() ? 0x1p-7 : 1e-6;
  for (std::size_t i = me; i < options_.elements; i += ranks) {
    double sum = 0;
    for (int r = 0; r < engine_.size(); ++r) sum += value_of(r, i);
    if (std::abs(sum / engine_.size() - static_cast<double>(work_[i])) > tolerance) return false;
  }
  return true;
}

// Of the first exchange, whose step is 0.
bool MeanRank::counted() const {
  const auto ranks = static_cast<std::size_t>(engine_.size()),
             me = static_cast<std::size_t>(engine_.rank());
  for (std::size_t i = me; i < options_.elements; i += ranks) {
    const float tie = i % 2 == 0 ? 1.0F : -1.0F;
    int sum = 0;
    for (int r = 0; r < engine_.size(); ++r) {
      const float value = value_of(r, i);
      sum += (value == 0 ? tie : value) > 0 ? 1 : -1;
    }
    const float wanted = options_.form == "count"
                             ? static_cast<float>(sum) / static_cast<float>(ranks)
                         : sum == 0 ? tie
                                    : std::copysign(1.0F, static_cast<float>(sum));
    if (std::abs(wanted - work_[i]) > 1e-6F) return false;
  }
  return true;
}

// What went in equals what came out and the residuals; random signs keep none, but have their
// law.
bool MeanRank::lawful() {
  double in = 0, out = 0, kept = 0, size = 0, noise = 0;
  for (std::size_t i = 0; i < options_.elements; ++i) {
    in += weight_of(i) * static_cast<double>(values_[i]) / engine_.size();
    out += weight_of(i) * static_cast<double>(work_[i]);
    size += weight_of(i);
    noise += weight_of(i) * weight_of(i);
  }
  for (const State& state : mean_->state()) {
    const double share = state.spread == Spread::kMean ? 1.0 / nodes_.nodes : 1.0;
    for (std::size_t i = 0; i < state.values.size(); ++i)
      kept += share * weight_of(state.begin + i) * static_cast<double>(state.values[i]);
  }
  double total = 0;
  for (const double part : engine_.gather(in - kept)) total += part;
  const double rounding = rounds_to_bf16() ? 0x1p-7 : 1e-6;
  const double allowed = codec_ != "random-sign" ? rounding * size : 6 * std::sqrt(noise);
  return std::abs(total - out) <= allowed + 1e-9;
}

MeanRank::PerRun MeanRank::per_run(const Traffic& before, int runs) {
  const auto a = before.total(), b = traffic_.total();
  const auto n = static_cast<std::uint64_t>(runs);
  const PerRun mine{(b.bytes() - a.bytes()) / n, (b.bytes_inside - a.bytes_inside) / n,
                    (b.bytes_between - a.bytes_between) / n, (b.rounds - a.rounds) / n};
  PerRun most = mine;
  for (const PerRun& other : engine_.gather(mine)) {
    most.bytes = std::max(most.bytes, other.bytes);
    most.inside = std::max(most.inside, other.inside);
    most.between = std::max(most.between, other.between);
  }
  return most;
}

nlohmann::json MeanRank::row(bool verified, const Sample& took, const std::vector<double>& theirs,
                             const PerRun& sent, const double* limit_rate) const {
  nlohmann::json row{
      {"kind", options_.kind},
      {"what", mean_->describe()},
      {"transport", options_.transport},
      {"elements", options_.elements},
      {"ranks", engine_.size()},
      {"ranks_per_node", nodes_.per_node},
      {"threads_per_rank", device_->pool().threads()},
      {"seconds", took.median},
      {"seconds_least", took.least},
      {"seconds_most", took.most},
      {"bytes_sent_per_rank", sent.bytes},
      {"bytes_inside_node", sent.inside},
      {"bytes_between_nodes", sent.between},
      {"rounds", sent.rounds},
      {"algbw_gb_per_s", 4e-9 * static_cast<double>(options_.elements) / took.median},
      {"verified", verified}};
  if (options_.kind == "coded") row["codec"] = codec_;
  if (options_.kind == "coded" && !options_.codec_down.empty())
    row["codec_down"] = options_.codec_down;
  if (codec_ == "random-sign" || codec_ == kVote) row["form"] = options_.form;
  if (options_.kind == "dense") row["wire"] = options_.wire;
  if (!theirs.empty()) row["mpi_allreduce_seconds"] = Sample(theirs).median;
  if (limit_rate != nullptr) {
    const double wire = static_cast<double>(sent.between) * nodes_.per_node / *limit_rate;
    row["emulate"] = options_.emulate;
    row["wire_seconds"] = wire;
    row["wire_share"] = wire / took.median;
  }
  return row;
}

}  // namespace laconic::app::commands
