#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "app/commands/commands.h"
#include "app/mpi.h"
#include "app/timing.h"
#include "app/units.h"
#include "laconic/collective/mean.h"
#include "laconic/core/buffer.h"
#include "laconic/core/error.h"
#include "laconic/core/hash.h"
#include "laconic/transport/metered.h"
#include "laconic/transport/threads.h"

namespace laconic::app::commands {
namespace {

struct MeanOptions {
  std::string kind = "one-bit", codec = "sign", form = "two-round", transport = "threads", emulate,
              wire = "fp32";
  std::size_t elements = std::size_t{4} << 20, scale_block = 4096;
  int ranks = 2, ranks_per_node = 0, repeats = 7, threads = 0;
  bool json = false;
};

// The codec of a kind; `coded` leaves the choice to --codec.
std::string codec_of(const MeanOptions& options) {
  if (options.kind == "coded") return options.codec;
  if (options.kind == "dense") return options.wire;
  return options.kind == "one-bit" ? "sign" : options.kind;
}

MeanConfig config_of(const MeanOptions& options) {
  MeanConfig config{.codec = codec_of(options),
                    .elements = options.elements,
                    .scale_block = options.scale_block,
                    .seed = 1};
  config.form = options.form == "two-round"      ? RandomForm::kTwoRound
                : options.form == "single-round" ? RandomForm::kSingleRound
                                                 : RandomForm::kCount;
  return config;
}

// Values in [-1, 1) that any rank can compute for any other.
float value_of(int rank, std::size_t element) {
  const auto r =
      philox({static_cast<std::uint32_t>(Stream::kData), static_cast<std::uint32_t>(rank),
              static_cast<std::uint32_t>(element >> 32), static_cast<std::uint32_t>(element)},
             {7, 7});
  return static_cast<float>(static_cast<std::int32_t>(r[0])) * 0x1p-31F;
}

// Weights that see a misplaced element.
double weight_of(std::size_t element) { return 1.0 + static_cast<double>(element * 7 % 11); }

template <typename T>
T greatest(Transport& transport, const T& mine) {
  const auto all = transport.gather(mine);
  return *std::max_element(all.begin(), all.end());
}

// One rank of the benchmark.
class Rank {
 public:
  Rank(const MeanOptions& options, Transport& engine, std::shared_ptr<Network> network,
       MpiSession* mpi)
      : options_(options),
        engine_(engine),
        mpi_(mpi),
        codec_(codec_of(options)),
        device_(make_host_device(
            options.threads > 0
                ? options.threads
                : std::max(1,
                           static_cast<int>(std::thread::hardware_concurrency()) / engine.size()))),
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

  nlohmann::json run(double* limit_rate) {
    const bool verified = verify();
    std::vector<double> ours, theirs;
    const Traffic before = traffic_;
    double spent = 0;
    int runs = 0;
    for (; runs < options_.repeats && (runs < 3 || spent < 30); ++runs) {
      reset();
      spent +=
          ours.emplace_back(greatest(engine_, seconds_of([&] { mean_->reduce(work_.span()); })));
      if (mpi_ == nullptr) continue;
      reset();
      theirs.push_back(greatest(engine_, seconds_of([&] { mpi_->all_reduce(work_.span()); })));
    }
    return row(verified, Sample(ours), theirs, per_run(before, runs), limit_rate);
  }

 private:
  void reset() {
    if (!values_.empty()) std::memcpy(work_.data(), values_.data(), 4 * values_.size());
    engine_.gather(0);  // all start together
  }

