#include "laconic/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "laconic/collective/conveyor.h"
#include "laconic/collective/state_mirror.h"
#include "laconic/core/error.h"
#include "laconic/optim/agreement.h"
#include "laconic/optim/checks.h"
#include "laconic/optim/clipping.h"
#include "laconic/optim/courier.h"
#include "laconic/optim/cuts.h"
#include "laconic/optim/heartbeat.h"
#include "laconic/optim/method.h"
#include "laconic/optim/paths.h"
#include "laconic/optim/placement.h"
#include "laconic/optim/queue.h"
#include "laconic/optim/rates.h"
#include "laconic/optim/record.h"
#include "laconic/optim/rest.h"
#include "laconic/optim/rule.h"
#include "laconic/optim/schedule.h"
#include "laconic/optim/shards.h"
#include "laconic/optim/tensors.h"
#include "laconic/transport/metered.h"
#include "laconic/transport/sliced.h"
#include "laconic/transport/timeline.h"

namespace laconic::inline optim {
namespace {

class FlatOptimizer final : public Optimizer {
 public:
  FlatOptimizer(const OptimizerConfig& config, const Model& model, Transport& transport)
      : config_(validated(config)),
        method_(method_named(config_.algorithm)),
        model_(completed(model, config_)),
        transport_(transport),
        sliced_(method_.spacing ? make_sliced(transport, kSlicesWhereSeldom) : nullptr),
        metered_(make_metered(sliced_ ? *sliced_ : transport, traffic_,
                              std::max(0, config_.ranks_per_node))),
        nodes_(make_nodes(*metered_, config_.ranks_per_node)),
        device_(make_device(config_.device, config_.threads)),
        placement_(model_, *device_),
        clipping_(*device_, placement_.gradient()),
        schedule_(method_.make_schedule(config_)) {
    agree_on_setup(*metered_, config_, model_);
    nodes_.timeline = &timeline_;
    if (spacing_.delay > 0) {
      courier_ = std::make_unique<Courier>(*sliced_, config_);
      record_.follow(*courier_);
    }
    // One rank, or one node, has nothing to choose from: its means are exact, or go nowhere.
    const bool coded_ways =
        !dense() && transport_.size() > 1 && nodes_.nodes > 1 && spacing_.delay == 0;
    const bool chooses = coded_ways && config_.exchange == ExchangeForm::kAuto;
    const bool may_switch = chooses || (coded_ways && config_.guard);
    if (may_switch && !device_->is_host())
      fail(Code::kInvalidArgument,
           "device = {} with {}: exact exchanges that add residuals run on the CPU only; leave it "
           "out, or train with device = cpu",
           config_.device, chooses ? "exchange = auto" : "guard");
    if (chooses && nodes_.per_node > 1) {
      flat_ = make_nodes(*metered_, kFlat);
      flat_.timeline = &timeline_;
    }
    if (may_switch) possible_paths_ = paths_of(config_, nodes_.per_node > 1);
    const auto cuts = cuts_of(model_, spacing_.fragments, config_.bucket_elements);
    if (model_.may_rest) {
      // Paths are chosen by the time of one exchange, and a device has an order of its own.
      const bool overlaps = cuts.size() > 1 && device_->is_host() && !courier_ && !may_switch;
      if (overlaps && transport_.size() > 1) {
        const std::size_t longest = std::ranges::max(cuts, {}, &Cut::count).count;
        conveyor_ = std::make_unique<Conveyor>(
            nodes_, Conveyor::lag_for(longest, metered_->useful_slices()));
        beside_ = metered_->split(0);
      }
      rest_ = std::make_unique<Rest>(model_, beside_ ? *beside_ : *metered_, spacing_.fragments);
    }
    shadow_.ranges = model_.ranges;
    shadow_.sums.resize(model_.ranges.size());
    for (const Cut& cut : cuts) add_bucket(cut);
    if (!rules_.empty() && rules_.front()->by_tensor())
      tensors_ = std::make_unique<Tensors>(model_, buckets_);
    if (chooses)
      paths_.measure(config_, possible_paths_, nodes_, flat_.world ? &flat_ : nullptr, *device_);
    device_->mark(rules_.size());  // all marks are made before two threads use them
    if (courier_) courier_->serve(buckets(), [this](int b) { rule(b).deliver(); });
    queue_ = std::make_unique<StepQueue>(
        buckets(), [this](int b) { work(b); }, [this] { transport_.idle(); });
    if (spacing_.interval > 1 && transport_.size() > 1)
      heartbeat_ = std::make_unique<Heartbeat>(transport_);
  }

