#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "app/commands/command_line.h"
#include "app/commands/commands.h"
#include "app/commands/run_options.h"
#include "app/failure.h"
#include "app/machine.h"
#include "app/plan/arms.h"
#include "app/report/file.h"
#include "app/report/format.h"
#include "app/report/html.h"
#include "app/training/comparison.h"
#include "app/training/launch.h"
#include "laconic/core/error.h"

namespace laconic::app::commands {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Options {
  RunOptions run;
  std::vector<std::string> optimizers, gates;
  int seeds = 1;
  bool resume = false, overwrite = false;
};

// As they are run: the first is the baseline; one that is dense comes with its bf16 form beside it.
std::vector<std::string> arms_of(const std::vector<std::string>& wanted) {
  std::vector<std::string> arms;
  for (const std::string& name : wanted) {
    if (std::ranges::find(arms, name) != arms.end()) continue;
    arms.push_back(name);
    const std::string bf16 = name + "-bf16";
    const bool dense = name == "adamw" || name == "sgdm";
    if (arms.size() == 1 && dense && std::ranges::find(wanted, bf16) == wanted.end())
      arms.push_back(bf16);
  }
  return arms;
}

class Comparison {
 public:
  explicit Comparison(const Options& options)
      : options_(options),
        given_(options.run.assignments()),
        arms_(arms_of(options.optimizers)),
        launcher_(command_line()) {
    for (const std::string& text : options.gates) gates_.emplace_back(text);
    base_ = config_of(arms_.front(), 0);
    if (base_.out == default_out())
      base_.out = fmt::format("runs/compare-{}-{}", base_.data.task, base_.model.name);
    for (const std::string& arm : arms_)
      config_of(arm, 0);  // every name is checked before any is run
  }

  void run() {
    std::vector<std::vector<training::FinishedRun>> runs;
    for (const std::string& arm : arms_) {
      runs.emplace_back();
      for (int s = 0; s < options_.seeds; ++s) runs.back().push_back(run_one(arm, s));
    }
    if (!launcher_.speaks()) return;
    json arms = json::array();
    for (const auto& one : runs) arms.push_back(training::summarize_arm(one));
    training::add_times_to_baseline(arms, runs, 0);
    print(arms);
    write(arms);
    check(arms);
  }

 private:
  fs::path default_out() const {
    training::RunConfig plain = base_;
    plain.out.clear();
    return training::resolved(plain).out;
  }

  training::RunConfig config_of(const std::string& arm, int number) const {
    training::RunConfig config;
    for (const training::Assignment& one : given_) training::assign(config, one);
    config.arm = arm;
    config.seed += static_cast<std::uint32_t>(number);
    config = training::resolved(std::move(config));
    if (!base_.out.empty()) config.out = base_.out / fmt::format("{}-seed{}", arm, config.seed);
    return config;
  }

  training::FinishedRun run_one(const std::string& arm, int number) {
    const training::RunConfig config = config_of(arm, number);
    training::FinishedRun finished{config.out.filename().string(), {}, {}};
    if (launcher_.speaks()) fmt::print("== {}, seed {}\n", arm, config.seed);
    if (options_.resume && fs::exists(config.out / "summary.json")) {
      finished.summary = json::parse(report::read_text(config.out / "summary.json"));
      training::check_resumable(
          finished.summary.at("config").get<std::map<std::string, std::string>>(),
          training::to_text(config));
    } else {
      training::Outcome outcome =
          launcher_.run(config, options_.resume || options_.overwrite ? training::Start::kOverwrite
                                                                      : training::Start::kFresh);
      if (outcome.stopped_by != 0) throw Exit{kSignalBase + outcome.stopped_by};
      finished.summary = std::move(outcome.summary);
    }
    if (launcher_.speaks()) finished.records = report::read_metrics(config.out / "metrics.jsonl");
    return finished;
  }

