#include "laconic/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "laconic/core/error.h"
#include "laconic/core/hash.h"
#include "laconic/kernels/dense.h"
#include "laconic/optim/checks.h"
#include "laconic/optim/choice.h"
#include "laconic/optim/courier.h"
#include "laconic/optim/method.h"
#include "laconic/optim/queue.h"
#include "laconic/optim/rest.h"
#include "laconic/optim/rule.h"
#include "laconic/optim/schedule.h"
#include "laconic/transport/metered.h"

namespace laconic::inline optim {
namespace {

void check_rate(const char* what, double value) {
  if (!(value >= 0) || !std::isfinite(value))
    fail(Code::kInvalidArgument, "a {} of {}: it must be finite and at least 0", what, value);
}

// Where fragment `f` of `fragments` begins in a group of `elements`.
std::size_t cut(std::size_t elements, int f, int fragments) {
  const auto parts = static_cast<std::size_t>(fragments), part = static_cast<std::size_t>(f);
  const std::size_t whole = elements / parts * part + (elements % parts * part + parts - 1) / parts;
  return std::min(elements, (whole + 63) / 64 * 64);
}

class FlatOptimizer final : public Optimizer {
 public:
  FlatOptimizer(const OptimizerConfig& config, const Model& model, Transport& transport)
      : config_(validated(config)),
        method_(method_named(config_.algorithm)),
        model_(completed(model, config_)),
        transport_(transport),
        metered_(make_metered(transport, traffic_, std::max(0, config_.ranks_per_node))),
        nodes_(make_nodes(*metered_, config_.ranks_per_node)),
        device_(make_host_device(config_.threads)),
        schedule_(method_.make_schedule(config_)) {
    agree_on_setup(*metered_, config_, model_);
    if (spacing_.delay > 0) courier_ = std::make_unique<Courier>(transport_, config_);
    // One rank, or one node, has nothing to choose from: its means are exact, or go nowhere.
    const bool coded_ways =
        !dense() && transport_.size() > 1 && nodes_.nodes > 1 && spacing_.delay == 0;
    const bool chooses = coded_ways && config_.exchange == ExchangeForm::kAuto;
    may_switch_ = coded_ways && (chooses || config_.guard);
    if (chooses && nodes_.per_node > 1) flat_ = make_nodes(*metered_, kFlat);
    if (model_.may_rest) rest_ = std::make_unique<Rest>(model_, *metered_, spacing_.fragments);
    shadow_.ranges = model_.ranges;
    shadow_.sums.resize(model_.ranges.size());
    now_.resize(model_.groups.size());
    std::size_t begin = 0;
    for (const Group& group : model_.groups) {
      add_buckets(group, now_[static_cast<std::size_t>(&group - model_.groups.data())], begin);
      begin += group.elements;
    }
    if (chooses)
      choice_ = std::make_unique<Choice>(config_, nodes_, flat_.world ? &flat_ : nullptr, *device_,
                                         switching_);
    if (courier_) courier_->serve(buckets(), [this](int b) { rule(b).deliver(); });
    queue_ = std::make_unique<StepQueue>(
        buckets(), [this](int b) { work(b); }, [this] { transport_.idle(); });
  }

  void begin(double lr) override {
    if (begun_) fail(Code::kInvalidArgument, "begin was called twice: finish the step first");
    check_rate("learning rate", lr);
    for (std::size_t i = 0; i < now_.size(); ++i)
      now_[i] = {lr * model_.groups[i].lr_factor, model_.groups[i].weight_decay};
    begin_at(lr);
  }

