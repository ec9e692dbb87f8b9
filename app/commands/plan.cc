#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/commands/commands.h"
#include "app/mpi.h"
#include "app/plan/models.h"
#include "app/plan/probe.h"
#include "app/plan/text.h"
#include "app/units.h"
#include "laconic/core/error.h"

namespace laconic::app::commands {
namespace {

constexpr const char* kExample =
    "laconic plan --model bert-base --nodes 8 --per-node 8 --inter 10gbit,20us --intra 600gbit,3us "
    "--step-ms 90";

struct PlanOptions {
  std::string recipe, model, parameters, inter, intra, sweep, html, dense_codec;
  std::int64_t steps = 100'000;
  int nodes = 0, per_node = 1, shards = 0, threads = 1;
  double step_ms = -1, backward = 2.0 / 3, memory_gb = 0, batch = 0;
  std::size_t bucket_elements = OptimizerConfig{}.bucket_elements;
  std::vector<std::string> optimizers = plan::default_optimizers();
  bool json = false, shares_cores = false, bf16 = false, probe = false;

  bool wants_cluster() const { return nodes != 0 || !model.empty() || !parameters.empty(); }
};

// What --probe found. Links and hosts only where a launcher started several ranks.
struct Probe {
  laconic::plan::Speeds speeds = {};
  std::vector<plan::Host> hosts = {};
  std::optional<Link> inter = {}, intra = {};
};

Probe probe(Transport& world) {
  Probe found{.speeds = plan::measure_speeds(), .hosts = plan::hosts_of(world)};
  const auto slowest = [](const std::vector<plan::PairLink>& links) -> std::optional<Link> {
    std::optional<Link> least;
    for (const plan::PairLink& pair : links)
      if (!least || pair.link.bytes_per_second < least->bytes_per_second) least = pair.link;
    return least;
  };
  if (found.hosts.size() > 1)
    found.inter = slowest(plan::measure_links(world, plan::pairs_of(found.hosts)));
  if (found.hosts.front().ranks.size() > 1)
    found.intra = slowest(
        plan::measure_links(world, {{found.hosts.front().ranks[0], found.hosts.front().ranks[1]}}));
  return found;
}

// The launcher's ranks are the cluster, unless the options describe another.
void use(const Probe& found, PlanOptions& options, plan::Plan& plan) {
  plan.scenario.speeds = found.speeds;
  plan.notes.push_back("coding speed: measured on one thread of this machine");
  if (found.hosts.empty()) return;
  const auto ranks = static_cast<int>(found.hosts.front().ranks.size());
  for (const plan::Host& host : found.hosts)
    if (static_cast<int>(host.ranks.size()) != ranks)
      fail(Code::kInvalidArgument, "{} has {} ranks, {} has {}: start equally many on each host",
           host.name, host.ranks.size(), found.hosts.front().name, ranks);
  if (options.nodes == 0) {
    options.nodes = static_cast<int>(found.hosts.size());
    options.per_node = ranks;
  }
  const auto measured = [&](const char* what, const std::optional<Link>& link, std::string& text) {
    if (!link || !text.empty()) return;
    text =
        fmt::format("{:.0f}bit,{:.3f}us", 8 * link->bytes_per_second, 1e6 * link->latency_seconds);
    plan.notes.push_back(fmt::format("{}: measured, {} and {}", what,
                                     rate_text(link->bytes_per_second),
                                     time_text(link->latency_seconds)));
  };
  measured("links inside a node", found.intra, options.intra);
  measured("links between nodes", found.inter, options.inter);
  if (found.hosts.size() == 1)
    measured("links between nodes: all ranks are on one host, so what is between two of them",
             found.intra, options.inter);
}

laconic::plan::Cluster cluster_of(const PlanOptions& options) {
  laconic::plan::Cluster cluster{
      .nodes = options.nodes, .per_node = options.per_node, .inter = {}, .intra = {}};
  const auto link = [](const char* name, const std::string& text, bool needed) -> Link {
    if (!text.empty()) return parse_link(text);
    if (needed) fail(Code::kInvalidArgument, "{} is missing, as in: {}", name, kExample);
    return {};
  };
  cluster.inter = link("--inter RATE[,LATENCY]", options.inter, options.nodes > 1);
  cluster.intra =
      link("--intra RATE[,LATENCY]", options.intra, options.per_node > 1 && options.shards == 0);
  return cluster;
}

laconic::plan::Work work_of(const PlanOptions& options) {
  if (options.model.empty() && options.parameters.empty())
    fail(Code::kInvalidArgument, "give --model NAME or --params N, as in: {}", kExample);
  if (options.step_ms < 0)
    fail(Code::kInvalidArgument,
         "give --step-ms, the time of forward and backward on one rank, as in: {}", kExample);
  return {.parameters = options.parameters.empty() ? plan::parameters_of(options.model)
                                                   : parse_count(options.parameters, "--params"),
          .step_seconds = options.step_ms / 1e3,
          .backward_share = options.backward,
          .bucket_elements = options.bucket_elements,
          .shares_cores = options.shares_cores};
}

// The shares of exact, coded and local steps: a recipe's, or the defaults for so many steps.
void set_schedules(const PlanOptions& options, plan::Plan& plan) {
  auto& rounds = plan.scenario.rounds;
  if (!options.recipe.empty()) {
    const laconic::plan::Recipe& recipe = laconic::plan::recipe(options.recipe);
    for (const std::string& name : plan::planned_optimizers()) rounds[name] = recipe.rounds(name);
    plan.notes.push_back(fmt::format("steps of the recipe {}", recipe.name));
    return;
  }
  for (const std::string& name : plan::planned_optimizers())
    rounds[name] = laconic::plan::default_rounds(name, options.steps);
  plan.notes.push_back(
      fmt::format("a run of {} steps with the default schedules of each optimizer", options.steps));
}

void set_speeds(const PlanOptions& options, bool probed, plan::Plan& plan) {
  constexpr double kReferenceMemory = 20;  // GB/s of one core where the defaults were measured
  double times = options.threads;
  if (options.memory_gb > 0) {
    times *= options.memory_gb / kReferenceMemory;
    plan.notes.push_back(
        fmt::format("coding speed: scaled from the recorded one to {} GB/s of memory (assumed)",
                    options.memory_gb));
  } else if (!probed) {
    plan.notes.push_back(
        "coding speed: recorded on one core of the machine of bench/results/kernels.json; --probe "
        "measures this one");
  }
  plan.scenario.speeds = plan.scenario.speeds.faster(times);
}

void set_shards(int shards, plan::Plan& plan) {
  laconic::plan::shard(plan.scenario.cluster, plan.scenario.work, shards);
  plan.shards = shards;
  plan.notes.push_back(fmt::format(
      "FSDP over {} shards in each node: a rank has {} parameters and 1/{} of its node's link; "
      "--step-ms contains what FSDP sends inside the node",
      shards, plan.scenario.work.parameters, shards));
}

plan::Plan make_plan(PlanOptions options, const std::optional<Probe>& found) {
  plan::Plan plan;
  if (found) use(*found, options, plan);
  plan.model = options.model.empty() ? "model" : options.model;
  plan.scenario.cluster = cluster_of(options);
  plan.scenario.work = work_of(options);
  if (options.shards > 0) set_shards(options.shards, plan);
  plan.scenario.optimizers = options.optimizers;
  plan.scenario.bf16 = options.bf16;
  plan.scenario.dense_codec = options.dense_codec;
  if (!options.dense_codec.empty())
    plan.notes.push_back(
        fmt::format("dense steps of methods with dense_codec: {}", options.dense_codec));
  plan.batch = options.batch;
  set_schedules(options, plan);
  set_speeds(options, found.has_value(), plan);
  plan.arms = plan::compare(plan.scenario);
  plan.best = plan::best_exchanges(plan.arms);
  plan.advice = plan::advice(plan.scenario, plan.arms);
  if (!options.sweep.empty() || !options.html.empty()) {
    constexpr int kPoints = 41;
    const auto [from, to] =
        parse_sweep(options.sweep.empty() ? "inter=100mbit..400gbit" : options.sweep);
    plan.sweep = plan::sweep(plan.scenario, plan.best, from, to, kPoints);
  }
  return plan;
}

void write_page(const plan::Plan& plan, const std::string& path) {
  std::ofstream file(path);
  file << plan::to_page(plan);
  file.close();
  if (!file) fail(Code::kFile, "cannot write {}: is its folder there and writable?", path);
}

void show(const PlanOptions& options, const std::optional<Probe>& found) {
  const plan::Plan plan = make_plan(options, found);
  if (!options.html.empty()) write_page(plan, options.html);
  options.json ? fmt::print("{}\n", plan::to_json(plan).dump(2)) : plan::print(plan);
}

void run(const PlanOptions& options) {
  if (!options.recipe.empty() && !options.wants_cluster()) {
    const laconic::plan::Recipe& recipe = laconic::plan::recipe(options.recipe);
    options.json ? fmt::print("{}\n", plan::to_json(recipe).dump(2)) : plan::print(recipe);
    return;
  }
  if (!options.probe) return show(options, {});
  if (!under_mpirun()) return show(options, Probe{.speeds = plan::measure_speeds()});
  run_under_mpi([&](MpiSession& mpi) {
    const Probe found = probe(mpi.world());
    if (mpi.world().rank() == 0) show(options, found);
  });
}

void add_cluster_options(CLI::App& command, PlanOptions& options) {
  command.add_option("--nodes", options.nodes, "Nodes of the cluster");
  command.add_option("--per-node", options.per_node, "Ranks of a node")->capture_default_str();
  command
      .add_option("--shards", options.shards,
                  "FSDP over so many ranks of each node, laconic between nodes")
      ->check(CLI::Range(1, 1024));
  command.add_option("--inter", options.inter,
                     "A node's link to the others: RATE[,LATENCY], e.g. 10gbit,20us");
  command.add_option("--intra", options.intra, "A rank's link inside its node, e.g. 600gbit,3us");
}

void add_work_options(CLI::App& command, PlanOptions& options) {
  auto* model = command.add_option("--model", options.model, "A model by name, e.g. bert-base");
  command.add_option("--params", options.parameters, "Parameters of the model, e.g. 1.1e8 or 110M")
      ->excludes(model);
  command.add_option("--step-ms", options.step_ms, "Forward and backward of one rank alone");
  command.add_option("--backward", options.backward, "The share of it that is backward")
      ->check(CLI::Range(0.0, 1.0));
  command.add_option("--batch", options.batch, "Samples of a rank and step, for samples/s")
      ->check(CLI::PositiveNumber);
  command.add_option("--bucket-elements", options.bucket_elements, "Of the exchange")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 32))
      ->capture_default_str();
  command.add_option("--steps", options.steps, "Length of the run, for the schedules")
      ->check(CLI::Range(std::int64_t{10}, std::int64_t{1} << 30))
      ->capture_default_str();
}

