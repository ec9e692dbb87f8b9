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

class Courier;

// What a rule is given for its life: one bucket of the model.
struct Bucket {
  const OptimizerConfig* config;
  const Nodes* nodes;
  const Nodes* flat;            // where paths may change and `nodes` is a hierarchy, else null
  std::span<const Path> paths;  // among which a coded mean may change; empty: it cannot
  Device* device;
  Shadow* shadow;
  Rest* rest;                    // null: nothing ever rests
  bool deferred;                 // an exact mean waits for apply()
  Courier* courier = nullptr;    // of exchanges that outlive their step, whose nodes are `nodes`
  Conveyor* conveyor = nullptr;  // on which exchanges of buckets overlap; null: they do not
  bool alone = false;            // nothing is exchanged: the inner update of another method
  int fragment = 0;              // of the model, to which the bucket belongs
  Group group;
  const GroupStep* now;  // of this step
  int index = 0;
  std::uint32_t key = 0;  // of its random numbers
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

  // A step of the bucket. Methods with a spacing (Method::spacing) have two parts before it, and
  // this one only where exchanges(): what this rank does with its own gradient, around ranges that
  // have none here; and what an exchange that started in an earlier step brings.
  virtual void move(const Step&, std::span<const Piece> absent) { static_cast<void>(absent); }
  virtual void arrive(const Step&) {}
  virtual void step(const Step& step) = 0;
  virtual bool exchanges(const Step& step) const { return step.exchanges(); }
  // An exchange that started earlier is due in this step.
  virtual bool arrives(const Step&) const { return false; }
  // Called by the courier's thread: the exchange of a bucket that was posted.
  virtual void deliver() {}
  // Dense rules only: the exact mean replaces the gradient (or is kept, where that is deferred),
  // then `apply` does the rest of a step.
  virtual void average(const Step&) {}
  virtual void apply(const Step&) {}
  // The same while these pieces of the bucket stay as they are.
  void step_around(const Step& step, std::span<const Piece> resting);
  void apply_around(const Step& step, std::span<const Piece> resting);
  // True: `step` and `apply` leave the weights alone. Once all buckets have been through, every
  // tensor moves as a whole, by what part_of() describes; the rate is filled in. `rested`: steps in
  // which the tensor rested so far. What the part points at lives until moved().
  virtual bool by_tensor() const { return false; }
  virtual TensorPart part_of(const Step& step, std::int64_t rested, std::size_t begin,
                             std::size_t count);
  virtual void moved() {}
  void synchronize_around(const Step& step, std::span<const Piece> resting);
  // step() and synchronize() leave what rests as it is by themselves.
  virtual bool keeps_what_rests() const { return false; }
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
  virtual std::uint64_t bad_blocks() const;
  // Its coded mean, where that may take another path; else null.
  SwitchingMean* switching() const noexcept { return switching_; }
  // The same of its dense rounds, where those are coded and may be exact for some steps.
  SwitchingMean* dense_switching() const noexcept { return dense_switching_; }

  // Another number of ranks: `whole` holds every state of the old run, averaged or put together.
  using Whole = std::map<std::string, std::vector<float>>;
  virtual void redistribute(const Whole&, const Step&) {}

 protected:
  std::unique_ptr<Mean> make_exact(std::span<float> pending = {}) const;
  // With this codec where the group is compressed, and able to switch where it may; else exact.
  std::unique_ptr<Mean> make_coded(const std::string& codec, std::span<float> pending = {},
                                   Feedback feedback = Feedback::kFull);
  // Of gradients or displacements, with the codec and feedback of the configuration.
  std::unique_ptr<Mean> make_gradient_mean();
  // With this codec where the group is compressed, never on another path and without residuals;
  // else exact.
  std::unique_ptr<Mean> make_plain(const std::string& codec) const;
  // That mean may leave something out.
  bool codes_gradients() const;
  // Of gradients in dense rounds: exact, or with the method's codec of those and full feedback.
  std::unique_ptr<Mean> make_dense();
  // That mean may leave something out.
  bool codes_dense_rounds() const;
  // The sum of the residuals in `whole` whose names begin with `prefix`, over all paths.
  Buffer<float> residuals_in(const Whole& whole, std::string_view prefix = "") const;
  // Of a mean of gradients on other ranks: every worker's residual on the first path that has one
  // is e, and all others are 0.
  void hand_out(const Buffer<float>& e, const std::vector<State>& states) const;
  // What the bucket's device has, and the host.
  void fetch(std::span<const float> from, std::span<float> to_host) const {
    copy_from<float>(*bucket_.device, from, to_host);
  }
  void store(std::span<const float> from_host, std::span<float> to) const {
    copy_to<float>(*bucket_.device, from_host, to);
  }
  // Sets it to 0.
  void clear(const State& state) const;
  // An exchange, gauged on shadow steps.
  void exchange(Mean& mean, const Source& source, const Sink& sink, const Step& step,
                std::span<const float> live = {});
  // The last one of a step: it may end while other buckets are under way.
  void begin_exchange(Mean& mean, const Source& source, const Sink& sink, const Step& step,
                      std::span<const float> live = {});
  // How exact means find bad blocks, which are counted here.
  BadBlocks bad() { return {bucket_.config->scale_block, &bad_}; }
  // Coded means ask again for bad blocks and count them; exact ones of groups that are not
  // compressed are counted here.
  Counter* exact_bad() { return bucket_.group.compress ? nullptr : &bad_; }
  // Of this step, of what is live and does not rest; valid until the next step that has something
  // resting.
  Round round_of(const Step& step, std::span<const float> live = {}) {
    return {.step = static_cast<std::uint64_t>(step.t), .live = masked(live)};
  }
  std::span<const Piece> resting() const noexcept { return resting_; }
  // In the middle of a step: what rests is as it was before the step.
  void put_back_resting() {
    if (!resting_.empty()) kept_.put_back(*bucket_.device);
  }

  double lr() const { return bucket_.now->lr; }
  // 1 - lr*wd.
  double decay() const { return 1 - lr() * bucket_.now->weight_decay; }

  Bucket bucket_;
  std::vector<Mean*> means_;  // whose bad blocks count as ours

 private:
  std::unique_ptr<Mean> make(const std::string& codec, std::span<float> pending, Feedback feedback,
                             const Nodes& nodes) const;
  std::unique_ptr<SwitchingMean> make_switching(std::span<const Path> paths,
                                                std::span<float> pending, Feedback feedback) const;
  void around(std::span<const Piece> resting, FunctionRef<void()> work);
  // `live` without what rests.
  std::span<const float> masked(std::span<const float> live);

  SwitchingMean *switching_ = nullptr, *dense_switching_ = nullptr;
  Counter bad_{0};
  std::span<const Piece> resting_;  // in this step
  Kept kept_;
  Memory<float> mask_;
  std::unique_ptr<Mean> exact_;
  Memory<float> given_, decoded_;
};

}  // namespace laconic::inline optim
