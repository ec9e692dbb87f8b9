#include <algorithm>
#include <cmath>

#include "laconic/core/error.h"
#include "laconic/optim/adam_rule.h"
#include "laconic/optim/built_in_methods.h"
#include "laconic/optim/gradient_rule.h"
#include "laconic/optim/local_rule.h"

namespace laconic::inline optim {
namespace {

using C = OptimizerConfig;

// The fragment that is exchanged at step t: f where t = floor((f+1)*every/fragments) modulo every;
// -1: none.
int fragment_at(const C& config, std::int64_t t) {
  for (std::int64_t f = 0; f < config.fragments; ++f)
    if (t % config.every == (f + 1) * config.every / config.fragments % config.every)
      return static_cast<int>(f);
  return -1;
}

// Every fragment at steps of its own, all of them at the last step of a run.
class Alternating final : public Schedule {
 public:
  explicit Alternating(const C& config)
      : config_(config),
        kind_(is_exact(gradient_codec(config)) ? Step::Kind::kDense : Step::Kind::kCoded) {}

  Step plan(Counters c, double lr) const override {
    Step step = next(c, lr);
    step.variance_updates = step.t;
    const bool last = step.t == config_.total_steps;
    const int fragment = fragment_at(config_, step.t);
    step.kind = last || fragment >= 0 ? kind_ : Step::Kind::kSilent;
    step.fragment = last ? kAllFragments : fragment;
    step.delay = last ? 0 : config_.delay;
    return step;
  }

  void done(Counters& c, const Step& step, FunctionRef<double()> variance_norm) const override {
    Schedule::done(c, step, variance_norm);
    const bool whole = config_.fragments == 1 || step.fragment == kAllFragments;
    c.open() = step.exchanges() && whole && step.delay == 0 ? 0 : 1;
  }

