#include "app/training/trainer.h"

#include <torch/torch.h>

#include <cmath>
#include <optional>

#include "app/failure.h"
#include "app/models/model.h"
#include "app/report/file.h"
#include "app/report/progress.h"
#include "app/report/tensorboard.h"
#include "app/training/control.h"
#include "app/training/device.h"
#include "app/training/evaluation.h"
#include "app/training/guard.h"
#include "app/training/model_file.h"
#include "app/training/module_state.h"
#include "app/training/summary.h"
#include "laconic/checkpoint/checkpoint.h"
#include "laconic/core/error.h"
#include "laconic/core/hash.h"

namespace laconic::app::training {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kDivergedAfter = 5;  // steps in a row without a finite loss

torch::DataParallelConfig parallel_config(const RunConfig& config) {
  torch::DataParallelConfig parallel{.optimizer = config.optimizer, .groups = {}, .grouping = {}};
  parallel.optimizer.threads = config.threads;
  if (config.optimizer.weight_decay > 0) {
    // Vectors first: their bucket is complete only when backward ends, and the last one is
    // exchanged first.
    parallel.groups = {{.name = "vectors"},
                       {.name = "matrices", .weight_decay = config.optimizer.weight_decay}};
    parallel.grouping = [](const std::string&, const ::torch::Tensor& parameter) {
      return parameter.dim() > 1 ? std::size_t{1} : std::size_t{0};
    };
  }
  return parallel;
}

std::shared_ptr<models::Network> initial_model(const Training& run) {
  ::at::set_num_threads(run.config.threads);
  auto model = models::make_model(run.config.model, run.data->shape(), run.config.seed);
  if (!run.config.init.empty()) read_model(run.config.init, *model, Names::kShared);
  model->to(device_of(run.config.optimizer));
  model->train();
  return model;
}

class Rank {
 public:
  Rank(const Training& run, Transport& engine)
      : run_(run),
        config_(run.config),
        engine_(engine),
        control_(engine),
        emulated_(run.network ? make_emulated(engine, run.network) : nullptr),
        model_(initial_model(run)),
        parallel_(model_, parallel_config(config_), emulated_ ? *emulated_ : engine),
        order_(run.data->size(data::Split::kTrain), config_.seed),
        lr_(learning_rate(config_)) {}

  Outcome train() {
    if (run_.resume) resume();
    open_files();
    if (!config_.trace.empty()) optimizer().trace(true);
    for (std::int64_t t = first_ + 1; t <= config_.steps; ++t) {
      step(t);
      if (const int signal = finish_step(t)) {
        write_trace();
        return {{}, signal};
      }
    }
    write_trace();
    return finish();
  }

  Rehearsal rehearse() {
    Rehearsal rehearsal;
    for (std::int64_t t = 1; t <= config_.steps && stop_ == 0; ++t) {
      step(t);
      rehearsal.steps.push_back(pending_);
    }
    listen();
    rehearsal.stopped_by = stop_;
    return rehearsal;
  }

 private:
  Optimizer& optimizer() { return parallel_.optimizer(); }
  bool first_rank() const { return engine_.rank() == 0; }
  fs::path checkpoint_path() const { return config_.out / "checkpoint"; }

  void resume() {
    const Manifest manifest = read_manifest(checkpoint_path());
    const auto data = fmt::format("{:016x}", run_.data->fingerprint());
    if (manifest.extra.at("data") != data)
      fail(Code::kInvalidArgument,
           "the run was started on data with the fingerprint {}, this is {}: give the same --data",
           manifest.extra.at("data"), data);
    if (manifest.ranks != engine_.size() && !config_.elastic)
      fail(
          Code::kInvalidArgument,
          "the checkpoint is of {} ranks, this run has {}: start as many, or give --elastic, which "
          "goes on with any number but not to the same bits",
          manifest.ranks, engine_.size());
    std::vector<double> buffers = pack_buffers(*model_);
    const Resume how = load_checkpoint(checkpoint_path(), optimizer(), buffers);
    unpack_buffers(buffers, *model_);
    first_ = std::stoll(manifest.extra.at("step"));
    done_ = json::parse(manifest.extra.at("done")).get<Done>();
    if (config_.optimizer.guard && manifest.extra.contains("guard")) {
      guard_.restore(json::parse(manifest.extra.at("guard")));
      optimizer().exchange_exactly(guard_.left());
    }
    resumed_ =
        fmt::format("resumed at step {}{}", first_,
                    how == Resume::kExact ? "" : " on other ranks: residuals were redistributed");
  }

  void open_files() {
    if (!first_rank()) return;
    fs::create_directories(config_.out);
    std::optional<std::int64_t> keep;
    if (first_ > 0) keep = first_;
    metrics_.emplace(config_.out / "metrics.jsonl", keep);
    if (config_.tensorboard) events_.emplace(config_.out);
    report::ProgressConfig progress{.terminal = report::is_terminal(stdout),
                                    .first_step = first_,
                                    .steps = config_.steps,
                                    .parameters = parameters(),
                                    .ranks = engine_.size(),
                                    .now = {}};
    progress_.emplace(progress);
    progress_->say(describe());
    progress_->say(fmt::format("{}; {} examples per step; lr {:g}, {}; writing to {}",
                               run_.data->describe(),
                               config_.batch * config_.accumulate * engine_.size(), config_.lr,
                               config_.decay, config_.out.string()));
    if (!resumed_.empty()) progress_->say(resumed_);
  }