  void begin(std::span<const GroupStep> groups) override {
    if (begun_) fail(Code::kInvalidArgument, "begin was called twice: finish the step first");
    begin_at(take_rates(groups));
  }
  bool defers() const noexcept override { return model_.deferred && dense() && !waits_for_all(); }
  void change_rates(std::span<const GroupStep> groups) override {
    if (!begun_ || !defers())
      fail(Code::kInvalidArgument,
           "change_rates needs a step that has begun and a method that defers: give the rates to "
           "begin()");
    step_ = schedule_->plan(counters_, take_rates(groups));
  }
  void absent(std::size_t range) override {
    if (!begun_ || !rest_)
      fail(Code::kInvalidArgument, "absent({}) {}", range,
           rest_ ? "before begin: give the learning rate first"
                 : "in a model whose ranges never rest: set Model::may_rest");
    rest_->absent(range);
  }
  void ready(int bucket) override {
    if (!begun_) fail(Code::kInvalidArgument, "ready before begin: give the learning rate first");
    if (bucket < 0 || bucket >= buckets())
      fail(Code::kInvalidArgument, "bucket {}: there are {}", bucket, buckets());
    queue_->ready(bucket, !waits_for_all() && acts());
  }

  void step(Finish wish) override {
    if (!begun_) fail(Code::kInvalidArgument, "step before begin: give the learning rate first");
    if (wish != Finish::kApply && !defers())
      fail(Code::kInvalidArgument,
           "this step cannot be undone: only exact methods with Model::deferred can");
    begun_ = false;
    if (rest_) rest_->all_known();
    bool taken = true;
    if (waits_for_all()) {
      taken = finish_together();
    } else if (acts()) {
      queue_->finish();
      if (defers()) taken = finish_deferred(wish);
    }
    if (taken) count();
    report(taken);
    note_weights();
    if (taken) verify();
  }

  void exchange_exactly(int steps) override {
    if (!config_.guard || begun_ || steps < 0)
      fail(Code::kInvalidArgument,
           "exchange_exactly({}) {}: give at least 0, between steps, with guard = true in the "
           "configuration",
           steps,
           begun_          ? "inside a step"
           : config_.guard ? ""
                           : "without guard");
    exact_left_ = steps;
  }

  void synchronize() override {
    if (begun_) fail(Code::kInvalidArgument, "synchronize inside a step: call step() first");
    if (counters_.open() == 0) return;
    Step now = step_;
    now.t = static_cast<std::int64_t>(counters_.t());
    now.variance_updates = static_cast<std::int64_t>(counters_.variance_updates());
    shadow_.on = false;
    now.kind = Step::Kind::kCoded;
    now.fragment = kAllFragments;
    now.delay = 0;
    const bool agrees = rest_ && method_.spacing;
    if (agrees) rest_->begin_between_steps();
    for (int b = buckets() - 1; b >= 0; --b) {
      rule(b).arrive(now);
      rule(b).synchronize_around(now, agrees ? rest_->of(b, false) : std::span<const Piece>{});
    }
    if (agrees) rest_->synchronized();
    counters_.open() = 0;
    counters_.last_sync() = counters_.t();
    note_weights();
  }

  bool exchanges_next() const override {
    Counters now = counters_;
    const Step next = schedule_->plan(now, now.lr_before());
    return std::ranges::any_of(
        rules_, [&](const auto& one) { return one->exchanges(next) || one->arrives(next); });
  }

  int buckets() const noexcept override { return static_cast<int>(buckets_.size()); }
  NamedRange bucket(int index) const override {
    const Bucket& bucket = buckets_.at(static_cast<std::size_t>(index));
    return {bucket.group.name, bucket.begin, bucket.x.size()};
  }

  void synced_weights(std::span<float> out) const override {
    if (out.size() != model_.weights.size())
      fail(Code::kInvalidArgument, "a span of {} for {} weights", out.size(),
           model_.weights.size());
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      const auto from = started_ ? rules_[b]->synced() : std::span<const float>(buckets_[b].x);
      std::memcpy(out.data() + buckets_[b].begin, from.data(), from.size_bytes());
    }
  }

