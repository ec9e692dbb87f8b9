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
#include "app/report/text_table.h"
#include "app/report/verdict.h"
#include "app/training/comparison.h"
#include "app/training/equal_time.h"
#include "app/training/launch.h"
#include "laconic/core/error.h"
#include "laconic/optim/method.h"

namespace laconic::app::commands {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct CompareOptions {
  RunOptions run;
  std::vector<std::string> optimizers, gates;
  int seeds = 1;
  double seconds = 0;  // of training for each arm; 0: the same steps
  training::Target target;
  bool resume = false, overwrite = false;
};

bool always_exact(const std::string& name) {
  return std::ranges::any_of(
      methods(), [&](const Method* method) { return method->exact && method->name == name; });
}

// As they are run: the first is the baseline; one that is dense comes with its bf16 form beside it.
std::vector<std::string> arms_of(const std::vector<std::string>& wanted) {
  std::vector<std::string> arms;
  for (const std::string& name : wanted) {
    if (std::ranges::find(arms, name) != arms.end()) continue;
    arms.push_back(name);
    const std::string bf16 = name + "-bf16";
    if (arms.size() == 1 && always_exact(name) && std::ranges::find(wanted, bf16) == wanted.end())
      arms.push_back(bf16);
  }
  return arms;
}

constexpr double kRehearsed = 0.1;  // of the time of a run, at most

json or_null(std::optional<double> value) { return value ? json(*value) : json(); }

class Comparison {
 public:
  explicit Comparison(const CompareOptions& options)
      : options_(options),
        given_(options.run.assignments()),
        arms_(arms_of(options.optimizers)),
        launcher_(command_line()) {
    for (const std::string& text : options.gates) gates_.emplace_back(text);
    for (const training::Assignment& one : given_)
      if (options.seconds > 0 && one.first == "run.steps")
        fail(
            Code::kInvalidArgument,
            "--seconds {:g} and {} steps exclude each other: each optimizer takes as many steps as "
            "fit into the time; leave out --seconds, or --steps (run.steps of a config file)",
            options.seconds, one.second);
    base_ = config_of(arms_.front(), 0);
    if (base_.out == default_out())
      base_.out = fmt::format("runs/compare-{}-{}", base_.data.task, base_.model.name);
    for (const std::string& arm : arms_)
      config_of(arm, 0);  // every name is checked before any is run
  }

  void run() {
    std::vector<std::vector<training::FinishedRun>> runs;
    if (options_.seconds > 0 && launcher_.speaks())
      fmt::print("{} optimizers, {} of training each{}: about {} in all, and validation\n",
                 arms_.size(), report::human_seconds(options_.seconds),
                 options_.seeds > 1 ? fmt::format(" for each of {} seeds", options_.seeds) : "",
                 report::human_seconds(options_.seconds * options_.seeds *
                                       static_cast<double>(arms_.size())));
    for (const std::string& arm : arms_) {
      if (options_.seconds > 0) calibrate(arm);
      runs.emplace_back();
      for (int s = 0; s < options_.seeds; ++s) {
        runs.back().push_back(run_one(arm, s));
        if (launcher_.speaks())
          training::check_target(options_.target, runs.back().back().summary.value("metric", ""));
      }
    }
    if (!launcher_.speaks()) return;
    json arms = json::array();
    for (const auto& one : runs) arms.push_back(training::summarize_arm(one));
    training::add_times_to_baseline(arms, runs, 0);
    if (options_.target) training::add_times_to_target(arms, runs, options_.target);
    for (json& arm : arms)
      if (const auto found = calibrated_.find(arm["optimizer"]); found != calibrated_.end())
        arm["calibration"] = found->second;
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
    if (const auto found = calibrated_.find(arm); found != calibrated_.end())
      config.steps = found->second.at("steps").get<std::int64_t>();
    config.seed += static_cast<std::uint32_t>(number);
    config = training::resolved(std::move(config));
    if (!base_.out.empty())
      config.out = base_.out / fmt::format("{}-seed{}", training::folder_name(arm), config.seed);
    return config;
  }

  training::Start start() const {
    return options_.resume || options_.overwrite ? training::Start::kOverwrite
                                                 : training::Start::kFresh;
  }