  // Rank 0 writes the file itself, the others beside it: trace.json, trace.rank1.json, …
  void write_trace() {
    if (config_.trace.empty()) return;
    optimizer().trace(false);
    fs::path path = config_.trace;
    if (!first_rank())
      path.replace_extension(fmt::format("rank{}{}", engine_.rank(), path.extension().string()));
    if (path.has_parent_path()) fs::create_directories(path.parent_path());
    report::replace_text(path, optimizer().traced());
  }

  std::uint64_t parameters() { return optimizer().model().weights.size(); }

  std::string describe() {
    return fmt::format("{}, {}{}, {} {} on {}, torch {} with {} thread(s) per rank",
                       optimizer().describe(), run_.engine,
                       config_.emulate.empty() ? "" : ", emulated network " + config_.emulate,
                       config_.data.task, config_.model.name, place_of_model(config_.optimizer),
                       TORCH_VERSION, config_.threads);
  }

  void step(std::int64_t t) {
    const auto began = Clock::now();
    model_->reseed(config_.seed, engine_.rank(), t);
    parallel_.begin(lr_(t), config_.accumulate);
    double loss = 0;
    for (int a = 0; a < config_.accumulate; ++a) {
      const std::int64_t place = (t - 1) * config_.accumulate + a + 1;
      run_.data->read(
          data::Split::kTrain,
          data::examples_of(order_, place, engine_.rank(), engine_.size(), config_.batch),
          static_cast<std::uint64_t>(place), batch_);
      const auto& shape = run_.data->shape();
      const auto inputs = models::inputs_of(batch_, shape).to(model_->device());
      const auto one = models::loss_of(model_->forward(inputs), models::targets_of(batch_, shape));
      optimizer().note("forward");
      one.backward();
      loss += one.item<double>() / config_.accumulate;
    }
    const auto computed = Clock::now();
    parallel_.step();
    const auto now = Clock::now();
    loss_ = loss;
    record(t, seconds(began, now), seconds(computed, now));
  }

  using Clock = std::chrono::steady_clock;
  static double seconds(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  }

  void record(std::int64_t t, double took, double exposed) {
    const StepStats& stats = optimizer().stats();
    settle();
    const std::uint64_t bytes = stats.bytes_inside + stats.bytes_between;
    done_.bytes += bytes;
    done_.bytes_inside += stats.bytes_inside;
    done_.seconds += took;
    (stats.kind == "dense"     ? done_.dense
     : stats.kind == "coded"   ? done_.coded
     : stats.kind == "skipped" ? done_.skipped
                               : done_.silent)++;
    pending_ = report::StepRecord{.step = t,
                                  .lr = lr_(t),
                                  .kind = stats.kind,
                                  .bytes = bytes,
                                  .bytes_total = done_.bytes,
                                  .seconds = done_.seconds,
                                  .step_seconds = took,
                                  .exposed_seconds = exposed,
                                  .waited_seconds = {},
                                  .bad_blocks = static_cast<std::int64_t>(stats.bad_blocks),
                                  .residual_ratio = {},
                                  .exchange = stats.exchange,
                                  .validation_loss = {},
                                  .validation_metric = {}};
    if (stats.waited_seconds > 0) pending_.waited_seconds = stats.waited_seconds;
    if (stats.kind == "coded") pending_.residual_ratio = stats.residual_ratio;
    if (!stats.exchange.empty()) guard_.stepped();
    if (stats.exchange != exchange_ && !stats.exchange.empty()) {
      exchange_ = stats.exchange;
      say(fmt::format("from step {} on the exchange is {}", t, exchange_));
    }
    control_.post(loss_, stats.residual_ratio, run_.stop != nullptr ? run_.stop->load() : 0);
  }

  void say(const std::string& line) {
    if (progress_) progress_->say(line);
  }

  // A spike is answered with exact steps. REQUIRES: all ranks got the same values.
  void guard(const Control::Gathered& gathered) {
    if (!config_.optimizer.guard) return;
    std::optional<double> residual;
    if (pending_.residual_ratio) residual = gathered.residual;
    if (const auto why = guard_.look(gathered.loss, residual)) {
      optimizer().exchange_exactly(Guard::kExactSteps);
      say(fmt::format("guard: at step {} {}; the next {} coded steps are exact", pending_.step,
                      *why, Guard::kExactSteps));
    }
  }

  // Reads what all ranks sent about the last step.
  void listen() {
    const auto gathered = control_.take();
    if (!gathered) return;
    stop_ = gathered->stop;
    pending_.loss = gathered->loss;
    heard_ = true;
    guard(*gathered);
  }