  std::vector<State> state() override {
    if (!started_) start_rules();
    std::vector<State> all;
    for (std::size_t b = 0; b < rules_.size(); ++b)
      for (State& one : rules_[b]->state()) {
        one.name = fmt::format("bucket{}/{}", b, one.name);
        all.push_back(std::move(one));
      }
    all.push_back({"counters", {}, Spread::kScalar, 0, counters_.values()});
    if (rest_)
      for (State& one : rest_->state()) all.push_back(std::move(one));
    return all;
  }

  void redistribute(int bucket, const std::map<std::string, std::vector<float>>& whole) override {
    Step now = schedule_->plan(counters_, counters_.lr_before());
    now.t = static_cast<std::int64_t>(counters_.t());
    now.variance_updates = static_cast<std::int64_t>(counters_.variance_updates());
    rule(bucket).restored(counters_.frozen_at() != 0);
    rule(bucket).redistribute(whole, now);
    if (bucket + 1 == buckets()) {
      counters_.open() = 0;
      counters_.last_sync() = counters_.t();
      if (rest_) rest_->other_ranks();
    }
  }

  void restored() override {
    started_ = counters_.t() > 0;
    step_ = {};
    stats_ = {};
    stats_.step = static_cast<std::int64_t>(counters_.t());
    for (const auto& one : rules_) one->restored(counters_.frozen_at() != 0);
    for (SwitchingMean* mean : switching_) mean->restored();
    note_weights();
  }

  // Their threads use the rest.
  ~FlatOptimizer() override {
    queue_.reset();
    if (courier_) courier_->stop();
  }

  const OptimizerConfig& config() const noexcept override { return config_; }
  const Model& model() const noexcept override { return model_; }
  Transport& transport() const noexcept override { return transport_; }
  const StepStats& stats() const noexcept override { return stats_; }
  std::int64_t steps_taken() const noexcept override { return stats_.step; }
  const Totals& totals() const noexcept override { return totals_; }

  std::string describe() const override {
    return fmt::format("{}, {} parameters in {} bucket(s), {}", method_.name, model_.weights.size(),
                       buckets(),
                       rules_.empty() ? "nothing to exchange" : rules_.front()->describe());
  }

 private:
  // Weights that were written to between two steps.
  void take_up_weights() {
    if (!watches() || hash_of_weights() == hash_) return;
    if (counters_.open() != 0)
      fail(Code::kInvalidArgument,
           "the weights were written to after step {}, between two syncs, where every rank has "
           "weights of its own: write to them after synchronize()",
           stats_.step);
    for (const auto& one : rules_) one->adopt();
  }
  void note_weights() {
    if (watches()) hash_ = hash_of_weights();
  }
  bool watches() const {
    return model_.watched && started_ && !rules_.empty() && rules_.front()->keeps_weights();
  }
  std::uint64_t hash_of_weights() const { return hash64(std::as_bytes(model_.weights)); }

  // A step of one bucket, on the queue's thread.
  void work(int b) {
    if (step_.freezes) rule(b).freeze();
    if (defers()) return rule(b).average(step_);
    if (method_.spacing) {
      rule(b).move(step_, rest_ ? rest_->absent_in(b) : std::span<const Piece>{});
      rule(b).arrive(step_);
      if (!rule(b).exchanges(step_)) return;
    }
    rule(b).step_around(step_, resting(b));
  }
  std::span<const Piece> resting(int b) {
    if (!rest_ || step_.kind == Step::Kind::kNothing) return {};
    return rest_->of(b, step_.kind == Step::Kind::kSilent);
  }

  // Every bucket has its mean: ranks agree on whether to apply it, and on what rests.
  bool finish_deferred(Finish wish) {
    for (;; wish = Finish::kApply) {
      const Finish all = agree_on(wish);
      if (all == Finish::kAbandon) return false;
      if (all == Finish::kApply) break;
      for (int b = buckets() - 1; b >= 0; --b) rule(b).average(step_);
    }
    for (int b = buckets() - 1; b >= 0; --b)
      rule(b).apply_around(step_, rest_ ? rest_->pieces(b) : std::span<const Piece>{});
    return true;
  }
  Finish agree_on(Finish wish) {
    const std::uint8_t mine[] = {static_cast<std::uint8_t>(wish),
                                 static_cast<std::uint8_t>(rest_ && rest_->misses_any())};
    metered_->gather(std::span<const std::uint8_t>(mine), wishes_);
    bool all_miss = true;
    for (std::size_t at = 0; at < wishes_.size(); at += 2) {
      wish = std::max(wish, static_cast<Finish>(wishes_[at]));
      all_miss = all_miss && wishes_[at + 1] != 0;
    }
    if (all_miss && wish == Finish::kApply) rest_->agree();
    return wish;
  }

