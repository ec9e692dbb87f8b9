#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "laconic/collective/mean.h"
#include "laconic/optim/config.h"

namespace laconic::inline optim {

// A run of parameters with settings of its own. Groups follow each other and cover the weights.
struct Group {
  std::string name;
  std::size_t elements = 0;
  double lr_factor = 1;
  double weight_decay = 0;
  bool compress = true;  // false: its means are exact
  int holder = 0;        // with Model::shards: the first rank of those that holds the same part
};

// What a group does in one step.
struct GroupStep {
  double lr = 0, weight_decay = 0;
};

// A named part of the weights, such as a tensor.
struct NamedRange {
  std::string name;
  std::size_t begin = 0, count = 0;
};

// Agreement of the coded and the exact mean of a range.
struct Gauge {
  std::string name;
  double cosine = 0, sign_agreement = 0, relative_error = 0;
};

struct StepStats {
  std::int64_t step = 0;
  std::string kind;  // "dense", "coded", "silent", "skipped", "nothing"
  // Sent by this rank in this step; an exchange that outlives its step counts where it is applied.
  std::uint64_t bytes_inside = 0, bytes_between = 0;
  std::uint64_t bad_blocks = 0;  // on this rank, in this step
  double grad_norm = 0;          // where clipping is on
  double residual_ratio = 0;     // ‖residual‖ / ‖transmitted‖ (coded steps)
  std::vector<Gauge> shadow;     // on shadow steps
  std::string exchange;          // coded steps with paths to choose from: the buckets' paths
  double waited_seconds = 0;     // for an exchange that started in an earlier step
};

struct Totals {
  std::int64_t steps = 0, dense = 0, coded = 0, silent = 0, skipped = 0;
  std::uint64_t bytes = 0, bytes_inside = 0, bytes_between = 0, bad_blocks = 0;
  double waited_seconds = 0;
  std::int64_t rounds() const noexcept { return dense + coded; }
};

struct Model {
  // Of equal length; stay where they are. Where the caller moves the weights, no gradient is needed.
  std::span<float> weights, gradient;
  std::vector<Group> groups;       // empty: one, with the config's weight decay
  std::vector<NamedRange> ranges;  // empty: the groups
  // A range may have no gradient in a step (see Optimizer::absent). Ranges then follow each other
  // and cover the weights. Costs a round of one byte per step, or per bucket ready before step().
  bool may_rest = false;
  // Exact methods: the weights move in step() only, whatever was ready before, so a step can still
  // be abandoned there. Costs 4 bytes per parameter and a round of one byte per step.
  bool deferred = false;
  // Where a method goes on from weights of its own (those of the last sync), begin() notices a
  // write to the model's weights between two steps, alike on all ranks, and goes on from what was
  // written; between two syncs, where ranks have weights of their own, it throws and names the
  // range. Ranges then cover the weights. Costs two hashes of the weights per step of such a method.
  // Other methods go on from what was written anyway.
  bool watched = false;
  // Weights and gradient are memory of the config's device. Otherwise, and where that is not the
  // CPU, the device works on copies: it takes the weights in begin(), each bucket's gradient when it
  // is ready, and gives the weights back in step().
  bool on_device = false;
  // Other ranks hold the other parts of the model, or the same ones where a group has the same
  // holder: these ranks, of which none but this one trains with the optimizer's. Norms are then
  // those of the whole model. Groups and ranges are as many on all of them; a group's parts differ
  // in length. Kept alive by the caller.
  Transport* shards = nullptr;
};

// What a rank asks for at the end of a step. One rank that abandons is enough for all, then one
// that exchanges again. Other than kApply needs a method that defers.
enum class Finish : std::uint8_t {
  kApply,
  kExchangeAgain,  // the gradient was changed after its bucket was ready
  kAbandon,        // as if the step had not begun
};

// Drives the steps of one model. One thread at a time. If a call throws Error(kInvalidArgument)
// nothing was changed; after any other error the object is unusable.
class Training {
 public:
  virtual ~Training() = default;

