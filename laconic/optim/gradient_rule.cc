#include "laconic/optim/gradient_rule.h"

#include <algorithm>

#include "laconic/core/error.h"
#include "laconic/optim/method.h"

namespace laconic::inline optim {
namespace {

using C = OptimizerConfig;

// An option may be set before its method is known, so all methods read all words; each refuses what
// it does not take.
constexpr Word kCodecs[] = {word("fp32", GradientCodec::kFp32),  word("bf16", GradientCodec::kBf16),
                            word("int8", GradientCodec::kInt8),  word("int4", GradientCodec::kInt4),
                            word("int2", GradientCodec::kInt2),  word("sign", GradientCodec::kSign),
                            word("top-k", GradientCodec::kTopK), word(kDefaultText, kDefaultCodec)};
// Of these the first ones are for gradients.
constexpr auto kDenseCodecs = std::span(kCodecs).first<4>();
constexpr Word kFeedbacks[] = {word("full", Feedback::kFull), word("ema", Feedback::kEma),
                               word("none", Feedback::kNone), word("decay", Feedback::kDecay),
                               word(kDefaultText, kDefaultFeedback)};
constexpr auto kGradientFeedbacks = std::span(kFeedbacks).first<3>();
constexpr auto whole_words_from_one = [](std::size_t v) { return v >= 64 && v % 64 == 0; };

std::string name_of(GradientCodec codec, const C& config) {
  if (codec == kDefaultCodec) codec = GradientCodec::kFp32;
  if (codec == GradientCodec::kFp32 && config.bf16) return "bf16";
  for (const Word& one : kCodecs)
    if (one.value == static_cast<std::int64_t>(codec)) return std::string(one.text);
  fail(Code::kInvalidArgument, "there is no codec of number {}", static_cast<int>(codec));
}

// Of the rounds: with a choice of codecs they are coded, whichever is taken.
bool is_lossy(const C& config) {
  return !is_exact(gradient_codec(config)) ||
         !method_named(config.algorithm).choices_of(config).empty();
}

}  // namespace

std::vector<Option> gradient_options() {
  return {
      codec_option("fp32, bf16, int8 or int4",
                   "how the mean of the gradients travels: int8 and int4 are lossy")
          .otherwise("fp32")
          .taking(kDenseCodecs),
      feedback_option("full, ema or none",
                      "what a lossy codec leaves out: added to the next exchange, averaged over "
                      "exchanges (LoCo), or dropped")
          .otherwise("full")
          .taking(kGradientFeedbacks),
      feedback_reset_option(), quant_block_option(),
      option<&C::exchange>("exchange", "two-round or auto", word_only,
                           "auto: fp32, bf16, int8 or int4, whichever is measured to be fastest; "
                           "with strict the codec or an exact one",
                           kForms)
          .taking(kTwoRoundOrAuto)};
}

Option codec_option(std::string_view allowed, std::string_view help) {
  return option<&C::codec>("codec", allowed, word_only, help, kCodecs);
}
Option codec_down_option(std::string_view allowed, std::string_view help) {
  return option<&C::codec_down>("codec_down", allowed, word_only, help, kCodecs);
}
Option feedback_option(std::string_view allowed, std::string_view help) {
  return option<&C::feedback>("feedback", allowed, word_only, help, kFeedbacks);
}
Option feedback_reset_option() {
  return option<&C::feedback_reset>("feedback_reset", kFromZero, from_zero,
                                    "feedback = ema begins anew after so many; 0: never")
      .in("exchanges");
}
Option quant_block_option() {
  return option<&C::quant_block>("quant_block", "a multiple of 64, at least 64",
                                 whole_words_from_one,
                                 "int8, int4 and int2: elements that share a scale")
      .in("elements");
}

std::vector<Option> dense_round_options() {
  return {option<&C::dense_codec>(
              "dense_codec", "fp32, bf16, int8 or int4", word_only,
              "how the mean of the gradients travels in rounds that are exact by default: int8 "
              "and int4 are lossy, and add what they leave out to the next such round",
              kDenseCodecs),
          quant_block_option()};
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
  if (config.codec == GradientCodec::kInt2 || config.codec == GradientCodec::kTopK)
    fail(Code::kInvalidArgument, "codec = {}: {} takes fp32, bf16, int8 or int4",
         gradient_codec(config), config.algorithm);
  if (config.feedback == Feedback::kDecay)
    fail(Code::kInvalidArgument, "feedback = decay: {} takes full, ema or none", config.algorithm);
}

std::string gradient_codec(const OptimizerConfig& config) { return name_of(config.codec, config); }

std::vector<std::string> gradient_choices(const OptimizerConfig& config) {
  std::vector<std::string> all;
  for (const Word& one : kDenseCodecs) {
    const std::string name = name_of(static_cast<GradientCodec>(one.value), config);
    if (std::ranges::find(all, name) == all.end()) all.push_back(name);
  }
  return all;
}

std::string gradient_codec_down(const OptimizerConfig& config) {
  return config.codec_down == kDefaultCodec ? "" : name_of(config.codec_down, config);
}

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
