#include "laconic/optim/gradient_rule.h"

#include "laconic/core/error.h"

namespace laconic::inline optim {
namespace {

using C = OptimizerConfig;

// `sign` is known, so that it can be refused with the reason.
constexpr Word kCodecs[] = {word("fp32", GradientCodec::kFp32), word("bf16", GradientCodec::kBf16),
                            word("int8", GradientCodec::kInt8), word("int4", GradientCodec::kInt4),
                            word("sign", GradientCodec::kSign)};
// Without `sign`.
constexpr auto kDenseCodecs = std::span(kCodecs).first<4>();
constexpr Word kFeedbacks[] = {word("full", Feedback::kFull), word("ema", Feedback::kEma),
                               word("none", Feedback::kNone)};
constexpr auto whole_words_from_one = [](std::size_t v) { return v >= 64 && v % 64 == 0; };

constexpr Option kQuantBlock =
    option<&C::quant_block>("quant_block", "a multiple of 64, at least 64", whole_words_from_one,
                            "int8 and int4: elements that share a scale")
        .in("elements");

std::string name_of(GradientCodec codec, const C& config) {
  if (codec == GradientCodec::kFp32 && config.bf16) return "bf16";
  return std::string(kCodecs[static_cast<std::size_t>(codec)].text);
}

bool is_lossy(const C& config) {
  return config.codec == GradientCodec::kInt8 || config.codec == GradientCodec::kInt4;
}

}  // namespace

std::vector<Option> gradient_options() {
  return {
      option<&C::codec>("codec", "fp32, bf16, int8 or int4", word_only,
                        "how the mean of the gradients travels: int8 and int4 are lossy", kCodecs),
      option<&C::feedback>("feedback", "full, ema or none", word_only,
                           "what a lossy codec leaves out: added to the next exchange, averaged "
                           "over exchanges (LoCo), or dropped",
                           kFeedbacks),
      option<&C::feedback_reset>("feedback_reset", kFromZero, from_zero,
                                 "feedback = ema begins anew after so many; 0: never")
          .in("exchanges"),
      kQuantBlock};
}

std::vector<Option> dense_round_options() {
  return {option<&C::dense_codec>(
              "dense_codec", "fp32, bf16, int8 or int4", word_only,
              "how the mean of the gradients travels in rounds that are exact by default: int8 "
              "and int4 are lossy, and add what they leave out to the next such round",
              kDenseCodecs),
          kQuantBlock};
}

std::vector<Option> with_gradient_options(std::vector<Option> own) {
  for (const Option& one : gradient_options()) own.push_back(one);
  return own;
}

void check_gradient_codec(OptimizerConfig& config) {
  if (config.codec == GradientCodec::kSign)
    fail(Code::kInvalidArgument,
         "codec = sign: {} on signs of gradients does not learn (a simulation ended at a loss of "
         "2.43 against 1.93, with int4 at 1.94); give int8 or int4, or for one bit choose "
         "one-bit-adam, zero-one-adam or birder",
         config.algorithm);
}

std::string gradient_codec(const OptimizerConfig& config) { return name_of(config.codec, config); }

std::string dense_round_codec(const OptimizerConfig& config) {
  return name_of(config.dense_codec, config);
}

std::unique_ptr<Schedule> gradient_schedule(const OptimizerConfig& config) {
  return every_step(is_lossy(config) ? Step::Kind::kCoded : Step::Kind::kDense);
}

Rounds gradient_rounds(const OptimizerConfig& config, std::int64_t steps) {
  return {
      .steps = steps, .dense = is_lossy(config) ? 0 : steps, .coded = is_lossy(config) ? steps : 0};
}

}  // namespace laconic::inline optim