  void begin(double lr) override {
    if (begun_) fail(Code::kInvalidArgument, "begin was called twice: finish the step first");
    rates_.set(lr);
    begin_at(lr);
  }

  void begin(std::span<const GroupStep> groups) override {
    if (begun_) fail(Code::kInvalidArgument, "begin was called twice: finish the step first");
    begin_at(rates_.set(groups));
  }
  void follow(void* stream) override { device_->follow_caller(stream); }
  std::span<float> weights() override { return placement_.show(); }
  void take_up_weights() override {
    if (begun_) fail(Code::kInvalidArgument, "take_up_weights inside a step: call step() first");
    check_others();
    look_for_writes();
    looked_ = true;
  }
  void written(std::size_t range) override {
    if (begun_) fail(Code::kInvalidArgument, "written({}) inside a step: call step() first", range);
    if (range >= model_.ranges.size())
      fail(Code::kInvalidArgument, "written({}): there are {} ranges", range, model_.ranges.size());
    if (keeps_weights()) adopt_weights(model_.ranges[range]);
  }
  bool defers() const noexcept override { return model_.deferred && dense() && !waits_for_all(); }
  void change_rates(std::span<const GroupStep> groups) override {
    if (!begun_ || !defers())
      fail(Code::kInvalidArgument,
           "change_rates needs a step that has begun and a method that defers: give the rates to "
           "begin()");
    step_ = schedule_->plan(counters_, rates_.set(groups));
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
    take_gradient(bucket);
    note_backward("backward", bucket);
    queue_->ready(bucket, !waits_for_all() && acts());
  }

  void step(Finish wish) override {
    if (!begun_) fail(Code::kInvalidArgument, "step before begin: give the learning rate first");
    if (wish != Finish::kApply && !defers())
      fail(Code::kInvalidArgument,
           "this step cannot be undone: only exact methods with Model::deferred can");
    begun_ = false;
    take_what_is_left();
    note_backward("backward", -1);
    if (rest_) rest_->all_known();
    bool taken = true;
    if (waits_for_all()) {
      taken = finish_together();
    } else if (acts()) {
      queue_->finish();
      if (defers()) taken = finish_deferred(wish);
    }
    if (taken && acts() && tensors_) tensors_->move(step_, rules_, rest_.get(), shards_);
    placement_.give_weights();
    note_backward("step waits", -1);
    if (taken) count();
    if (heartbeat_) heartbeat_->count(static_cast<std::int64_t>(counters_.t()));
    report(taken);
    note_weights();
    if (taken && (counters_.open() == 0 || never_whole()))
      replicas_.after(step_.t, *metered_, shards_, [this] { return common_weights(); });
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
    paths_.go_exactly(steps);
  }

  void synchronize() override {
    if (begun_) fail(Code::kInvalidArgument, "synchronize inside a step: call step() first");
    if (counters_.open() == 0) return;
    check_others();
    placement_.take_weights();
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
    placement_.give_weights();
    note_weights();
  }

  bool exchanges_next() const override {
    Counters now = counters_;
    const Step next = schedule_->plan(now, now.lr_before());
    return std::ranges::any_of(
        rules_, [&](const auto& one) { return one->exchanges(next) || one->arrives(next); });
  }

  bool in_sync() const noexcept override {
    Counters now = counters_;
    return now.open() == 0;
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
      placement_.fetch_weights(from, buckets_[b].begin,
                               out.subspan(buckets_[b].begin, from.size()));
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
    return mirror_.show(std::move(all));
  }

  void redistribute(int bucket, const std::map<std::string, std::vector<float>>& whole) override {
    if (bucket == 0) {
      mirror_.take_up();
      placement_.take_up();
      placement_.take_weights();
    }
    Step now = schedule_->plan(counters_, counters_.lr_before());
    now.t = static_cast<std::int64_t>(counters_.t());
    now.variance_updates = static_cast<std::int64_t>(counters_.variance_updates());
    rule(bucket).restored(counters_.frozen_at() != 0);
    rule(bucket).redistribute(whole, now);
    if (bucket + 1 == buckets()) {
      if (!method_.spacing) counters_.open() = 0;  // else what ranks moved is still to be exchanged
      counters_.last_sync() = counters_.t();
      if (rest_) rest_->other_ranks();
      placement_.give_weights();
    }
  }

  void restored() override {
    mirror_.take_up();
    placement_.take_up();
    placement_.take_weights();
    started_ = counters_.t() > 0;
    step_ = {};
    record_.stats = {};
    record_.stats.step = static_cast<std::int64_t>(counters_.t());
    for (const auto& one : rules_) one->restored(counters_.frozen_at() != 0);
    if (heartbeat_) heartbeat_->count(static_cast<std::int64_t>(counters_.t()));
    paths_.restored();
    note_weights();
  }