 private:
  const C config_;
  Step::Kind kind_;
};

// Exchanges of the whole model: those of fragments count for their share.
Rounds rounds_of(const C& config, std::int64_t steps) {
  std::int64_t parts = steps > 0 ? config.fragments : 0;  // at the last step
  const std::int64_t before = steps > 0 ? steps - 1 : 0, rest = before % config.every;
  parts += before / config.every * config.fragments;
  for (std::int64_t t = 1; t <= rest; ++t) parts += fragment_at(config, t) >= 0 ? 1 : 0;
  const std::int64_t whole = (parts + config.fragments - 1) / config.fragments;
  const bool exact = is_exact(gradient_codec(config));
  return {.steps = steps,
          .dense = exact ? whole : 0,
          .coded = exact ? 0 : whole,
          .fragments = config.fragments > 1 ? parts : 0};
}

std::string inner_names() {
  std::string names;
  for (const Method* one : methods())
    if (one->inner) names += one->name + ", ";
  return names + std::string(kNoInner);
}

void check_inner(const C& config) {
  if (config.inner == kNoInner) {
    if (config.max_grad_norm > 0 || config.skip == Skip::kStep)
      fail(Code::kInvalidArgument,
           "inner = none with {}: the caller moves the weights, so it clips and skips",
           config.max_grad_norm > 0 ? fmt::format("max_grad_norm = {}", config.max_grad_norm)
                                    : "skip = step");
    return;
  }
  const auto all = methods();
  if (std::ranges::none_of(
          all, [&](const Method* one) { return one->inner && one->name == config.inner; }))
    fail(Code::kInvalidArgument, "inner = {}: give one of {}", config.inner, inner_names());
}

void check_spacing(const C& config) {
  if (config.fragments > config.every)
    fail(Code::kInvalidArgument,
         "fragments = {} with every = {}: at most one fragment per step can be exchanged; give at "
         "most {}",
         config.fragments, config.every, config.every);
  if (config.delay > config.every / config.fragments)
    fail(Code::kInvalidArgument,
         "delay = {} with every = {} and fragments = {}: an exchange must be applied before the "
         "next one begins; give at most {}",
         config.delay, config.every, config.fragments, config.every / config.fragments);
  if (config.delay == 0 && config.merge != kNoMerge)
    fail(Code::kInvalidArgument,
         "merge = {} with delay = 0: there is nothing to merge; give a delay, or merge = none",
         config.merge);
  if (config.delay > 0 && (config.guard || config.shadow_every > 0))
    fail(Code::kInvalidArgument,
         "{} with delay = {}: an exchange that outlives its step has no exact one beside it; leave "
         "one of them out",
         config.guard ? "guard = true" : fmt::format("shadow_every = {}", config.shadow_every),
         config.delay);
  if (config.exchange == ExchangeForm::kAuto)
    fail(Code::kInvalidArgument,
         "exchange = auto: {} exchanges too seldom to measure; leave it out, and choose the codec",
         config.algorithm);
}

void check_codecs(const C& config) {
  if (config.codec_down != kDefaultCodec && is_exact(gradient_codec(config)))
    fail(Code::kInvalidArgument,
         "codec_down = {} with codec = {}: an exact mean has no way back of its own; leave it out, "
         "or choose a lossy codec",
         gradient_codec_down(config), gradient_codec(config));
}

// Signs under an outer momentum diverge with full feedback.
void complete(C& config) {
  check_inner(config);
  check_codecs(config);
  if (config.delay == kWholeInterval) config.delay = config.every / config.fragments;
  if (config.delay == kEighthOfInterval) config.delay = std::max<std::int64_t>(1, config.every / 8);
  check_spacing(config);
  if (config.inner != kNoInner)
    if (const Option* beta2 = method_named(config.inner).find("beta2");
        beta2 != nullptr && config.beta2 == kDefault)
      beta2->read(*beta2, config, beta2->by_default);
  if (config.outer_lr == kDefault) config.outer_lr = config.outer == Outer::kNesterov ? 0.7 : 1;
  const bool momentum = config.outer == Outer::kNesterov || config.outer == Outer::kMomentum;
  const bool diverges = momentum && config.codec == GradientCodec::kSign;
  if (config.feedback == kDefaultFeedback)
    config.feedback = diverges ? Feedback::kDecay : Feedback::kFull;
  if (config.feedback_decay == kDefault) config.feedback_decay = diverges ? 0.8 : 0.95;
}

constexpr Word kOuters[] = {word("average", Outer::kAverage), word("nesterov", Outer::kNesterov),
                            word("momentum", Outer::kMomentum), word("sign", Outer::kSign),
                            word(kDefaultText, kDefaultOuter)};
constexpr Word kDelays[] = {word(kDefaultText, kDefault), word("interval", kWholeInterval),
                            word("eighth", kEighthOfInterval)};
constexpr Word kMerges[] = {word(kDefaultText, kDefault), word("none", -2)};
constexpr auto up_to_one = [](double v) { return v >= 0 && v <= 1; };
constexpr auto finite_from_one = [](double v) { return v >= 1 && std::isfinite(v); };
constexpr auto part_of_block = [](std::size_t v) { return v >= 1 && v <= 4096; };
constexpr auto any_text = [](const std::string& v) { return !v.empty(); };

std::vector<Option> spacing_options() {
  return {option<&C::inner>("inner", "a method that can be one, or none", any_text,
                            "what moves a rank's weights between exchanges: a method on the rank's "
                            "own gradient; none: the caller does")
              .otherwise("adamw"),
          option<&C::every>("every", kFromOne, from_one, "steps from one exchange to the next",
                            kByMethod)
              .in("steps")
              .otherwise("10"),
          option<&C::fragments>("fragments", kFromOne, from_one,
                                "parts of the model that are exchanged at steps of their own",
                                kByMethod)
              .otherwise("1"),
          option<&C::delay>("delay", "a whole number >= 0, interval or eighth", from_zero,
                            "steps from the begin of an exchange to its use, in which training "
                            "goes on; interval: until the next begins; eighth: of every",
                            kDelays)
              .in("steps")
              .otherwise("0"),
          option<&C::merge>("merge", "a number in [0, 1], or none", up_to_one,
                            "with a delay: the share of its own weights that a rank keeps; none: "
                            "it keeps what it learnt meanwhile",
                            kMerges)
              .otherwise("none")};
}

std::vector<Option> outer_options() {
  return {
      option<&C::outer>("outer", "average, nesterov, momentum or sign", word_only,
                        "how the mean displacement of the ranks moves the common weights", kOuters)
          .otherwise("average"),
      option<&C::outer_lr>("outer_lr", kFiniteFromZero, finite_from_zero,
                           "learning rate of the outer rule; default: 1, with nesterov 0.7",
                           kByMethod),
      option<&C::outer_momentum>("outer_momentum", kBelowOne, below_one,
                                 "nesterov and momentum: decay of the outer momentum"),
      option<&C::outer_beta1>("outer_beta1", kBelowOne, below_one,
                              "sign: weight of the outer momentum in the direction"),
      option<&C::outer_beta2>("outer_beta2", kBelowOne, below_one,
                              "sign: decay of the outer momentum"),
      option<&C::outer_weight_decay>("outer_weight_decay", kFiniteFromZero, finite_from_zero,
                                     "sign: weight decay of the outer rule"),
      option<&C::gap_penalty>("gap_penalty", "a finite number >= 1", finite_from_one,
                              "divides the mean displacement; 1: off"),
      option<&C::clip>("clip", kFiniteFromZero, finite_from_zero,
                       "bound of the outer momentum, element by element; 0: none")};
}

std::vector<Option> codec_options() {
  return {
      codec_option("fp32, bf16, int8, int4, int2, sign or top-k",
                   "how the mean displacement travels: all but fp32 and bf16 are lossy")
          .otherwise("fp32"),
      codec_down_option("fp32, bf16, int8, int4, int2, sign or top-k",
                        "how the mean of a lossy codec travels back; default: int8 beside top-k, "
                        "else as the codec"),
      option<&C::top_k>("top_k", "a whole number from 1 to 4096", part_of_block,
                        "top-k: elements of each 4096 that travel")
          .in("elements"),
      feedback_option("full, ema, decay or none",
                      "what a lossy codec leaves out: added to the next exchange, averaged over "
                      "exchanges, shrunk, or dropped; default: full, with sign under nesterov "
                      "or momentum decay"),
      option<&C::feedback_decay>("feedback_decay", "a number in [0, 1]", up_to_one,
                                 "feedback = decay keeps this share; default: 0.95, with sign "
                                 "under nesterov or momentum 0.8",
                                 kByMethod),
      feedback_reset_option(),
      quant_block_option()};
}

std::vector<Option> all_options() {
  std::vector<Option> all = spacing_options();
  for (const auto& more : {outer_options(), codec_options(), adam_options()})
    all.insert(all.end(), more.begin(), more.end());
  all.push_back(option<&C::momentum>("momentum", kBelowOne, below_one,
                                     "inner = sgdm: decay of its momentum"));
  const auto beta2 = std::ranges::find(all, "beta2", &Option::name);
  beta2->by_default = "";
  beta2->help = "decay of the inner method's second moment, or momentum; default: that method's";
  return all;
}

std::vector<Preset> presets() {
  return {
      {"local-adamw",
       "Local AdamW",
       "AdamW on each rank, and the mean of the weights from time to time",
       "Stich, Local SGD Converges Fast and Communicates Little, ICLR 2019",
       {},
       ""},
      {"diloco",
       "DiLoCo",
       "AdamW on each rank for hundreds of steps, then an outer step with Nesterov momentum",
       "Douillard et al., DiLoCo: Distributed Low-Communication Training of Language Models, 2023",
       {{"outer", "nesterov"}, {"every", "500"}},
       "DiLoCo"},
      {"streaming-diloco",
       "Streaming DiLoCo",
       "DiLoCo in fragments of four bits per parameter that are exchanged while training goes on",
       "Douillard et al., Streaming DiLoCo with overlapping communication, 2025",
       {{"outer", "nesterov"},
        {"every", "100"},
        {"codec", "int4"},
        {"fragments", "4"},
        {"delay", "eighth"},
        {"merge", "0.5"}},
       "StreamingDiLoCo"},
      {"dsm",
       "Distributed sign momentum",
       "AdamW on each rank, then an outer step of one size by the sign of a momentum",
       "Yu et al., Distributed Sign Momentum with Local Steps for Training Transformers, 2024",
       {{"outer", "sign"}, {"every", "12"}},
       "DSM"},
      {"co2",
       "CO2",
       "local steps whose exchange is applied a whole interval later, with outer momentum",
       "Sun et al., CO2: Efficient Distributed Training with Full Communication-Computation "
       "Overlap, ICLR 2024",
       {{"outer", "momentum"}, {"every", "12"}, {"delay", "interval"}},
       "CO2"},
      {"sparse-loco",
       "SparseLoCo",
       "AdamW on each rank, then the mean of the largest displacements; what is left out decays "
       "and "
       "takes the place of an outer momentum",
       "Sarfi et al., Communication Efficient LLM Pre-training with SparseLoCo, 2025",
       {{"every", "30"}, {"codec", "top-k"}, {"feedback", "decay"}},
       "SparseLoCo"}};
}

}  // namespace

Method local_steps_method() {
  return {
      .name = "local-steps",
      .title = "Local steps",
      .summary =
          "each rank trains alone for some steps, then an outer rule moves the common weights by "
          "the mean of how far the ranks moved; any codec, in fragments, while training goes on",
      .paper =
          "Wang et al., SlowMo: Improving Communication-Efficient Distributed SGD with Slow "
          "Momentum, ICLR 2020",
      .exchanges = "displacement, every so many steps, with the codec",
      .codec = "fp32",
      .python = "LocalSteps",
      .options = all_options(),
      .synced_weights = "x_sync",
      .coded_with = gradient_codec,
      .down_with = gradient_codec_down,
      .presets = presets(),
      .cost = {.state = 16, .exact = {0, 1.23e-9}, .coded = {0.4e-9, 0.8e-9}, .local = 1.23e-9},
      .sweeps = {.exact = "adam",
                 .before = "encode-displacement",
                 .after = "decode-outer",
                 .local = "adam",
                 .before_int4 = "encode-displacement-int4",
                 .after_int4 = "decode-outer-int4"},
      .complete = complete,
      .spacing =
          [](const C& config) {
            return Spacing{static_cast<int>(config.fragments), config.delay,
                           (config.every + config.fragments - 1) / config.fragments};
          },
      .make_rule = [](const Bucket& bucket) -> std::unique_ptr<Rule> {
        return std::make_unique<LocalRule>(bucket);
      },
      .make_schedule = [](const C& config) -> std::unique_ptr<Schedule> {
        return std::make_unique<Alternating>(config);
      },
      .rounds = rounds_of,
  };
}

}  // namespace laconic::inline optim