  // Writes down the last step, now that all ranks have sent their loss.
  void settle() {
    listen();
    if (!heard_) return;
    heard_ = false;
    if (metrics_) {
      metrics_->append(pending_);
      progress_->update(pending_);
      tell_tensorboard();
    }
    without_loss_ = std::isfinite(pending_.loss) ? 0 : without_loss_ + 1;
    if (without_loss_ >= kDivergedAfter)
      throw Diverged(fmt::format(
          "the loss was not finite for {} steps, up to step {}: lower --lr (it is {:g})",
          without_loss_, pending_.step, config_.lr));
  }

  void tell_tensorboard() {
    if (!events_) return;
    events_->append(pending_.step, {{"loss", pending_.loss},
                                    {"lr", pending_.lr},
                                    {"bytes_total", static_cast<double>(pending_.bytes_total)},
                                    {"step_seconds", pending_.step_seconds}});
    if (pending_.validation_loss)
      events_->append(pending_.step, {{"validation_loss", *pending_.validation_loss},
                                      {"validation_metric", *pending_.validation_metric}});
  }

  // The signal that stopped the run, once the checkpoint is written; 0: go on.
  int finish_step(std::int64_t t) {
    const bool last = t == config_.steps;
    const bool saves = config_.checkpoint_every > 0 && (last || t % config_.checkpoint_every == 0);
    const bool validates = last || t % config_.validate_every == 0;
    const bool stops = stop_ != 0;  // requested one step ago, so that all ranks know it here
    if (last) optimizer().synchronize();
    if (validates) {
      listen();
      const Looking looking(parallel_);
      const Quality quality = look(config_.validation_examples);
      pending_.validation_loss = quality.loss;
      pending_.validation_metric = quality.metric;
    }
    if (validates || saves || stops) settle();
    if (saves || stops) save(t);
    if (stops && !last) {
      if (progress_) progress_->finish();
      return stop_;
    }
    return 0;
  }

  Quality look(std::int64_t examples) {
    return evaluate(*model_, *run_.data, examples, config_.batch, control_.transport());
  }

  void save(std::int64_t t) {
    const json config = to_text(config_);
    save_checkpoint(checkpoint_path(), optimizer(),
                    {{"config", config.dump()},
                     {"done", json(done_).dump()},
                     {"step", fmt::format("{}", t)},
                     {"data", fmt::format("{:016x}", run_.data->fingerprint())},
                     {"guard", guard_.state().dump()},
                     {"describe", describe()}},
                    pack_buffers(*model_));
  }

  Outcome finish() {
    const Looking looking(parallel_);
    const Quality quality = look(0);
    if (!std::isfinite(quality.loss))
      throw Diverged(
          fmt::format("the validation loss is not finite after {} steps: lower --lr (it is {:g})",
                      config_.steps, config_.lr));
    const std::uint64_t hash = agreed_hash();
    if (!first_rank()) return {};
    const json config = to_text(config_);
    write_model(config_.out / "model.safetensors", *model_,
                {{"config", config.dump()}, {"describe", describe()}});
    Outcome outcome{summary(run_, {.done = done_,
                                   .quality = quality,
                                   .parameters = parameters(),
                                   .ranks = engine_.size(),
                                   .weights_hash = hash,
                                   .describe = describe()}),
                    0};
    report::replace_text(config_.out / "summary.json", outcome.summary.dump(2) + "\n");
    metrics_->close();
    progress_->finish();
    return outcome;
  }

  // Of the synced weights, which must be the same on all ranks.
  std::uint64_t agreed_hash() {
    const std::uint64_t mine = hash64(std::as_bytes(optimizer().weights()));
    const std::vector<std::uint64_t> all = control_.transport().gather(mine);
    for (std::size_t r = 1; r < all.size(); ++r)
      if (all[r] != all[0])
        fail(Code::kMismatch,
             "the weights of rank {} ({:016x}) and of rank 0 ({:016x}) differ at the end", r,
             all[r], all[0]);
    return mine;
  }

  const Training& run_;
  const RunConfig& config_;
  Transport& engine_;
  Control control_;
  std::unique_ptr<Transport> emulated_;
  std::shared_ptr<models::Network> model_;
  torch::DataParallel parallel_;
  data::Order order_;
  LearningRate lr_;

  std::int64_t first_ = 0;  // steps that were done before
  Done done_;
  std::string resumed_;
  double loss_ = 0;
  int stop_ = 0, without_loss_ = 0;
  bool heard_ = false;
  report::StepRecord pending_;
  Guard guard_;
  std::string exchange_;  // as last reported
  data::Batch batch_;
  std::optional<report::MetricsFile> metrics_;
  std::optional<report::EventFile> events_;
  std::optional<report::Progress> progress_;
};

}  // namespace

Rehearsal rehearse(const Training& run, Transport& engine) { return Rank(run, engine).rehearse(); }

Outcome train(const Training& run, Transport& engine) { return Rank(run, engine).train(); }

}  // namespace laconic::app::training