  void print(const json& arms) const {
    fmt::print("\n{:<16} {:>17} {:>17} {:>9} {:>7} {:>11} {:>10} {:>10} {:>14}\n", "optimizer",
               "loss", arms[0]["metric"].get<std::string>(), "bits/p/s", "rounds", "bytes/rank",
               "step", "exposed", "to baseline's");
    for (const json& arm : arms) {
      const auto number = [&](const char* field) { return arm[field].get<double>(); };
      fmt::print(
          "{:<16} {:>9.4f} ± {:.4f} {:>9.4f} ± {:.4f} {:>9.3f} {:>7} {:>11} {:>10} {:>10} {:>14}\n",
          arm["optimizer"].get<std::string>(), number("final_loss_mean"),
          number("final_loss_spread"), number("final_metric_mean"), number("final_metric_spread"),
          number("bits_per_parameter_per_step"), arm["rounds"].get<std::int64_t>(),
          report::human_bytes(number("bytes_sent_per_rank")),
          report::human_seconds(number("step_seconds")),
          report::human_seconds(number("exposed_seconds")),
          arm["seconds_to_baseline"].is_null()
              ? "not reached"
              : report::human_seconds(number("seconds_to_baseline")));
    }
    fmt::print(
        "± is the standard deviation over {} seed(s); \"to baseline's\": within 1 % of {}'s last "
        "accuracy, or validation loss where there is none\n",
        options_.seeds, arms_.front());
  }

  void write(const json& arms) const {
    json seeds = json::array();
    for (int s = 0; s < options_.seeds; ++s)
      seeds.push_back(base_.seed + static_cast<std::uint32_t>(s));
    const json& first = arms.front();
    const json summary = {{"task", base_.data.task},
                          {"model", base_.model.name},
                          {"ranks", first["ranks"]},
                          {"steps", base_.steps},
                          {"seeds", seeds},
                          {"emulate", first["emulate"]},
                          {"baseline", arms_.front()},
                          {"command", command_line()},
                          {"version", first["version"]},
                          {"torch", first["torch"]},
                          {"machine", machine()},
                          {"arms", arms}};
    report::replace_text(base_.out / "summary.json", summary.dump(2) + "\n");
    report::replace_text(base_.out / "report.html", report::render({base_.out}));
    fmt::print("{}\n", (base_.out / "report.html").string());
  }

  void check(const json& arms) const {
    bool failed = false;
    for (const training::Gate& gate : gates_)
      for (std::size_t i = 1; i < arms.size(); ++i)
        if (const std::string why = gate.violation(arms[i], arms[0]); !why.empty()) {
          fmt::print(stderr, "laconic: {}\n", why);
          failed = true;
        }
    if (failed) throw Exit{kGateFailed};
  }

  const Options& options_;
  std::vector<training::Assignment> given_;
  std::vector<std::string> arms_;
  std::vector<training::Gate> gates_;
  training::RunConfig base_;
  training::Launcher launcher_;
};

}  // namespace

void add_compare(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "compare", "Train with several optimizers on the same data order and seeds");
  command->footer(
      "The first optimizer is the baseline; a dense one is also run with bf16 on the wire.\n"
      "Examples:\n"
      "  laconic compare --task fashion-mnist --model resnet8 --ranks 4 --seeds 3\n"
      "  laconic compare --task text --data book.txt --model gpt2-mini --optimizers "
      "adamw,one-bit-adam --emulate 100mbit\n"
      "  laconic compare --config run.toml --fail-if 'loss>+1%' --fail-if 'bits>2'");
  add_run_options(*command, options->run);
  options->optimizers = plan::default_optimizers();
  command
      ->add_option("--optimizers", options->optimizers,
                   "Names, joined by commas; the first is the baseline")
      ->delimiter(',')
      ->type_name("A,B,…")
      ->capture_default_str();
  command->add_option("--seeds", options->seeds, "Runs of each, with seeds S, S+1, …")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--fail-if", options->gates,
                   "End with exit code 6 if an arm meets this, e.g. \"loss>+1%\"")
      ->type_name("CONDITION")
      ->allow_extra_args(false);
  command->add_flag("--resume", options->resume, "Keep the runs in --out that are finished");
  command->add_flag("--overwrite", options->overwrite, "Replace results that are in --out")
      ->excludes("--resume");
  command->callback([options] { Comparison(*options).run(); });
}

}  // namespace laconic::app::commands