  void close() noexcept override {
    if (heartbeat_) heartbeat_->stop();
    if (courier_) courier_->stop();
  }
  // Their threads use the rest.
  ~FlatOptimizer() override {
    queue_.reset();
    close();
  }

  const OptimizerConfig& config() const noexcept override { return config_; }
  const Model& model() const noexcept override { return model_; }
  Transport& transport() const noexcept override { return transport_; }
  const StepStats& stats() const noexcept override { return record_.stats; }
  std::int64_t steps_taken() const noexcept override { return record_.stats.step; }
  const Totals& totals() const noexcept override { return record_.totals; }
  void trace(bool on) override { on ? timeline_.start() : timeline_.stop(); }
  void note(const char* what) override { note_backward(what, -1); }
  std::string traced() const override { return timeline_.json(transport_.rank()); }

  std::string describe() const override {
    return fmt::format("{}, {} parameters in {} bucket(s), {}{}", method_.name,
                       model_.weights.size(), buckets(),
                       rules_.empty() ? "nothing to exchange" : rules_.front()->describe(),
                       device_->is_host() ? "" : ", on " + device_->describe());
  }

 private:
  // The time since the last such note, or since begin().
  void note_backward(const char* what, int bucket) {
    if (!timeline_.on()) return;
    const Timeline::Time now = Timeline::Clock::now();
    if (noted_ != Timeline::Time{}) timeline_.add(what, Timeline::kBackward, bucket, noted_, now);
    noted_ = now;
  }

  void look_for_writes() {
    if (!watches()) return;
    const NamedRange* written = watch_.written(placement_.on_host());
    if (written == nullptr) return;
    adopt_weights(*written);
    watch_.note(placement_.on_host());
  }
  // Goes on from what the caller wrote.
  void adopt_weights(const NamedRange& written) {
    if (counters_.open() != 0) refuse_write(written, record_.stats.step, method_.title);
    placement_.take_weights();
    for (const auto& one : rules_) one->adopt();
  }
  void note_weights() {
    looked_ = false;
    if (watches()) watch_.note(placement_.on_host());
  }
  bool keeps_weights() const {
    return started_ && !rules_.empty() && rules_.front()->keeps_weights();
  }
  bool watches() const { return model_.watched && keeps_weights(); }

  // A step of one bucket, on the queue's thread. Its exchange stays under way where all ranks have
  // the next bucket already: waiting for one that is still computed would leave the wire idle.
  void work(int b) {
    if (!conveyor_) return step_bucket(b);
    has_next_ = b > 0 && queue_->is_ready(b - 1);
    conveyor_->linger(true);
    step_bucket(b);
    has_next_.reset();
    if (!rest_->all_have_next() || b == 0) conveyor_->linger(false);
    if (b == 0) rest_->release();
  }
  void step_bucket(int b) {
    wait_for_gradient(b);
    timeline_.set_bucket(b);
    if (step_.freezes) rule(b).freeze();
    if (defers()) {
      if (has_next_) rest_->announce(*has_next_);
      return rule(b).average(step_);
    }
    if (method_.spacing) {
      rule(b).move(step_, rest_ ? rest_->absent_in(b) : std::span<const Piece>{});
      rule(b).arrive(step_);
      if (!rule(b).exchanges(step_)) return;
    }
    rule(b).step_around(step_, resting(b));
  }
  void take_gradient(int b) {
    const auto index = static_cast<std::size_t>(b);
    const Bucket& of = buckets_[index];
    placement_.take_gradient(index, of.begin, of.g.size());
    taken_[index] = true;
  }
  void wait_for_gradient(int b) { placement_.wait_for_gradient(static_cast<std::size_t>(b)); }
  // Of the caller: gradients that were not ready before, and weights that it moved by itself.
  void take_what_is_left() {
    for (int b = buckets() - 1; b >= 0; --b)
      if (!taken_[static_cast<std::size_t>(b)]) take_gradient(b);
    if (config_.inner == kNoInner) placement_.take_weights();
  }
  std::span<const Piece> resting(int b) {
    if (!rest_ || step_.kind == Step::Kind::kNothing) return {};
    return rest_->of(b, step_.kind == Step::Kind::kSilent, has_next_);
  }