  bool verify() {
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

  // Each rank looks at its own stripe.
  bool exact() const {
    const auto ranks = static_cast<std::size_t>(engine_.size()),
               me = static_cast<std::size_t>(engine_.rank());
    const double tolerance = codec_ == "bf16" ? 0x1p-7 : 1e-6;
    for (std::size_t i = me; i < options_.elements; i += ranks) {
      double sum = 0;
      for (int r = 0; r < engine_.size(); ++r) sum += value_of(r, i);
      if (std::abs(sum / engine_.size() - static_cast<double>(work_[i])) > tolerance) return false;
    }
    return true;
  }

  // Of the first exchange, whose step is 0.
  bool counted() const {
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
  bool lawful() {
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
    const double allowed = codec_ != "random-sign" ? 1e-6 * size : 6 * std::sqrt(noise);
    return std::abs(total - out) <= allowed + 1e-9;
  }

  struct PerRun {
    std::uint64_t bytes, inside, between, rounds;
  };
  PerRun per_run(const Traffic& before, int runs) {
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

  nlohmann::json row(bool verified, const Sample& took, const std::vector<double>& theirs,
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

  const MeanOptions& options_;
  Transport& engine_;
  MpiSession* mpi_;
  std::string codec_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Transport> emulated_, metered_;
  Traffic traffic_;
  Nodes nodes_;
  std::unique_ptr<Mean> mean_;
  Buffer<float> values_, work_;
};

void print(const MeanOptions& options, const nlohmann::json& row) {
  if (options.json) {
    fmt::print("{}\n", nlohmann::json::array({row}).dump(2));
    return;
  }
  const auto number = [&](const char* name) { return row[name].get<double>(); };
  fmt::print("# {} over {}{}{}, {} thread(s) a rank\n", row["what"].get<std::string>(),
             options.transport, options.emulate.empty() ? "" : ", emulated ", options.emulate,
             row["threads_per_rank"].get<int>());
  fmt::print("{:>12} {:>6} {:>7} {:>11} {:>9} {:>9} {:>14} {:>10} {:>9}\n", "elements", "ranks",
             "rounds", "time (ms)", "least", "most", "bytes/rank", "algbw GB/s", "verified");
  fmt::print("{:>12} {:>6} {:>7} {:>11.3f} {:>9.3f} {:>9.3f} {:>14} {:>10.3f} {:>9}\n",
             options.elements, row["ranks"].get<int>(), row["rounds"].get<int>(),
             1e3 * number("seconds"), 1e3 * number("seconds_least"), 1e3 * number("seconds_most"),
             row["bytes_sent_per_rank"].get<std::uint64_t>(), number("algbw_gb_per_s"),
             row["verified"].get<bool>() ? "yes" : "NO");
  if (row.contains("mpi_allreduce_seconds"))
    fmt::print("# MPI_Allreduce of the same floats: {:.3f} ms\n",
               1e3 * number("mpi_allreduce_seconds"));
  if (row.contains("wire_share"))
    fmt::print("# bytes/rate allow {:.3f} ms: {:.0f} % of the time\n", 1e3 * number("wire_seconds"),
               1e2 * number("wire_share"));
}

void finish(const MeanOptions& options, const nlohmann::json& row) {
  print(options, row);
  if (!row["verified"].get<bool>())
    fail(Code::kCorrupt, "the result is wrong: it differs between ranks or from what went in");
}

void run_on_threads(const MeanOptions& options, std::optional<Link> link) {
  std::shared_ptr<Network> network;
  if (link)
    network = std::make_shared<Network>(options.ranks, std::max(1, options.ranks_per_node), *link);
  nlohmann::json row;
  run_threads(options.ranks, [&](Transport& engine) {
    Rank rank(options, engine, network, nullptr);
    auto mine = rank.run(link ? &link->bytes_per_second : nullptr);
    if (engine.rank() == 0) row = std::move(mine);
  });
  finish(options, row);
}

void run_mpi(const MeanOptions& options, std::optional<Link> link) {
  run_under_mpi([&](MpiSession& mpi) {
    Transport& world = mpi.world();
    if (options.ranks != 0 && options.ranks != world.size())
      fail(Code::kInvalidArgument,
           "--ranks {} but mpirun started {}: leave --ranks out or make them equal", options.ranks,
           world.size());
    std::shared_ptr<Network> network;
    const int per_node = std::max(1, options.ranks_per_node);
    if (link) {  // processes cannot share a card, so each gets its share of it
      Link share = *link;
      share.bytes_per_second /= per_node;
      network = std::make_shared<Network>(world.size(), per_node, share);
    }
    Rank rank(options, world, network, &mpi);
    const auto row = rank.run(link ? &link->bytes_per_second : nullptr);
    if (world.rank() == 0) finish(options, row);
  });
}

void run(const MeanOptions& options, bool ranks_given) {
  std::optional<Link> link;
  if (!options.emulate.empty()) link = parse_link(options.emulate);
  if (options.transport == "threads") {
    if (under_mpirun())
      fail(Code::kInvalidArgument,
           "under mpirun every process would start ranks of its own: add --transport mpi");
    return run_on_threads(options, link);
  }
  MeanOptions mpi = options;
  if (!ranks_given) mpi.ranks = 0;
  run_mpi(mpi, link);
}

}  // namespace

void add_bench_mean(CLI::App& bench) {
  auto options = std::make_shared<MeanOptions>();
  CLI::App* command =
      bench.add_subcommand("mean", "The mean of one vector over ranks: time, bytes, rounds");
  command->footer(
      "Examples:\n"
      "  laconic bench mean --kind one-bit --elements 26214400 --ranks 4 --emulate 100mbit\n"
      "  laconic bench mean --kind random-sign --form single-round --elements 4194304 --ranks 4 "
      "--ranks-per-node 2\n"
      "  laconic bench mean --kind coded --codec bf16 --ranks 4\n"
      "  mpirun -n 2 laconic bench mean --kind one-bit --elements 26214400 --transport mpi");
  command
      ->add_option("--kind", options->kind,
                   "dense, one-bit, random-sign, vote, or coded: by --codec")
      ->check(CLI::IsMember({"dense", "one-bit", "random-sign", "vote", "coded"}))
      ->capture_default_str();
  const auto codecs = mean_codecs();
  command->add_option("--codec", options->codec, fmt::format("coded: {}", fmt::join(codecs, ", ")))
      ->check(CLI::IsMember(std::vector<std::string>(codecs.begin(), codecs.end())))
      ->capture_default_str();
  command
      ->add_option("--form", options->form,
                   "random-sign: two-round, single-round or count; vote: two-round or count")
      ->check(CLI::IsMember({"two-round", "single-round", "count"}))
      ->capture_default_str();
  command->add_option("--wire", options->wire, "dense: fp32 or bf16 on the wire")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  command->add_option("--elements", options->elements, "Length of the vector")
      ->capture_default_str();
  auto* ranks =
      command->add_option("--ranks", options->ranks, "Ranks (under mpirun: what it started)")
          ->check(CLI::Range(1, 1024))
          ->capture_default_str();
  command
      ->add_option("--ranks-per-node", options->ranks_per_node,
                   "Ask for the hierarchy: ranks of a node")
      ->check(CLI::Range(1, 1024));
  command->add_option("--transport", options->transport, "threads or mpi")
      ->check(CLI::IsMember({"threads", "mpi"}))
      ->capture_default_str();
  command->add_option("--emulate", options->emulate,
                      "A slow network between nodes: RATE[,LATENCY], e.g. 1gbit,50us");
  command
      ->add_option("--scale-block", options->scale_block,
                   "one-bit: elements per scale; 0: one scale per chunk")
      ->capture_default_str();
  command->add_option("--repeats", options->repeats, "Timed runs (fewer when they take long)")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--threads", options->threads, "Threads per rank (default: cores/ranks)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", options->json, "An array of objects instead of a table");
  command->callback([options, ranks] { run(*options, ranks->count() > 0); });
}

}  // namespace laconic::app::commands
