#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "app/commands/command_line.h"
#include "app/commands/compare.h"
#include "app/failure.h"
#include "app/machine.h"
#include "app/report/comparison_table.h"
#include "app/report/file.h"
#include "app/report/format.h"
#include "app/report/frontier.h"
#include "app/report/html.h"
#include "app/report/text_table.h"
#include "app/report/verdict.h"
#include "app/training/equal_time.h"
#include "app/training/launch.h"
#include "app/units.h"
#include "laconic/core/error.h"
#include "laconic/optim/method.h"

namespace laconic::app::commands {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

bool always_exact(const std::string& name) {
  return std::ranges::any_of(
      methods(), [&](const Method* method) { return method->exact && method->name == name; });
}

// As they are run: the first is the baseline; one that is dense comes with its bf16 form beside it.
std::vector<std::string> arms_of(const std::vector<std::string>& wanted) {
  std::vector<std::string> arms;
  for (const std::string& text : wanted)
    for (const std::string& name : training::combinations(text)) {
      if (std::ranges::find(arms, name) != arms.end()) continue;
      arms.push_back(name);
      const std::string bf16 = name + "-bf16";
      if (arms.size() == 1 && always_exact(name) && std::ranges::find(wanted, bf16) == wanted.end())
        arms.push_back(bf16);
    }
  return arms;
}

constexpr const char* kDiverged = "diverged.txt";
constexpr double kRateStep = 3;        // between the rates that --tune tries
constexpr std::size_t kMostRates = 5;  // of them
constexpr double kRehearsed = 0.1;     // of the time of a run, at most

json or_null(std::optional<double> value) { return value ? json(*value) : json(); }

class Comparison {
 public:
  explicit Comparison(const CompareOptions& options)
      : options_(options),
        given_(options.run.assignments()),
        arms_(arms_of(options.optimizers)),
        launcher_(command_line()) {
    for (const std::string& text : options.gates) gates_.emplace_back(text);
    if (!options.network.empty()) parse_link(options.network);
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
    std::vector<std::string> names;  // of arms that did not diverge, and their runs
    std::vector<std::vector<training::FinishedRun>> runs;
    if (options_.seconds > 0 && launcher_.speaks())
      fmt::print("{} optimizers, {} of training each{}: about {} in all, and validation\n",
                 arms_.size(), report::human_seconds(options_.seconds),
                 options_.seeds > 1 ? fmt::format(" for each of {} seeds", options_.seeds) : "",
                 report::human_seconds(options_.seconds * options_.seeds *
                                       static_cast<double>(arms_.size())));
    for (const std::string& arm : arms_) {
      if (options_.tune > 0) tune(arm);
      if (options_.seconds > 0) calibrate(arm);
      auto of_arm = runs_of(arm);
      if (of_arm.empty()) continue;  // it diverged
      names.push_back(arm);
      runs.push_back(std::move(of_arm));
      if (launcher_.speaks())
        training::check_target(options_.target, runs.back().back().summary.value("metric", ""));
    }
    std::vector<double> seconds;
    for (std::size_t i = 0; i < runs.size() && !options_.network.empty(); ++i)
      seconds.push_back(network_seconds(names[i], runs[i]));
    if (!launcher_.speaks()) return;
    json arms = json::array();
    for (const auto& one : runs) arms.push_back(training::summarize_arm(one));
    for (std::size_t i = 0; i < seconds.size(); ++i) arms[i]["network_seconds"] = seconds[i];
    training::add_times_to_baseline(arms, runs, 0);
    if (options_.target) training::add_times_to_target(arms, runs, options_.target);
    for (json& arm : arms) {
      if (const auto found = calibrated_.find(arm["optimizer"]); found != calibrated_.end())
        arm["calibration"] = found->second;
      if (const auto found = tuned_.find(arm["optimizer"]); found != tuned_.end())
        arm["tuning"] = found->second;
    }
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
    if (const auto found = tuned_.find(arm); found != tuned_.end())
      config.lr = found->second.at("lr").get<double>();
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

  // Chooses the rate of an arm, by the loss on the tuning set: what is reported has no part in it.
  // Three rates around the usual one, and further ones while the best is the least or the largest.
  void tune(const std::string& arm) {
    const training::RunConfig usual = config_of(arm, 0);
    std::map<double, double> losses;  // by rate; of one that diverges infinite
    for (const double lr : {usual.lr / kRateStep, usual.lr, usual.lr * kRateStep})
      losses[lr] = tuning_loss(usual, lr);
    const auto best = [&] {
      return std::ranges::min_element(losses, {}, [](const auto& one) { return one.second; });
    };
    while (losses.size() < kMostRates && best() == losses.begin()) {
      const double lr = best()->first / kRateStep;
      losses[lr] = tuning_loss(usual, lr);
    }
    while (losses.size() < kMostRates && best() == std::prev(losses.end())) {
      const double lr = best()->first * kRateStep;
      losses[lr] = tuning_loss(usual, lr);
    }
    json tried = json::array();
    for (const auto& [lr, loss] : losses)
      tried.push_back({{"lr", lr}, {"loss", std::isfinite(loss) ? json(loss) : json()}});
    tuned_[arm] = {{"lr", best()->first}, {"steps", options_.tune}, {"tried", tried}};
    if (launcher_.speaks())
      fmt::print("{}: of {} rates {:g} is the best on the tuning set\n", arm, losses.size(),
                 best()->first);
  }

  double tuning_loss(training::RunConfig config, double lr) {
    config.lr = lr;
    config.steps = config.validate_every = config.optimizer.total_steps = options_.tune;
    config.data.validate_on = "tuning";
    config.out =
        base_.out / "tuning" / fmt::format("{}-{:g}", training::folder_name(config.arm), lr);
    const auto run =
        run_one(config, fmt::format("{}, tuning at a rate of {:g}", config.arm, lr), true);
    return launcher_.of_speaker(run ? run->summary.value("final_loss", 0.0)
                                    : std::numeric_limits<double>::infinity());
  }

  // Mean over seeds: the steps they took, each as long as its kind takes on that network.
  double network_seconds(const std::string& arm, const std::vector<training::FinishedRun>& runs) {
    training::RunConfig config = config_of(arm, 0);
    config.emulate = options_.network;
    config.out = base_.out / "network";
    if (launcher_.speaks()) fmt::print("== {}: some steps on {}\n", arm, options_.network);
    std::fflush(stdout);
    const training::StepTimes times = rehearsed(config, 2 * training::rehearsal_steps(config));
    double sum = 0;
    for (const training::FinishedRun& run : runs) sum += training::seconds_of(run.records, times);
    return sum / static_cast<double>(runs.size());
  }

  // One for each seed; none if one of them diverged, which a frontier goes on after. The baseline
  // must not.
  std::vector<training::FinishedRun> runs_of(const std::string& arm) {
    std::vector<training::FinishedRun> runs;
    for (int s = 0; s < options_.seeds; ++s) {
      const training::RunConfig config = config_of(arm, s);
      auto run = run_one(config, fmt::format("{}, seed {}", arm, config.seed),
                         options_.frontier && arm != arms_.front());
      if (!run) {
        diverged_[arm] = report::read_text(config.out / kDiverged);
        return {};
      }
      runs.push_back(std::move(*run));
    }
    return runs;
  }

  static void check_kept(const json& summary, const training::RunConfig& config) {
    training::check_resumable(summary.at("config").get<std::map<std::string, std::string>>(),
                              training::to_text(config));
    if (const auto steps = summary.at("steps").get<std::int64_t>(); steps != config.steps)
      fail(Code::kInvalidArgument,
           "{} has a run of {} steps, not {}: resume with the same, or choose another --out",
           config.out.string(), steps, config.steps);
  }

  // A run that was stopped left a checkpoint; of another length, it is another run.
  bool can_go_on(const training::RunConfig& config) const {
    if (!options_.resume || !fs::exists(config.out / "checkpoint/manifest.json")) return false;
    const training::RunConfig saved = training::resumed_config(config.out, {});
    training::check_resumable(training::to_text(saved), training::to_text(config));
    return saved.steps == config.steps;
  }

  // Nothing: it diverged, and `may_diverge`; the folder has why.
  std::optional<training::FinishedRun> run_one(const training::RunConfig& config,
                                               const std::string& title, bool may_diverge) {
    training::FinishedRun finished{config.out.filename().string(), {}, {}};
    const bool kept = options_.resume && fs::exists(config.out / "summary.json");
    if (launcher_.speaks()) fmt::print("== {}{}\n", title, kept ? " (kept)" : "");
    if (kept) {
      finished.summary = json::parse(report::read_text(config.out / "summary.json"));
      check_kept(finished.summary, config);
    } else if (options_.resume && may_diverge && fs::exists(config.out / kDiverged)) {
      return {};
    } else {
      try {
        training::Outcome outcome =
            can_go_on(config)
                ? launcher_.run(training::resumed_config(config.out, {}), training::Start::kResume)
                : launcher_.run(config, start());
        if (outcome.stopped_by != 0) throw Exit{kSignalBase + outcome.stopped_by};
        finished.summary = std::move(outcome.summary);
      } catch (const Diverged& why) {
        if (!may_diverge) throw;
        report::replace_text(config.out / kDiverged, why.what());
        fmt::print("{}: {}\n", config.arm, why.what());
        return {};
      }
    }
    if (launcher_.speaks()) finished.records = report::read_metrics(config.out / "metrics.jsonl");
    return finished;
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
                    {"network", options_.network.empty() ? json() : json(options_.network)},
                    {"baseline", arms_.front()},
                    {"command", command_line()},
                    {"version", first["version"]},
                    {"torch", first["torch"]},
                    {"machine", machine()},
                    {"arms", arms}};
    if (options_.frontier) {
      summary["frontier"] = report::frontier_of(arms);
      summary["diverged"] = diverged_;
    }
    fmt::print("\n{}",
               report::comparison_table(summary, report::line_width(stdout, std::string::npos)));
    const std::string verdict = report::verdict(summary), target = report::time_to_target(summary);
    if (!verdict.empty()) summary["verdict"] = verdict;
    report::replace_text(base_.out / "summary.json", summary.dump(2) + "\n");
    for (const std::string& sentence : {target, verdict, report::frontier_text(summary)})
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
  std::map<std::string, json> tuned_;       // by arm, with --tune
  std::map<std::string, std::string> diverged_;
};

}  // namespace

void compare(const CompareOptions& options) { Comparison(options).run(); }

}  // namespace laconic::app::commands