  // Every bucket has its mean: ranks agree on whether to apply it, and on what rests.
  bool finish_deferred(Finish wish) {
    for (;; wish = Finish::kApply) {
      const Finish all = agreement_.on(wish, rest_.get());
      if (all == Finish::kAbandon) return false;
      if (all == Finish::kApply) break;
      for (int b = buckets() - 1; b >= 0; --b) {
        take_gradient(b);
        wait_for_gradient(b);
        rule(b).average(step_);
      }
    }
    for (int b = buckets() - 1; b >= 0; --b)
      rule(b).apply_around(step_, rest_ ? rest_->pieces(b) : std::span<const Piece>{});
    return true;
  }

  // This step has a lossy mean.
  bool codes() const {
    return step_.kind == Step::Kind::kCoded || (step_.kind == Step::Kind::kDense && codes_dense_);
  }

  Rule& rule(int bucket) const { return *rules_[static_cast<std::size_t>(bucket)]; }
  bool dense() const noexcept { return dense_; }
  bool acts() const { return step_.kind != Step::Kind::kNothing || step_.freezes; }
  // A decision over the whole gradient comes first, so nothing may start during backward.
  bool waits_for_all() const { return config_.max_grad_norm > 0 || config_.skip == Skip::kStep; }

  void add_bucket(const Cut& cut) {
    if (rest_) rest_->add_bucket(cut.begin, cut.count, cut.fragment);
    const bool has_gradient = !model_.gradient.empty();
    const int index = buckets();
    if (first_of_group_.size() <= cut.group) first_of_group_.resize(cut.group + 1, index);
    buckets_.push_back({.config = &config_,
                        .nodes = courier_ ? &courier_->nodes() : &nodes_,
                        .flat = flat_.world ? &flat_ : nullptr,
                        .paths = possible_paths_,
                        .device = device_.get(),
                        .shadow = &shadow_,
                        .rest = rest_.get(),
                        .deferred = defers(),
                        .courier = courier_.get(),
                        .conveyor = conveyor_.get(),
                        .fragment = cut.fragment,
                        .group = model_.groups[cut.group],
                        .now = rates_.of(cut.group),
                        .index = index,
                        .key = shards_.key(cut.group, index - first_of_group_[cut.group], index),
                        .begin = cut.begin,
                        .x = placement_.weights().subspan(cut.begin, cut.count),
                        .g = has_gradient ? placement_.gradient().subspan(cut.begin, cut.count)
                                          : std::span<float>{}});
    taken_.push_back(false);
    rules_.push_back(method_.make_rule(buckets_.back()));
    paths_.add(rules_.back()->switching(), rules_.back()->dense_switching());
  }

  void start() {
    agree_on_first_weights(*metered_, placement_.on_host());
    start_rules();
    started_ = true;
    note_weights();
  }
  void start_rules() {
    placement_.take_weights();
    for (const auto& one : rules_) one->start();
  }

  void check_others() const {
    if (heartbeat_) heartbeat_->check(static_cast<std::int64_t>(Counters(counters_).t()) + 1);
  }

  void begin_at(double lr) {
    check_others();
    if (!started_) start();
    if (!std::exchange(looked_, false)) look_for_writes();
    placement_.bring_weights();
    taken_.assign(taken_.size(), false);
    step_ = schedule_->plan(counters_, lr);
    shadow_.on = config_.shadow_every > 0 && step_.t % config_.shadow_every == 0 && codes();
    if (shadow_.on) std::fill(shadow_.sums.begin(), shadow_.sums.end(), Shadow::Sums{});
    record_.begin();
    if (codes()) record_.stats.exchange = paths_.choose(step_.kind);
    begun_ = true;
    timeline_.set_step(step_.t);
    noted_ = timeline_.on() ? Timeline::Clock::now() : Timeline::Time{};
    if (rest_) rest_->begin();
    queue_->begin();
  }

  void clip_to(double norm) {
    record_.stats.grad_norm = norm;
    clipping_.clip(norm, config_.max_grad_norm);
    placement_.give_gradient();
  }

  // Of the gradient, less what another shard counts.
  double counted_squares(bool* bad) {
    if (!shards_.any()) return clipping_.squares(0, model_.gradient.size(), bad);
    double squares = 0;
    std::size_t begin = 0;
    for (const Group& group : model_.groups) {
      const double own = clipping_.squares(begin, group.elements, bad);
      if (shards_.counts(group)) squares += own;
      begin += group.elements;
    }
    return squares;
  }

