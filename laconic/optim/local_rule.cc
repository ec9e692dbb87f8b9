#include "laconic/optim/local_rule.h"

#include <limits>

#include "laconic/core/error.h"
#include "laconic/optim/courier.h"
#include "laconic/optim/method.h"

namespace laconic::inline optim {
namespace {

using kernels::Follow;
using kernels::OuterRule;

std::unique_ptr<Rule> make_inner(Bucket bucket) {
  const std::string& name = bucket.config->inner;
  if (name == kNoInner) return nullptr;
  bucket.alone = true;
  bucket.rest = nullptr;
  bucket.conveyor = nullptr;  // ranks leave out what is absent here, not in step with each other
  return method_named(name).make_rule(bucket);
}

constexpr OuterRule rule_of(Outer outer) {
  switch (outer) {
    case Outer::kNesterov: return OuterRule::kNesterov;
    case Outer::kMomentum: return OuterRule::kMomentum;
    case Outer::kSign: return OuterRule::kSign;
    case Outer::kAverage: break;
  }
  return OuterRule::kAverage;
}

}  // namespace

LocalRule::LocalRule(const Bucket& bucket)
    : Rule(bucket),
      inner_(make_inner(bucket)),
      x_sync_(*bucket.device, bucket.x.size()),
      momentum_(*bucket.device, bucket.config->outer == Outer::kAverage ? 0 : bucket.x.size()),
      mean_(make_gradient_mean()),
      lossy_(codes_gradients()),
      snapshot_(*bucket.device, bucket.courier ? bucket.x.size() : 0),
      held_(*bucket.device, snapshot_.size()),
      rests_(bucket.courier && bucket.rest ? bucket.rest->all_of(bucket.index).size() : 0) {
  if (!bucket.courier) means_ = {mean_.get()};
}

void LocalRule::adopt() { copy(bucket_.x, x_sync_.span()); }

void LocalRule::move(const Step& step, std::span<const Piece> absent) {
  rate_sum() += lr();
  steps() += 1;
  if (inner_) inner_->step_around(step, absent);
}

bool LocalRule::exchanges(const Step& step) const {
  return step.exchanges() && (step.fragment == kAllFragments || step.fragment == bucket_.fragment);
}

// The last exchange of a run takes what is under way with it.
bool LocalRule::arrives(const Step& step) const {
  const bool last = step.exchanges() && step.fragment == kAllFragments;
  return scalars_[2] != 0 && (last || static_cast<double>(step.t) >= scalars_[2]);
}

void LocalRule::arrive(const Step& step) {
  if (arrives(step)) finish(bucket_.config->merge == kNoMerge ? Follow::kKeep : Follow::kBlend);
}

void LocalRule::step(const Step& step) {
  if (!bucket_.courier)
    return begin_exchange(*mean_, displacement(bucket_.x.data()),
                          outer_update(mean_rate(), Follow::kEqual), step);
  gamma() = mean_rate();
  due() = static_cast<double>(step.t + step.delay);
  copy(bucket_.x, snapshot_.span());
  keep_resting();
  round_ = round_of(step);
  bucket_.device->settle();  // the courier's device reads the snapshot
  bucket_.courier->post(bucket_.index);
  if (step.delay == 0) finish(Follow::kEqual);
}

void LocalRule::synchronize(const Step& step) { this->step(step); }

void LocalRule::deliver() {
  mean_->exchange(displacement(snapshot_.data()), Store{held_.data()}, round_);
  residuals_.put_back(bucket_.courier->device());
  bucket_.courier->device().settle();
}

// Until the exchange is applied: what rests keeps its residuals now, the rest of it then.
void LocalRule::keep_resting() {
  std::ranges::fill(rests_, 0.0);
  if (!rests_.empty()) {
    const auto all = bucket_.rest->all_of(bucket_.index);
    for (const Piece& piece : resting())
      for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i].begin == piece.begin) rests_[i] = 1;
  }
  residuals_.take(*bucket_.device, {}, resting().empty() ? std::vector<State>{} : mean_->state(),
                  resting());
}

std::span<const Piece> LocalRule::kept_pieces() {
  found_.clear();
  for (std::size_t i = 0; i < rests_.size(); ++i)
    if (rests_[i] != 0) found_.push_back(bucket_.rest->all_of(bucket_.index)[i]);
  return found_;
}

// After a resume nothing is under way, and the mean is in memory already.
void LocalRule::finish(Follow follow) {
  bucket_.courier->wait(bucket_.index);
  ratio_ = mean_->residual_ratio();
  bad_seen_ = mean_->bad_blocks() + exact_bad_.load(std::memory_order_relaxed);
  const auto pieces = kept_pieces();
  if (!pieces.empty())
    rested_.take(*bucket_.device, bucket_.x,
                 {{"x_sync", x_sync_.span(), Spread::kSame},
                  {"outer_momentum", momentum_.span(), Spread::kSame}},
                 pieces);
  bucket_.device->run(Values{held_.data()}, outer_update(gamma(), follow), held_.size());
  if (!pieces.empty()) rested_.put_back(*bucket_.device);
  if (follow == Follow::kEqual)
    for (const Piece& piece : pieces)
      copy(x_sync_.span().subspan(piece.begin, piece.count),
           bucket_.x.subspan(piece.begin, piece.count));
  due() = 0;
}