void add_coding_options(CLI::App& command, PlanOptions& options) {
  command.add_option("--threads", options.threads, "Threads that code on a rank")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      .add_option("--memory-gb-per-s", options.memory_gb,
                  "Memory bandwidth of what codes (recorded speeds: 20; a V100: 700)")
      ->check(CLI::PositiveNumber);
  command.add_flag("--shares-cores", options.shares_cores,
                   "Coding runs on the cores that compute the gradients");
  command.add_flag("--probe", options.probe,
                   "Measure the coding speed here and, under mpirun, the links");
  auto* bf16 = command.add_flag("--bf16", options.bf16, "Exact steps of methods that code in bf16");
  command
      .add_option("--dense-codec", options.dense_codec,
                  "Dense steps of methods with this option: fp32, bf16, int8 or int4")
      ->check(CLI::IsMember({"fp32", "bf16", "int8", "int4"}))
      ->excludes(bf16);
}

}  // namespace

void add_plan(CLI::App& app) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command =
      app.add_subcommand("plan", "Will it pay? Step times of dense and coded exchanges");
  command->footer(fmt::format(
      "Examples:\n  {}\n"
      "  laconic plan --params 110000000 --nodes 16 --inter 1gbit,50us --step-ms 300 --sweep "
      "inter=100mbit..100gbit --html plan.html\n"
      "  laconic plan --recipe bert-large\n"
      "  mpirun -n 8 --host a:4,b:4 laconic plan --model gpt2 --step-ms 250 --probe",
      kExample));
  command->add_option("--recipe", options->recipe,
                      "Volume and rounds of a published schedule: bert-base, bert-large, gpt2, "
                      "imagenet; with a cluster: its schedule");
  add_cluster_options(*command, *options);
  add_work_options(*command, *options);
  add_coding_options(*command, *options);
  command->add_option("--optimizers", options->optimizers, "Which, with commas between")
      ->delimiter(',')
      ->check(CLI::IsMember(plan::planned_optimizers()));
  command->add_option("--sweep", options->sweep, "Rates between nodes, inter=100mbit..100gbit");
  command->add_option("--html", options->html, "Also write a page with a plot to this file");
  command->add_flag("--json", options->json, "An object instead of a table");
  command->callback([options] { run(*options); });
}

}  // namespace laconic::app::commands
