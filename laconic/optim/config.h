#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "laconic/collective/mean.h"

namespace laconic::inline optim {

// How a coded mean is exchanged. kAuto: in two rounds, with whichever codec of the method is
// measured to be fastest, an exact one included. Forms of one round and of counts are random signs'
// only.
enum class ExchangeForm : std::uint8_t { kTwoRound, kSingleRound, kCount, kAuto };
enum class Skip : std::uint8_t { kBlock, kStep };  // what a gradient that is not finite stops

// How the mean of gradients or displacements travels, in methods that work on it and in rounds of
// others. Not every method takes every one.
enum class GradientCodec : std::uint8_t { kFp32, kBf16, kInt8, kInt4, kSign, kInt2, kTopK };

// From which the intervals of 0/1 Adam follow: its paper's rules, or ours for short runs. kByLength
// is one of the two.
enum class IntervalSchedule : std::uint8_t { kByLength, kPublished, kShort };

// How the mean displacement of ranks that train alone moves the weights that they share.
enum class Outer : std::uint8_t { kAverage, kNesterov, kMomentum, kSign };

inline constexpr std::int64_t kAuto = -1;  // decided while training, by the method
inline constexpr std::int64_t kUnset = 0;  // follows from total_steps

// Text "default": the method's own value (Option::by_default), or what it chooses by the others.
inline constexpr std::string_view kDefaultText = "default";
inline constexpr std::int64_t kDefault = -1;
inline constexpr GradientCodec kDefaultCodec{0xff};
inline constexpr Feedback kDefaultFeedback{0xff};
inline constexpr Outer kDefaultOuter{0xff};
inline constexpr std::string_view kNoInner = "none";
inline constexpr double kNoMerge = -2;
inline constexpr std::int64_t kWholeInterval = -2, kEighthOfInterval = -3;  // delays

// One flat description of an optimizer; the same on every rank. Each method has some of these
// options (optim/method.h); those it does not have are not looked at. Names are the same in text
// and Python.
struct OptimizerConfig {
  std::string algorithm = "zero-one-adam";  // a registered method
  double weight_decay = 0;                  // decoupled; groups may have their own
  std::int64_t total_steps = kUnset;

  double momentum = 0.9;
  double beta1 = 0.9, beta2 = kDefault, epsilon = 1e-8;
  bool bias_correction = true;
  double variance_floor = 0.01;  // 0: off
  double min_trust = 0.01, max_trust = 10;

  std::int64_t freeze_step = kUnset;                        // or kAuto
  IntervalSchedule schedule = IntervalSchedule::kByLength;  // of what follows, where unset
  std::int64_t variance_freeze_step = kUnset, variance_kappa = kDefault;
  std::int64_t double_every = kUnset, max_interval = 16;  // double_every: or kAuto

  double beta = 0.9;
  ExchangeForm exchange = ExchangeForm::kTwoRound;
  RandomForm form = RandomForm::kTwoRound;  // of votes: the majority, or kCount
  std::int64_t momentum_sync_every = 0;     // 0: never
  bool strict = false;                      // kAuto decides once, and leaves the codec alone
  bool guard = false;                       // Optimizer::exchange_exactly may be called

  GradientCodec codec = kDefaultCodec;
  GradientCodec codec_down = kDefaultCodec;          // of lossy codecs, on the mean's way back
  GradientCodec dense_codec = GradientCodec::kFp32;  // rounds that average gradients beside others
  Feedback feedback = kDefaultFeedback;              // of lossy codecs
  double feedback_decay = kDefault;                  // kDecay
  std::int64_t feedback_reset = 1024;                // kEma: exchanges; 0: never
  std::size_t quant_block = 256;                     // int8, int4, int2
  std::size_t top_k = 128;                           // top-k: of each 4096 elements

  // A method that can be one, or "none": the caller moves the weights between begin() and step().
  std::string inner{kDefaultText};
  Outer outer = kDefaultOuter;
  std::int64_t every = kDefault, fragments = kDefault, delay = kDefault;
  double outer_lr = kDefault, outer_momentum = 0.9;
  double outer_beta1 = 0.95, outer_beta2 = 0.98, outer_weight_decay = 0;
  double merge = kDefault;  // or kNoMerge
  double gap_penalty = 1;   // 1: none
  double clip = 0;          // of the outer momentum; 0: none

  std::size_t scale_block = 4096;
  kernels::Norm scale_norm = kernels::Norm::kL2;
  bool bf16 = false;                                    // dense means: bf16 on the wire
  int ranks_per_node = kFlat;                           // or kAutoNodes, or a number
  std::size_t bucket_elements = std::size_t{25} << 18;  // 25 MiB of fp32
  double max_grad_norm = 0;                             // 0: no clipping
  Skip skip = Skip::kBlock;
  std::uint32_t seed = 0;
  std::int64_t shadow_every = 0, verify_every = 0;  // 0: never
  int threads = 1;                                  // of each rank
  std::string device = "cpu";                       // or emulated, cuda, cuda:0, …

  std::map<std::string, double, std::less<>> own = {};  // options of methods outside the library

  bool operator==(const OptimizerConfig&) const = default;
};

// Throws Error(kInvalidArgument) that names the field, its value and what it may be. Returns the
// config with what was unset filled in from total_steps.
OptimizerConfig validated(OptimizerConfig config);

// Sets one field from text, e.g. ("variance_kappa", "16"), ("freeze_step", "auto"), ("exchange",
// "single-round"), in any order. Methods may have aliases of their options, such as DeepSpeed's
// names. "unset" stands for kUnset, never 0: a freeze step of 0 is refused. An unknown name or a value that does
// not parse is Error(kInvalidArgument), with the nearest real name, and changes nothing.
void set(OptimizerConfig& config, std::string_view field, std::string_view value);

// Every option of every method, the config's method first, as text that `set` reads back to the same
// bits.
std::map<std::string, std::string> to_text(const OptimizerConfig& config);

}  // namespace laconic::inline optim