  // With clipping or skip = step. False: the step is given up on all ranks.
  bool finish_together() {
    bool bad = false;
    for (int b = buckets() - 1; b >= 0; --b) wait_for_gradient(b);
    double squares = counted_squares(&bad);
    // An exchange that outlives the step does not hold it up either.
    const bool silent = !step_.exchanges() || step_.delay > 0;
    if (config_.skip == Skip::kStep || !(silent || dense())) {
      const double mean = agreement_.on_squares(squares, &bad);
      if (bad && config_.skip == Skip::kStep) return false;
      if (!silent) squares = mean;
    }
    if (silent && config_.max_grad_norm > 0) squares = shards_.sum(squares);
    if (!acts()) return true;
    if (dense() && config_.max_grad_norm > 0) {
      for (int b = buckets() - 1; b >= 0; --b) rule(b).average(step_);
      bool ignored = false;
      clip_to(std::sqrt(shards_.sum(counted_squares(&ignored))));
      for (int b = buckets() - 1; b >= 0; --b) rule(b).apply_around(step_, resting(b));
      return true;
    }
    if (config_.max_grad_norm > 0) clip_to(std::sqrt(squares));
    queue_->finish();
    return true;
  }

  void count() {
    schedule_->done(counters_, step_, [this] {
      double norm = 0;
      for (std::size_t b = 0; b < rules_.size(); ++b)
        if (shards_.counts(buckets_[b].group)) norm += rules_[b]->variance_norm();
      return shards_.sum(norm);
    });
    if (rest_) rest_->done(step_);
    // The last step of a run syncs, even one whose learning rate is 0.
    if (step_.t == config_.total_steps && step_.kind == Step::Kind::kNothing) synchronize();
  }

  void report(bool taken) {
    device_->collect();
    record_.end(step_, static_cast<std::int64_t>(counters_.t()), taken, paths_.went_exactly(),
                rules_, shadow_);
  }

  // Where the whole model is never synced at once, what ranks share is looked at.
  bool never_whole() const { return spacing_.fragments > 1 || spacing_.delay > 0; }
  std::span<const float> common_weights() {
    if (!never_whole()) return placement_.on_host();
    if (shared_.empty()) shared_ = Buffer<float>(model_.weights.size());
    synced_weights(shared_.span());
    return shared_.span();
  }

  const OptimizerConfig config_;
  const Method& method_;
  const bool dense_ = method_.exact_with(config_);
  const bool codes_dense_ = !is_exact(method_.dense_codec_of(config_));
  const Spacing spacing_ = method_.spacing ? method_.spacing(config_) : Spacing{};
  const Model model_;
  Shards shards_{model_};
  Rates rates_{model_};
  Transport& transport_;
  Traffic traffic_;
  Timeline timeline_;
  Timeline::Time noted_{};                       // in this step, on the caller's thread
  std::unique_ptr<Transport> sliced_, metered_;  // null: sliced as the engine likes it
  Nodes nodes_, flat_;                           // flat_.world is null unless buckets may choose it
  std::vector<Path> possible_paths_;             // of coded means; empty: they cannot change
  std::unique_ptr<Device> device_;
  Placement placement_;
  Clipping clipping_;
  StateMirror mirror_{*device_};
  std::unique_ptr<Courier> courier_;  // null: exchanges end with their step
  std::unique_ptr<Heartbeat>
      heartbeat_;  // null: ranks exchange in every step, or nobody else is here
  std::unique_ptr<Schedule> schedule_;
  Counters counters_;
  Shadow shadow_;
  std::unique_ptr<Conveyor> conveyor_;  // null: buckets are exchanged one after the other
  std::unique_ptr<Transport> beside_;   // for announcements while exchanges are under way
  std::unique_ptr<Rest> rest_;          // null: every range has a gradient in every step
  std::vector<Bucket> buckets_;
  std::vector<bool> taken_;          // in this step: the device knows of the bucket's gradient
  std::vector<int> first_of_group_;  // its first bucket
  std::vector<std::unique_ptr<Rule>> rules_;
  std::unique_ptr<Tensors> tensors_;  // null: buckets move by themselves
  Step step_;
  bool begun_ = false, started_ = false;
  std::optional<bool> has_next_;  // in work(): the gradient of the bucket after it is here
  Record record_{traffic_};
  ReplicaCheck replicas_{model_, config_.verify_every};
  Buffer<float> shared_;  // what is compared, where that is not in the model
  Agreement agreement_{*metered_, shards_};
  WriteWatch watch_{model_, device_->pool()};
  bool looked_ = false;  // for writes, since the last step
  Paths paths_;
  std::unique_ptr<StepQueue> queue_;  // last: its thread uses the rest
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, const Model& model,
                                          Transport& transport) {
  return std::make_unique<FlatOptimizer>(config, model, transport);
}

}  // namespace laconic::inline optim