  // Returns the largest learning rate.
  double take_rates(std::span<const GroupStep> groups) {
    if (groups.size() != now_.size())
      fail(Code::kInvalidArgument, "{} learning rates for {} groups", groups.size(), now_.size());
    double largest = 0;
    for (const GroupStep& group : groups) {
      check_rate("learning rate", group.lr);
      check_rate("weight decay", group.weight_decay);
      largest = std::max(largest, group.lr);
    }
    std::copy(groups.begin(), groups.end(), now_.begin());
    return largest;
  }

  // Before a coded step: the path of each bucket.
  void choose_paths() {
    const bool exact = exact_left_ > 0;
    if (exact) --exact_left_;
    for (SwitchingMean* mean : switching_) mean->use(exact ? Path::kDense : Path::kCoded);
    if (choice_ && !exact) choice_->decide();
    stats_.exchange = exact     ? name(Path::kDense)
                      : choice_ ? choice_->describe()
                                : name(Path::kCoded);
  }
  // All that could be coded went exactly.
  bool all_exact() const {
    return !switching_.empty() && std::ranges::all_of(switching_, [](const SwitchingMean* mean) {
      return mean->taken() == Path::kDense;
    });
  }

  Rule& rule(int bucket) const { return *rules_[static_cast<std::size_t>(bucket)]; }
  bool dense() const noexcept { return dense_; }
  bool acts() const { return step_.kind != Step::Kind::kNothing || step_.freezes; }
  // A decision over the whole gradient comes first, so nothing may start during backward.
  bool waits_for_all() const { return config_.max_grad_norm > 0 || config_.skip == Skip::kStep; }

  void add_buckets(const Group& group, const GroupStep& now, std::size_t begin) {
    for (int f = 0; f < spacing_.fragments; ++f) {
      const std::size_t end = cut(group.elements, f + 1, spacing_.fragments);
      for (std::size_t at = cut(group.elements, f, spacing_.fragments); at < end;
           at += config_.bucket_elements)
        add_bucket(group, &now, f, begin + at, std::min(config_.bucket_elements, end - at));
    }
  }

  void add_bucket(const Group& group, const GroupStep* now, int fragment, std::size_t begin,
                  std::size_t count) {
    if (rest_) rest_->add_bucket(begin, count, fragment);
    const bool has_gradient = !model_.gradient.empty();
    buckets_.push_back(
        {.config = &config_,
         .nodes = courier_ ? &courier_->nodes() : &nodes_,
         .flat = flat_.world ? &flat_ : nullptr,
         .may_switch = may_switch_,
         .device = device_.get(),
         .shadow = &shadow_,
         .rest = rest_.get(),
         .deferred = defers(),
         .courier = courier_.get(),
         .fragment = fragment,
         .group = group,
         .now = now,
         .index = static_cast<int>(buckets_.size()),
         .begin = begin,
         .x = model_.weights.subspan(begin, count),
         .g = has_gradient ? model_.gradient.subspan(begin, count) : std::span<float>{}});
    rules_.push_back(method_.make_rule(buckets_.back()));
    if (SwitchingMean* mean = rules_.back()->switching()) switching_.push_back(mean);
  }

  void start() {
    agree_on_first_weights(*metered_, model_.weights);
    start_rules();
    started_ = true;
    note_weights();
  }
  void start_rules() {
    for (const auto& one : rules_) one->start();
  }