  // The steps of an arm that take as long as was asked for, equal on all ranks and for all seeds.
  // A resumed comparison keeps those of the runs that it has.
  void calibrate(const std::string& arm) {
    const fs::path file = base_.out / "calibration" / (training::folder_name(arm) + ".json");
    json found = json::object();
    if (options_.resume && launcher_.speaks() && fs::exists(file))
      found = json::parse(report::read_text(file));
    const bool measures = launcher_.of_speaker(found.empty() ? 1 : 0) != 0;
    if (measures) found = measured(arm);
    const double asked = launcher_.of_speaker(found.value("seconds_asked", 0.0));
    if (asked != options_.seconds)
      fail(Code::kInvalidArgument,
           "the comparison in {} was started with --seconds {:g}: resume with the same, or choose "
           "another --out",
           base_.out.string(), asked);
    found["steps"] = static_cast<std::int64_t>(launcher_.of_speaker(found.value("steps", 0.0)));
    calibrated_[arm] = found;
    if (!launcher_.speaks()) return;
    fmt::print("{} steps of {} fit into {}\n", found.at("steps").get<std::int64_t>(), arm,
               report::human_seconds(options_.seconds));
    if (!measures) return;
    fs::create_directories(file.parent_path());
    report::replace_text(file, found.dump(2) + "\n");
  }

  json measured(const std::string& arm) {
    const training::RunConfig config = config_of(arm, 0);
    if (launcher_.speaks()) fmt::print("\n== {}: some steps to see how long they take\n", arm);
    std::fflush(stdout);
    const std::int64_t few = training::rehearsal_steps(config);
    training::StepTimes times = rehearsed(config, few);
    // Where those are over in a moment, more of them: a busy machine is slow for seconds.
    const auto more = static_cast<std::int64_t>(launcher_.of_speaker(
        static_cast<double>(training::steps_within(kRehearsed * options_.seconds, config, times))));
    if (more > 2 * few) times = rehearsed(config, more);
    return {{"seconds_asked", options_.seconds},
            {"steps", training::steps_within(options_.seconds, config, times)},
            {"step_seconds", times}};
  }

  training::StepTimes rehearsed(training::RunConfig config, std::int64_t steps) {
    config.steps = config.optimizer.total_steps = steps;
    const training::Rehearsal rehearsal = launcher_.rehearse(config, start());
    if (rehearsal.stopped_by != 0) throw Exit{kSignalBase + rehearsal.stopped_by};
    return training::step_times(rehearsal.steps);
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
      training::Outcome outcome = launcher_.run(config, start());
      if (outcome.stopped_by != 0) throw Exit{kSignalBase + outcome.stopped_by};
      finished.summary = std::move(outcome.summary);
    }
    if (launcher_.speaks()) finished.records = report::read_metrics(config.out / "metrics.jsonl");
    return finished;
  }

  void print(const json& arms) const {
    report::TextTable table;
    table.column("optimizer", 9);
    table.column("loss", 5);
    table.column(arms[0]["metric"].get<std::string>(), 8);
    table.column("steps", options_.seconds > 0 ? 7 : 0);
    table.column("seconds", options_.seconds > 0 ? 6 : 0);
    table.column("bits/parameter/step", 4);
    table.column("rounds", 1);
    table.column("bytes/rank", 3);
    table.column("step", 4);
    table.column("exposed", 2);
    table.column(options_.target ? "to target" : "to baseline's", 6);
    for (const json& arm : arms) {
      const auto number = [&](const char* field) { return arm[field].get<double>(); };
      const char* reached = options_.target ? "seconds_to_target" : "seconds_to_baseline";
      table.row(
          {arm["optimizer"].get<std::string>(),
           fmt::format("{:.4f} ± {:.4f}", number("final_loss_mean"), number("final_loss_spread")),
           fmt::format("{:.4f} ± {:.4f}", number("final_metric_mean"),
                       number("final_metric_spread")),
           fmt::format("{}", arm["steps"].get<std::int64_t>()),
           report::human_seconds(number("training_seconds")),
           fmt::format("{:.3f}", number("bits_per_parameter_per_step")),
           fmt::format("{}", arm["rounds"].get<std::int64_t>()),
           report::human_bytes(number("bytes_sent_per_rank")),
           report::human_seconds(number("step_seconds")),
           report::human_seconds(number("exposed_seconds")),
           arm[reached].is_null() ? "not reached" : report::human_seconds(number(reached))});
    }
    fmt::print("\n{}± is the standard deviation over {} seed(s)",
               table.text(report::line_width(stdout, std::string::npos)), options_.seeds);
    if (options_.target)
      fmt::print("\n");
    else
      fmt::print(
          "; \"to baseline's\": within 1 % of {}'s last accuracy, or validation loss where there "
          "is none\n",
          arms_.front());
  }