double LocalRule::mean_rate() {
  const double mean = steps() > 0 ? rate_sum() / steps() : 0;
  rate_sum() = steps() = 0;
  return mean;
}

kernels::OuterStep LocalRule::outer_step(double gamma, Follow follow) const {
  const OptimizerConfig& config = *bucket_.config;
  const bool sign = config.outer == Outer::kSign;
  const double rate = sign ? config.outer_lr * gamma : config.outer_lr;
  const bool merges = follow == Follow::kBlend;
  kernels::OuterStep step{.rule = rule_of(config.outer),
                          .follow = follow,
                          .penalty = static_cast<float>(config.gap_penalty),
                          .rate = static_cast<float>(rate),
                          .momentum = static_cast<float>(config.outer_momentum),
                          .clip = config.clip > 0 ? static_cast<float>(config.clip)
                                                  : std::numeric_limits<float>::infinity(),
                          .inverse_gamma = sign && gamma > 0 ? static_cast<float>(1 / gamma) : 0,
                          .beta1 = static_cast<float>(config.outer_beta1),
                          .one_minus_beta1 = static_cast<float>(1 - config.outer_beta1),
                          .beta2 = static_cast<float>(config.outer_beta2),
                          .one_minus_beta2 = static_cast<float>(1 - config.outer_beta2),
                          .decay = static_cast<float>(1 - config.outer_weight_decay * rate),
                          .own = merges ? static_cast<float>(config.merge) : 0,
                          .shared = merges ? static_cast<float>(1 - config.merge) : 1};
  // Nothing moved at a rate of 0: x_sync stays, and so does M.
  if (sign && gamma == 0) step.rule = OuterRule::kAverage, step.rate = 0;
  return step;
}

OuterUpdate LocalRule::outer_update(double gamma, Follow follow) {
  return {outer_step(gamma, follow), momentum_.data(),
          follow == Follow::kKeep ? snapshot_.data() : nullptr, x_sync_.data(), bucket_.x.data()};
}

Displacement LocalRule::displacement(const float* x) {
  return {x_sync_.data(), x, {bucket_.config->scale_block, lossy_ ? nullptr : &exact_bad_}};
}

std::vector<State> LocalRule::state() {
  if (bucket_.courier) bucket_.courier->wait_for_all();
  std::vector<State> all = mean_->state();
  all.push_back({"x_sync", x_sync_.span(), Spread::kSame});
  if (!momentum_.empty()) all.push_back({"outer_momentum", momentum_.span(), Spread::kSame});
  if (inner_)
    for (State& one : inner_->state()) all.push_back(std::move(one));
  all.push_back({"interval", {}, Spread::kScalar, 0, scalars_});
  if (!bucket_.courier) return all;
  all.push_back({"snapshot", snapshot_.span(), Spread::kMean});
  all.push_back({"mean_displacement", held_.span(), Spread::kSame});
  if (!rests_.empty())
    all.push_back({.name = "resting",
                   .values = {},
                   .spread = Spread::kScalar,
                   .scalars = rests_,
                   .optional = true});
  return all;
}

double LocalRule::residual_ratio() const {
  return bucket_.courier ? ratio_ : mean_->residual_ratio();
}

std::uint64_t LocalRule::bad_blocks() const {
  const std::uint64_t inner = inner_ ? inner_->bad_blocks() : 0;
  if (bucket_.courier) return inner + bad_seen_;
  return inner + Rule::bad_blocks() + exact_bad_.load(std::memory_order_relaxed);
}

std::string LocalRule::describe() const {
  const OptimizerConfig& config = *bucket_.config;
  static constexpr const char* kNames[] = {"average", "nesterov", "momentum", "sign"};
  std::string text =
      fmt::format("{} alone, {} every {} steps", inner_ ? config.inner : "the caller's update",
                  kNames[static_cast<std::size_t>(config.outer)], config.every);
  if (config.fragments > 1) text += fmt::format(" in {} fragments", config.fragments);
  if (config.delay > 0) text += fmt::format(", applied {} steps later", config.delay);
  text += ": " + mean_->describe();
  const bool momentum = config.outer == Outer::kNesterov || config.outer == Outer::kMomentum;
  if (momentum && config.codec == GradientCodec::kSign && config.feedback == Feedback::kFull)
    text += "; full feedback of signs diverges under an outer momentum: prefer feedback = decay";
  return text;
}

void LocalRule::redistribute(const Whole& whole, const Step& step) {
  if (inner_) inner_->redistribute(whole, step);
  hand_out(residuals_in(whole), mean_->state());
  const auto moved = whole.find("weights");
  if (moved != whole.end()) {
    // All ranks go on from the mean of where they were, in the middle of an interval too.
    copy(moved->second, bucket_.x);
    if (bucket_.courier) copy(whole.at("snapshot"), snapshot_.span());
    return;
  }
  copy(x_sync_.span(), bucket_.x);
  if (due() != 0) finish(Follow::kEqual);
  rate_sum() = steps() = 0;
}

}  // namespace laconic::inline optim