  void begin_at(double lr) {
    if (!started_) start();
    take_up_weights();
    step_ = schedule_->plan(counters_, lr);
    shadow_.on = config_.shadow_every > 0 && step_.t % config_.shadow_every == 0 &&
                 step_.kind == Step::Kind::kCoded;
    if (shadow_.on) std::fill(shadow_.sums.begin(), shadow_.sums.end(), Shadow::Sums{});
    before_ = sent();
    waited_before_ = courier_ ? courier_->waited_seconds() : 0;
    stats_.exchange.clear();
    if (!switching_.empty() && step_.kind == Step::Kind::kCoded) choose_paths();
    begun_ = true;
    if (rest_) rest_->begin();
    queue_->begin();
  }

  // Sum of squares over the blocks that are finite; *bad: some block is not.
  double local_squares(bool* bad) const {
    double total = 0;
    for (std::size_t at = 0; at < model_.gradient.size(); at += kTile) {
      const std::size_t n = std::min(kTile, model_.gradient.size() - at);
      const float* g = model_.gradient.data() + at;
      if (kernels::all_finite(g, n))
        total += static_cast<double>(kernels::sum_of_squares(g, n));
      else
        *bad = true;
    }
    return total;
  }

  void clip(double norm) {
    stats_.grad_norm = norm;
    const double factor = config_.max_grad_norm / (norm + 1e-6);
    if (factor < 1)
      kernels::scale(model_.gradient.data(), model_.gradient.size(), static_cast<float>(factor));
  }

  // With clipping or skip = step. False: the step is given up on all ranks.
  bool finish_together() {
    bool bad = false;
    const double mine[] = {local_squares(&bad), 0};
    double squares = mine[0];
    // An exchange that outlives the step does not hold it up either.
    const bool silent = !step_.exchanges() || step_.delay > 0;
    if (config_.skip == Skip::kStep || !(silent || dense())) {
      const double sent[] = {mine[0], bad ? 1.0 : 0.0};
      double sum = 0;
      bad = false;
      metered_->gather(std::span<const double>(sent), norms_);
      for (std::size_t r = 0; r < norms_.size(); r += 2) {
        sum += norms_[r];
        bad = bad || norms_[r + 1] != 0;
      }
      if (bad && config_.skip == Skip::kStep) return false;
      if (!silent) squares = sum / transport_.size();
    }
    if (!acts()) return true;
    if (dense() && config_.max_grad_norm > 0) {
      for (int b = buckets() - 1; b >= 0; --b) rule(b).average(step_);
      bool ignored = false;
      clip(std::sqrt(local_squares(&ignored)));
      for (int b = buckets() - 1; b >= 0; --b) rule(b).apply_around(step_, resting(b));
      return true;
    }
    if (config_.max_grad_norm > 0) clip(std::sqrt(squares));
    queue_->finish();
    return true;
  }

  void count() {
    schedule_->done(counters_, step_, [this] {
      double norm = 0;
      for (const auto& one : rules_) norm += one->variance_norm();
      return norm;
    });
    if (rest_) rest_->done(step_);
    // The last step of a run syncs, even one whose learning rate is 0.
    if (step_.t == config_.total_steps && step_.kind == Step::Kind::kNothing) synchronize();
  }

  // What this rank has sent, as far as it counts.
  Traffic::Count sent() const {
    Traffic::Count all = traffic_.total();
    if (!courier_) return all;
    all.bytes_inside += courier_->sent().bytes_inside;
    all.bytes_between += courier_->sent().bytes_between;
    return all;
  }

