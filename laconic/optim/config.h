#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "laconic/collective/mean.h"

namespace laconic {

enum class Algorithm : std::uint8_t { kSgdm, kAdamW, kOneBitAdam, kZeroOneAdam, kBirder };
// Birder's forms; kAuto, for every optimizer that codes: two rounds, or exact where that is
// measured to be faster.
enum class ExchangeForm : std::uint8_t { kTwoRound, kSingleRound, kCount, kAuto };
enum class Skip : std::uint8_t { kBlock, kStep };  // what a gradient that is not finite stops

inline constexpr std::int64_t kAuto = -1;  // decided while training, as the algorithm says
inline constexpr std::int64_t kUnset = 0;  // follows from total_steps

// One flat description of an optimizer; the same on every rank. Names are the same in text
// (underscores) and Python.
struct OptimizerConfig {
  Algorithm algorithm = Algorithm::kZeroOneAdam;
  double weight_decay = 0;  // decoupled; groups may have their own
  std::int64_t total_steps = kUnset;

  double momentum = 0.9;                              // sgdm
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // the Adam family
  bool bias_correction = true;
  double variance_floor = 0.01;  // one-bit-adam, zero-one-adam; 0: off

  std::int64_t freeze_step = kUnset;           // one-bit-adam; kAuto; unset: 20 % of total_steps
  std::int64_t variance_freeze_step = kUnset;  // zero-one-adam; unset: 15 % of total_steps
  std::int64_t variance_kappa = 16;            // zero-one-adam
  std::int64_t double_every =
      kUnset;  // zero-one-adam; kAuto: intervals from the learning rate; unset: (T - freeze)/6
  std::int64_t max_interval = 16;  // zero-one-adam

  double beta = 0.9;                                // birder
  ExchangeForm exchange = ExchangeForm::kTwoRound;  // birder; kAuto: all that code
  bool strict = false;  // kAuto decides once, before the first coded step
  bool guard = false;   // Optimizer::exchange_exactly may be called

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

  bool operator==(const OptimizerConfig&) const = default;
};

// "sgdm", "adamw", "one-bit-adam", "zero-one-adam", "birder".
const char* name(Algorithm algorithm) noexcept;

// Throws Error(kInvalidArgument) that names the field, its value and what it may be. Returns the
// config with what was unset filled in from total_steps.
OptimizerConfig validated(OptimizerConfig config);

// Sets one field from text, e.g. ("variance_kappa", "16"), ("freeze_step", "auto"), ("exchange",
// "single-round"). DeepSpeed's names are aliases: var_freeze_step, var_update_scaler,
// local_step_scaler, local_step_clipper, freeze_step. "unset" stands for kUnset, never 0: a freeze
// step of 0 is refused. An unknown name or a value that does not parse is Error(kInvalidArgument),
// with the nearest real name, and changes nothing.
void set(OptimizerConfig& config, std::string_view field, std::string_view value);

// Every field as text that `set` reads back to the same bits.
std::map<std::string, std::string> to_text(const OptimizerConfig& config);

}  // namespace laconic
