#pragma once

#include <algorithm>
#include <map>
#include <memory>

#include "laconic/collective/switching.h"
#include "laconic/core/buffer.h"
#include "laconic/optim/optimizer.h"
#include "laconic/optim/policy.h"
#include "laconic/optim/rest.h"

namespace laconic::inline optim {

// Accumulates how closely coded means match exact ones, range by range.
struct Shadow {
  struct Sums {
    double dot = 0, exact = 0, coded = 0, error = 0;
    std::uint64_t agree = 0, counted = 0;
  };
  std::vector<NamedRange> ranges;
  std::vector<Sums> sums;
  bool on = false;  // in this step

  std::vector<Gauge> gauges() const;
};

// What a rule is given for its life: one bucket of the model.
struct Bucket {
  const OptimizerConfig* config;
  const Nodes* nodes;
  const Nodes* flat;  // where paths may change and `nodes` is a hierarchy, else null
  bool may_switch;    // a coded mean may be exchanged exactly
  Device* device;
  Shadow* shadow;
  Rest* rest;     // null: nothing ever rests
  bool deferred;  // an exact mean waits for apply()
  Group group;
  const GroupStep* now;  // of this step
  int index = 0;
  std::size_t begin = 0;  // in the model
  std::span<float> x, g;  // weights and gradient
};

// What differs between optimizers: the steps of one bucket. A rule keeps no loop over elements: it
// describes sources, sinks and passes (device/pass.h), which means and the device run. Called by one
// thread at a time.
class Rule {
 public:
  explicit Rule(const Bucket& bucket) : bucket_(bucket) {}
  virtual ~Rule() = default;

  virtual void step(const Step& step) = 0;
  // Dense rules only: the exact mean replaces the gradient (or is kept, where that is deferred),
  // then `apply` does the rest of a step.
  virtual void average(const Step&) {}
  virtual void apply(const Step&) {}
  // The same while these pieces of the bucket stay as they are.
  void step_around(const Step& step, std::span<const Piece> resting);
  void apply_around(const Step& step, std::span<const Piece> resting);
  // v stays from this step on.
  virtual void freeze() {}
  virtual void synchronize(const Step&) {}
  // Before the very first step, and after state was replaced.
  virtual void start() {}
  // `frozen`: v stays.
  virtual void restored(bool frozen) { static_cast<void>(frozen); }

  virtual std::vector<State> state() = 0;
  virtual std::span<const float> synced() const { return bucket_.x; }
  // synced() is memory of the rule's own; adopt() makes it what the weights are.
  bool keeps_weights() const { return synced().data() != bucket_.x.data(); }
  virtual void adopt() {}
  virtual double variance_norm() const { return 0; }  // ‖v‖₁
  virtual double residual_ratio() const { return 0; }
  virtual std::string describe() const = 0;
  // Blocks whose gradient (or mean) was not finite, so far.
  std::uint64_t bad_blocks() const;
  // Its coded mean, where that may take another path; else null.
  SwitchingMean* switching() const noexcept { return switching_; }

  // Another number of ranks: `whole` holds every state of the old run, averaged or put together.
  using Whole = std::map<std::string, std::vector<float>>;
  virtual void redistribute(const Whole&, const Step&) {}

 protected:
  std::unique_ptr<Mean> make_exact(std::span<float> pending = {}) const;
  // With this codec where the group is compressed, and able to switch where it may; else exact.
  std::unique_ptr<Mean> make_coded(const std::string& codec, std::span<float> pending = {},
                                   Feedback feedback = Feedback::kFull);
  // Of gradients, with the codec and feedback of the configuration.
  std::unique_ptr<Mean> make_gradient_mean();
  // With this codec where the group is compressed, never on another path and without residuals;
  // else exact.
  std::unique_ptr<Mean> make_plain(const std::string& codec) const;
  // That mean may leave something out.
  bool codes_gradients() const;
  // The sum of the residuals in `whole`, over all paths.
  Buffer<float> residuals_in(const Whole& whole) const;
  // An exchange, gauged on shadow steps.
  void exchange(Mean& mean, const Source& source, const Sink& sink, const Step& step,
                std::span<const float> live = {});
  // `live` without what rests.
  std::span<const float> masked(std::span<const float> live = {});
  // How exact means find bad blocks, which are counted here.
  BadBlocks bad() { return {bucket_.config->scale_block, &bad_}; }
  // Coded means ask again for bad blocks and count them; exact ones of groups that are not
  // compressed are counted here.
  Counter* exact_bad() { return bucket_.group.compress ? nullptr : &bad_; }
  // In the middle of a step: what rests is as it was before the step.
  void put_back_resting() {
    if (!resting_.empty()) kept_.put_back();
  }

  double lr() const { return bucket_.now->lr; }
  // 1 - lr*wd.
  double decay() const { return 1 - lr() * bucket_.now->weight_decay; }

  Bucket bucket_;
  std::vector<Mean*> means_;  // whose bad blocks count as ours

 private:
  std::unique_ptr<Mean> make(const std::string& codec, std::span<float> pending, Feedback feedback,
                             const Nodes& nodes) const;

  SwitchingMean* switching_ = nullptr;
  Counter bad_{0};
  std::span<const Piece> resting_;  // in this step
  Kept kept_;
  Buffer<float> mask_;
  std::unique_ptr<Mean> exact_;
  Buffer<float> given_, decoded_;
};

}  // namespace laconic::inline optim