  // The caller's calls below come from work on this stream (cudaStream_t, null: none) of the config's
  // device. Gradients that are ready, and weights, are waited for there; and what the stream does
  // after step() comes after the weights have moved. May change between calls.
  virtual void follow(void* stream) { static_cast<void>(stream); }
  // The step's learning rate, before the first bucket is ready. Collective before the first step,
  // and on coded steps that may choose their path.
  virtual void begin(double lr) = 0;
  // The same with rates of their own for the groups, one each, in place of lr * lr_factor and the
  // group's weight decay. Schedules follow the largest lr. REQUIRES: equal on all ranks.
  virtual void begin(std::span<const GroupStep> groups) = 0;
  // Between steps: notices at once what begin() would (Model::watched), e.g. before state is read.
  // The next begin() does not look again.
  virtual void take_up_weights() = 0;
  // Between steps: the caller wrote to the weights of this range, as if begin() had noticed. Where
  // they are memory of a device, Model::watched would copy all of them, and only the caller knows.
  virtual void written(std::size_t range) = 0;
  // The gradient of this bucket is complete: its exchange may start. Any order; each once per step.
  virtual void ready(int bucket) = 0;
  // Range `range` of the model has no gradient on this rank in this step; its part of the flat
  // gradient is 0. Before its buckets are ready. A range that is absent on all ranks (on local
  // steps: here; at a sync: in all steps since the last one) rests: its weights, moments and
  // residuals stay as they are. REQUIRES: Model::may_rest.
  virtual void absent(std::size_t range) = 0;
  // Whether buckets that are ready move no weights before step() (Model::deferred).
  virtual bool defers() const noexcept = 0;
  // Other rates for the step that has begun. REQUIRES: defers().
  virtual void change_rates(std::span<const GroupStep> groups) = 0;
  // Finishes; every bucket not yet ready counts as ready. The step's kind is "skipped" where the
  // ranks abandoned it.
  virtual void step(Finish wish = Finish::kApply) = 0;
  // The simple case: begin and step.
  void step(double lr) {
    begin(lr);
    step();
  }
  // Uses exact means for the next `steps` coded steps (and dense ones with dense_codec), e.g. after
  // a loss spike. Equal on all ranks,
  // between steps. Throws Error(kInvalidArgument) without `guard` in the config.
  virtual void exchange_exactly(int steps) = 0;
  // After it all replicas are byte-equal. Collective; a no-op right after a sync.
  virtual void synchronize() = 0;
  // The next step exchanges, or applies an exchange. Where the caller moves the weights (inner =
  // none), other steps do not look at them, but the first begin() does.
  virtual bool exchanges_next() const = 0;
  // All replicas have the weights of the last sync: no step went on from there, nothing is under way.
  virtual bool in_sync() const noexcept = 0;
  // Ends what goes on between calls: exchanges under way and signs of life. Waits for the other
  // ranks' threads, at most as long as the transport does. Only reports may be asked for afterwards.
  virtual void close() noexcept {}
};

// A run as checkpoints see it: its shape and its state. REQUIRES: no step is under way where state
// or the transport is used.
class SavedState {
 public:
  virtual ~SavedState() = default;

  virtual const OptimizerConfig& config() const noexcept = 0;
  // As given to make_optimizer, with groups and ranges filled in.
  virtual const Model& model() const noexcept = 0;
  // The model's weights in memory of the host: its own, or a copy of what a device has now. What is
  // written there counts from restored() on.
  virtual std::span<float> weights() { return model().weights; }
  virtual Transport& transport() const noexcept = 0;
  // Bucket i covers bucket(i); a bucket never crosses a group. Later buckets are exchanged first.
  virtual int buckets() const noexcept = 0;
  virtual NamedRange bucket(int index) const = 0;
  virtual std::int64_t steps_taken() const noexcept = 0;

  // Memory of the host, on every device: what is written there counts from restored() on.
  // Names are unique and equal on all ranks. Entries of bucket i are prefixed "bucket<i>/"; kMean
  // and kOwned entries always belong to a bucket. The first call starts the rules, as begin() does.
  virtual std::vector<State> state() = 0;
  // The weights of the last sync, equal on all ranks: what to evaluate and to save.
  virtual void synced_weights(std::span<float> out) const = 0;
  // For a resume with other ranks: state that is kSame or kScalar and the weights hold what was
  // saved, the weights those of the last sync. `whole` has what the saved ranks held of the bucket
  // beside that, by name without "bucket<i>/", each as long as the bucket: the mean over ranks of
  // kMean, the parts of kOwned put together, and "weights", the mean of the ranks' own, where these
  // were not the synced ones. Sets the rest of the bucket's state. Called for bucket
  // 0, 1, … in order, before restored(); scalars stay as saved until the last one. Not collective.
  virtual void redistribute(int bucket, const std::map<std::string, std::vector<float>>& whole) = 0;
  // Collective: state and weights were replaced (e.g. by a checkpoint). The next step then follows
  // the step in the restored scalars.
  virtual void restored() = 0;
};

// What a run did.
class Telemetry {
 public:
  virtual ~Telemetry() = default;

  virtual const StepStats& stats() const noexcept = 0;  // of the last step
  virtual const Totals& totals() const noexcept = 0;
  // From now on (true) notes when buckets were computed, encoded, sent and decoded, and when step()
  // waited; at most a million spans. What was noted before is dropped. Between steps.
  virtual void trace(bool on) = 0;
  // In a trace, the caller spent the time since begin(), or since its last note, on `what`, a
  // literal: "forward", before the backward pass begins.
  virtual void note(const char* what) = 0;
  // What was noted, as Chrome's trace format (chrome://tracing, ui.perfetto.dev) has it.
  virtual std::string traced() const = 0;
  // What really runs: "adamw, 1000 parameters in 1 bucket(s), …".
  virtual std::string describe() const = 0;
};

// Trains one model: flat weights cut into buckets, a rule, a schedule, one ordered queue with one
// communication thread per rank. Every rank passes the same configuration and lengths; the weights
// must be equal before the first step.
class Optimizer : public Training, public SavedState, public Telemetry {};

// Collective: ranks compare what they ask for. The caller keeps `transport` and the model's memory
// alive.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, const Model& model,
                                          Transport& transport);

}  // namespace laconic::inline optim