  void report(bool taken) {
    static constexpr const char* kKinds[] = {"nothing", "dense", "coded", "silent"};
    const auto now = sent();
    stats_.waited_seconds = courier_ ? courier_->waited_seconds() - waited_before_ : 0;
    totals_.waited_seconds += stats_.waited_seconds;
    stats_.step = static_cast<std::int64_t>(counters_.t());
    const bool coded = step_.kind == Step::Kind::kCoded && !all_exact();
    const bool dense =
        step_.kind == Step::Kind::kDense || (step_.kind == Step::Kind::kCoded && !coded);
    stats_.kind = !taken  ? "skipped"
                  : dense ? "dense"
                          : kKinds[static_cast<std::size_t>(step_.kind)];
    stats_.bytes_inside = now.bytes_inside - before_.bytes_inside;
    stats_.bytes_between = now.bytes_between - before_.bytes_between;
    std::uint64_t bad = 0;
    stats_.residual_ratio = 0;
    for (const auto& one : rules_) {
      bad += one->bad_blocks();
      if (taken && step_.kind == Step::Kind::kCoded)
        stats_.residual_ratio = std::max(stats_.residual_ratio, one->residual_ratio());
    }
    stats_.bad_blocks = bad - totals_.bad_blocks;
    stats_.shadow.clear();
    if (shadow_.on) stats_.shadow = shadow_.gauges();
    totals_.bad_blocks = bad;
    totals_.bytes_inside += stats_.bytes_inside;
    totals_.bytes_between += stats_.bytes_between;
    totals_.bytes = totals_.bytes_inside + totals_.bytes_between;
    if (!taken) return void(++totals_.skipped);
    ++totals_.steps;
    totals_.dense += dense;
    totals_.coded += coded;
    totals_.silent += step_.kind == Step::Kind::kSilent || step_.kind == Step::Kind::kNothing;
  }

  // Where the whole model is never synced at once, what ranks share is looked at.
  bool never_whole() const { return spacing_.fragments > 1 || spacing_.delay > 0; }
  // After the first sync that is verify_every steps or more after the last check.
  void verify() {
    if (config_.verify_every == 0 || (counters_.open() != 0 && !never_whole()) ||
        step_.t - verified_ < config_.verify_every)
      return;
    verified_ = step_.t;
    if (!never_whole()) return replicas_.compare(*metered_, model_.weights, step_.t);
    if (shared_.empty()) shared_ = Buffer<float>(model_.weights.size());
    synced_weights(shared_.span());
    replicas_.compare(*metered_, shared_.span(), step_.t);
  }

  const OptimizerConfig config_;
  const Method& method_;
  const bool dense_ = method_.exact_with(config_);
  const Spacing spacing_ = method_.spacing ? method_.spacing(config_) : Spacing{};
  const Model model_;
  Transport& transport_;
  Traffic traffic_;
  std::unique_ptr<Transport> metered_;
  Nodes nodes_, flat_;  // flat_.world is null unless buckets may choose it
  bool may_switch_ = false;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Courier> courier_;  // null: exchanges end with their step
  std::unique_ptr<Schedule> schedule_;
  Counters counters_;
  Shadow shadow_;
  std::unique_ptr<Rest> rest_;  // null: every range has a gradient in every step
  std::vector<Bucket> buckets_;
  std::vector<std::unique_ptr<Rule>> rules_;
  std::vector<GroupStep> now_;  // a group's, in this step
  Step step_;
  bool begun_ = false, started_ = false;
  Traffic::Count before_;
  double waited_before_ = 0;
  StepStats stats_;
  Totals totals_;
  ReplicaCheck replicas_{model_};
  std::int64_t verified_ = 0;
  Buffer<float> shared_;  // what was verified, where that is not in the model
  std::vector<double> norms_;
  std::vector<std::uint8_t> wishes_;
  std::uint64_t hash_ = 0;  // of the weights after the last step, where they are watched
  std::vector<SwitchingMean*> switching_;  // of the buckets whose mean may take another path
  std::unique_ptr<Choice> choice_;         // null: nothing to choose
  int exact_left_ = 0;                     // coded steps that guard makes exact
  std::unique_ptr<StepQueue> queue_;       // last: its thread uses the rest
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, const Model& model,
                                          Transport& transport) {
  return std::make_unique<FlatOptimizer>(config, model, transport);
}

}  // namespace laconic::inline optim