  void write(const json& arms) const {
    json seeds = json::array();
    for (int s = 0; s < options_.seeds; ++s)
      seeds.push_back(base_.seed + static_cast<std::uint32_t>(s));
    const json& first = arms.front();
    json summary = {{"task", base_.data.task},
                    {"model", base_.model.name},
                    {"ranks", first["ranks"]},
                    {"steps", options_.seconds > 0 ? json() : json(base_.steps)},
                    {"seconds_asked", options_.seconds > 0 ? json(options_.seconds) : json()},
                    {"target_loss", or_null(options_.target.loss)},
                    {"target_metric", or_null(options_.target.metric)},
                    {"seeds", seeds},
                    {"emulate", first["emulate"]},
                    {"baseline", arms_.front()},
                    {"command", command_line()},
                    {"version", first["version"]},
                    {"torch", first["torch"]},
                    {"machine", machine()},
                    {"arms", arms}};
    const std::string verdict = report::verdict(summary), target = report::time_to_target(summary);
    if (!verdict.empty()) summary["verdict"] = verdict;
    report::replace_text(base_.out / "summary.json", summary.dump(2) + "\n");
    for (const std::string& sentence : {target, verdict})
      if (!sentence.empty()) fmt::print("{}\n", sentence);
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

  const CompareOptions& options_;
  std::vector<training::Assignment> given_;
  std::vector<std::string> arms_;
  std::vector<training::Gate> gates_;
  training::RunConfig base_;
  training::Launcher launcher_;
  std::map<std::string, json> calibrated_;  // by arm, with --seconds
};

}  // namespace

void add_compare(CLI::App& app) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command = app.add_subcommand(
      "compare", "Train with several optimizers on the same data order and seeds");
  command->footer(
      "The first optimizer is the baseline; a dense one is also run with bf16 on the wire.\n"
      "Examples:\n"
      "  laconic compare --task fashion-mnist --model resnet8 --ranks 4 --seeds 3\n"
      "  laconic compare --task text --data book.txt --model gpt2-mini --optimizers "
      "adamw,one-bit-adam --emulate 100mbit\n"
      "  laconic compare --task fashion-mnist --model resnet8 --emulate 20mbit --seconds 30 "
      "--target-metric 80%\n"
      "  laconic compare --config run.toml --fail-if 'loss>+1%' --fail-if 'bits>2'");
  add_run_options(*command, options->run);
  command->option_defaults()->group("The comparison");
  options->optimizers = plan::default_optimizers();
  command
      ->add_option(
          "--optimizers", options->optimizers,
          "Methods, joined by commas, perhaps with options (adamw:codec=int4:feedback=ema); "
          "the first is the baseline")
      ->delimiter(',')
      ->type_name("A,B,…")
      ->capture_default_str();
  command
      ->add_option("--seconds", options->seconds,
                   "The same training time for each instead of the same steps: a short rehearsal "
                   "fixes how many steps fit")
      ->type_name("S")
      ->check(CLI::Range(0.01, 1e9));
  command
      ->add_option_function<std::string>(
          "--target-loss",
          [options](const std::string& text) {
            options->target.loss = training::parse_target(text, "--target-loss");
          },
          "Report the time until the validation loss is this low")
      ->type_name("X");
  command
      ->add_option_function<std::string>(
          "--target-metric",
          [options](const std::string& text) {
            options->target.metric = training::parse_target(text, "--target-metric");
          },
          "Report the time until the accuracy (0.84 or 84%) or the perplexity is this good")
      ->type_name("X")
      ->excludes("--target-loss");
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
