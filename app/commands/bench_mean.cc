#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <optional>

#include "app/commands/commands.h"
#include "app/commands/mean_rank.h"
#include "laconic/core/error.h"
#include "laconic/transport/threads.h"

namespace laconic::app::commands {
namespace {

// Sweeps time short vectors more often: medians of few times moved by a third from run to run.
constexpr std::size_t kShort = std::size_t{4} << 20;
constexpr int kMostOften = 16;

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

// One line per size, as nccl-tests prints them; times of a mean in microseconds.
void print_sweep(const MeanOptions& options, const nlohmann::json& rows) {
  if (options.json) return fmt::print("{}\n", rows.dump(2));
  std::vector<std::string> names;
  std::map<std::size_t, std::map<std::string, double>> lines;
  for (const nlohmann::json& row : rows) {
    const std::string name = row["codec"];
    auto& line = lines[row["elements"].get<std::size_t>()];
    line[name] = 1e6 * row["seconds"].get<double>();
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    // Each codec was timed beside it: the quickest has the least of the others' noise.
    if (!row.contains("mpi_allreduce_seconds")) continue;
    const double theirs = 1e6 * row["mpi_allreduce_seconds"].get<double>();
    auto [at, fresh] = line.try_emplace("MPI_Allreduce", theirs);
    if (!fresh) at->second = std::min(at->second, theirs);
  }
  if (!lines.empty() && lines.begin()->second.contains("MPI_Allreduce"))
    names.insert(names.begin(), "MPI_Allreduce");
  fmt::print(
      "# means of fp32 vectors over {} ranks, {}{}{}; microseconds, median of {} (of short vectors "
      "up to {})\n",
      rows.front()["ranks"].get<int>(), options.transport,
      options.emulate.empty() ? "" : ", emulated ", options.emulate, options.repeats,
      kMostOften * options.repeats);
  fmt::print("{:>10} {:>11}", "elements", "bytes");
  for (const std::string& name : names)
    fmt::print(" {:>{}}", name, std::max<std::size_t>(9, name.size()));
  fmt::print("\n");
  for (const auto& [elements, line] : lines) {
    fmt::print("{:>10} {:>11}", elements, 4 * elements);
    for (const std::string& name : names) {
      const bool exact_is_quicker = line.at(name) > line.at("fp32") && name != "MPI_Allreduce";
      fmt::print(" {:>{}}", fmt::format("{:.1f}{}", line.at(name), exact_is_quicker ? "*" : ""),
                 std::max<std::size_t>(9, name.size()));
    }
    fmt::print("\n");
  }
  fmt::print("# *: the exact mean, fp32, is quicker at this length: exchange = auto takes it\n");
}

void finish(const MeanOptions& options, const nlohmann::json& rows) {
  options.sweep ? print_sweep(options, rows) : print(options, rows.front());
  for (const nlohmann::json& row : rows)
    if (!row["verified"].get<bool>())
      fail(Code::kCorrupt,
           "the result of {} is wrong: it differs between ranks or from what went in",
           row["what"].get<std::string>());
}

// What the options ask for: one mean, or every codec at every fourfold size up to --elements.
std::vector<MeanOptions> asked(const MeanOptions& options) {
  if (!options.sweep) return {options};
  std::vector<MeanOptions> all;
  for (std::size_t elements = 1024; elements <= options.elements; elements *= 4)
    for (const std::string_view codec : mean_codecs()) {
      MeanOptions one = options;
      one.kind = "coded";
      one.codec = codec;
      one.codec_down.clear();
      one.elements = elements;
      one.repeats *= std::clamp<int>(static_cast<int>(kShort / elements), 1, kMostOften);
      all.push_back(one);
    }
  return all;
}

nlohmann::json rows_of(const std::vector<MeanOptions>& all, Transport& engine,
                       const std::shared_ptr<Network>& network, MpiSession* mpi,
                       const std::optional<Link>& link) {
  nlohmann::json rows = nlohmann::json::array();
  for (const MeanOptions& one : all)
    rows.push_back(
        MeanRank(one, engine, network, mpi).run(link ? &link->bytes_per_second : nullptr));
  return rows;
}

void run_on_threads(const MeanOptions& options, std::optional<Link> link) {
  std::shared_ptr<Network> network;
  if (link)
    network = std::make_shared<Network>(options.ranks, std::max(1, options.ranks_per_node), *link);
  const std::vector<MeanOptions> all = asked(options);
  nlohmann::json rows;
  run_threads(options.ranks, [&](Transport& engine) {
    auto mine = rows_of(all, engine, network, nullptr, link);
    if (engine.rank() == 0) rows = std::move(mine);
  });
  finish(options, rows);
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
    const auto rows = rows_of(asked(options), world, network, &mpi, link);
    if (world.rank() == 0) finish(options, rows);
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
      "  laconic bench mean --codec bf16 --ranks 4\n"
      "  laconic bench mean --codec top-k --codec-down int4\n"
      "  mpirun -n 2 laconic bench mean --sweep --transport mpi\n"
      "  mpirun -n 2 laconic bench mean --kind one-bit --elements 26214400 --transport mpi");
  auto* kind =
      command
          ->add_option("--kind", options->kind,
                       "dense, one-bit, random-sign, vote, or coded: by --codec, which implies it")
          ->check(CLI::IsMember({"dense", "one-bit", "random-sign", "vote", "coded"}))
          ->capture_default_str();
  const auto codecs = mean_codecs();
  auto* codec =
      command
          ->add_option("--codec", options->codec, fmt::format("coded: {}", fmt::join(codecs, ", ")))
          ->check(CLI::IsMember(std::vector<std::string>(codecs.begin(), codecs.end())))
          ->capture_default_str();
  auto* codec_down =
      command
          ->add_option(
              "--codec-down", options->codec_down,
              "coded: another codec for the mean on its way back (default: int8 beside top-k, "
              "else --codec)")
          ->check(CLI::IsMember(std::vector<std::string>(codecs.begin(), codecs.end())));
  command
      ->add_option("--form", options->form,
                   "random-sign: two-round, single-round or count; vote: two-round or count")
      ->check(CLI::IsMember({"two-round", "single-round", "count"}))
      ->capture_default_str();
  command->add_option("--wire", options->wire, "dense: fp32 or bf16 on the wire")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  auto* elements = command->add_option("--elements", options->elements, "Length of the vector")
                       ->capture_default_str();
  command->add_flag("--sweep", options->sweep,
                    "Every codec, from 1 Ki elements to --elements (64 Mi where none are given) in "
                    "steps of four, beside MPI's all-reduce under mpirun");
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
  command->callback([=] {
    if (const auto* given = codec->count() > 0 ? codec : codec_down; given->count() > 0) {
      if (kind->count() == 0) options->kind = "coded";
      if (options->kind != "coded")
        fail(Code::kInvalidArgument, "{} is of coded means, and --kind is {}: leave --kind out",
             given->get_name(), options->kind);
    }
    if (options->sweep && elements->count() == 0) options->elements = std::size_t{64} << 20;
    run(*options, ranks->count() > 0);
  });
}

}  // namespace laconic::app::commands
