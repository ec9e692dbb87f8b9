#pragma once

#include "laconic/optim/option.h"
#include "laconic/optim/rule.h"
#include "laconic/optim/schedule.h"

namespace laconic::inline optim {

// Options of methods that work on the mean of the gradient: its codec, and what becomes of what a
// lossy one leaves out.
std::vector<Option> gradient_options();
// Each of them, with what a method allows and means by it.
Option codec_option(std::string_view allowed, std::string_view help);
Option codec_down_option(std::string_view allowed, std::string_view help);
Option feedback_option(std::string_view allowed, std::string_view help);
Option feedback_reset_option();
Option quant_block_option();
// The same after a method's own.
std::vector<Option> with_gradient_options(std::vector<Option> own);
// Of methods that average gradients in some rounds: the codec of those.
std::vector<Option> dense_round_options();
// Error(kInvalidArgument) for a codec that does not learn under these methods.
void check_gradient_codec(OptimizerConfig& config);
// The codec of the mean: Method::coded_with; of dense rounds: Method::dense_with.
std::string gradient_codec(const OptimizerConfig& config);
// All that these methods take: Method::choices.
std::vector<std::string> gradient_choices(const OptimizerConfig& config);
// The same on its way back: Method::down_with.
std::string gradient_codec_down(const OptimizerConfig& config);
std::string dense_round_codec(const OptimizerConfig& config);
// A step of the codec's kind every step, and how many they are.
std::unique_ptr<Schedule> gradient_schedule(const OptimizerConfig& config);
Rounds gradient_rounds(const OptimizerConfig& config, std::int64_t steps);

// A rule that works on the mean of the gradient, exact or coded; in a bucket that is alone, on this
// rank's own gradient, with moments of each rank's own. The mean goes straight into the
// update, unless a decision over all of an exact one comes first: with clipping it replaces the
// gradient, and where it is deferred it is kept beside the gradient. A bad block of a coded mean
// counts as 0 on its rank, which sends its residual alone.
template <class Base>
class GradientRule : public Base {
 public:
  explicit GradientRule(const Bucket& bucket)
      : Base(bucket),
        mean_(bucket.alone ? nullptr : this->make_gradient_mean()),
        coded_(!bucket.alone && this->codes_gradients()) {
    if (coded_) this->means_ = {mean_.get()};
  }

  void step(const Step& step) override {
    if (!mean_) return this->bucket_.device->run(gradient(), update(step), this->bucket_.x.size());
    const Values source{this->bucket_.g.data(), coded_};
    if (step.kind != Step::Kind::kCoded) return mean_->begin(source, update(step), {});
    this->begin_exchange(*mean_, source, update(step), step);
  }
  void average(const Step&) override {
    if (!this->bucket_.deferred) return mean_->reduce(this->bucket_.g);
    if (held_.empty()) held_ = Memory<float>(*this->bucket_.device, this->bucket_.x.size());
    mean_->begin(gradient(), Store{held_.data()}, {});
  }
  void apply(const Step& step) override {
    const float* mean = this->bucket_.deferred ? held_.data() : this->bucket_.g.data();
    this->bucket_.device->run(Values{mean}, update(step), this->bucket_.x.size());
  }
  std::vector<State> state() override {
    std::vector<State> all = moments();
    if (!mean_)
      for (State& one : all) one.spread = Spread::kMean;
    else
      for (State& one : mean_->state()) all.push_back(std::move(one));
    return all;
  }
  double residual_ratio() const override { return mean_ ? mean_->residual_ratio() : 0; }
  std::string describe() const override { return mean_ ? mean_->describe() : "alone"; }

  void redistribute(const Rule::Whole& whole, const Step&) override {
    if (mean_) return this->hand_out(this->residuals_in(whole), mean_->state());
    for (const State& one : moments()) this->store(whole.at(one.name), one.values);
  }

 protected:
  // What the mean does to the weights. What it points at lives until the next call.
  virtual Sink update(const Step& step) = 0;
  // State beside what the mean keeps.
  virtual std::vector<State> moments() = 0;

 private:
  Values gradient() const { return {this->bucket_.g.data()}; }

  std::unique_ptr<Mean> mean_;
  bool coded_;
  Memory<float> held_;
};

}  // namespace laconic::inline optim
