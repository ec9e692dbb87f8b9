#include "laconic/optim/config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "laconic/optim/method.h"
#include "tests/support/refusal.h"
#include "tests/support/thrown.h"

namespace laconic {
namespace {

using testing::refusal_of;
using testing::says;

std::string refusal(std::string_view field, std::string_view value) {
  OptimizerConfig config;
  const std::string message = refusal_of([&] { set(config, field, value); });
  EXPECT_EQ(config, OptimizerConfig()) << field << " = " << value;
  return message;
}

std::string refusal(const OptimizerConfig& config) {
  return refusal_of([&] { validated(config); });
}

OptimizerConfig with(std::string_view field, std::string_view value,
                     OptimizerConfig config = {.total_steps = 1000}) {
  set(config, field, value);
  return config;
}

OptimizerConfig nothing_default() {
  return {.algorithm = "birder",
          .weight_decay = 0.1,
          .total_steps = 118'000,
          .momentum = std::nextafter(0.5, 1),
          .beta1 = 1.0 / 3,
          .beta2 = std::nextafter(1.0, 0),
          .epsilon = std::numeric_limits<double>::denorm_min(),
          .bias_correction = false,
          .variance_floor = 0,
          .min_trust = 1e-300,
          .max_trust = 1.0 / 3,
          .freeze_step = kAuto,
          .schedule = IntervalSchedule::kShort,
          .variance_freeze_step = 12'500,
          .variance_kappa = 7,
          .double_every = kAuto,
          .max_interval = 8,
          .beta = 0.95,
          .exchange = ExchangeForm::kSingleRound,
          .form = RandomForm::kCount,
          .momentum_sync_every = 100,
          .strict = true,
          .guard = true,
          .codec = GradientCodec::kInt4,
          .codec_down = GradientCodec::kInt8,
          .dense_codec = GradientCodec::kInt8,
          .feedback = Feedback::kEma,
          .feedback_decay = 0.5,
          .feedback_reset = 0,
          .quant_block = 512,
          .top_k = 64,
          .inner = "none",
          .outer = Outer::kSign,
          .every = 500,
          .fragments = 4,
          .delay = kWholeInterval,
          .outer_lr = 0.7,
          .outer_momentum = 0.5,
          .outer_beta1 = 0.8,
          .outer_beta2 = 0.7,
          .outer_weight_decay = 0.1,
          .merge = kNoMerge,
          .gap_penalty = 2,
          .clip = 3,
          .scale_block = 0,
          .scale_norm = kernels::Norm::kL1,
          .bf16 = true,
          .ranks_per_node = kAutoNodes,
          .bucket_elements = 1,
          .max_grad_norm = 1e300,
          .skip = Skip::kStep,
          .seed = 0xFFFFFFFF,
          .shadow_every = 100,
          .verify_every = std::numeric_limits<std::int64_t>::max(),
          .threads = 8,
          .device = "emulated"};
}

TEST(OptimizerConfig, AsTextReadsBackToTheSameBits) {
  for (const OptimizerConfig& config : {OptimizerConfig(), nothing_default()}) {
    OptimizerConfig read = config == OptimizerConfig() ? nothing_default() : OptimizerConfig();
    for (const auto& [field, value] : to_text(config)) set(read, field, value);
    EXPECT_EQ(read, config);
    EXPECT_EQ(to_text(read), to_text(config));
  }
}

TEST(OptimizerConfig, EveryFieldIsPrinted) {
  const auto plain = to_text({}), other = to_text(nothing_default());
  EXPECT_EQ(plain.size(), 56U);
  for (const auto& [field, value] : plain) EXPECT_NE(value, other.at(field)) << field;
}

TEST(OptimizerConfig, SignsOfGradientsAreRefusedWithTheReasonAndWhatToUse) {
  for (const std::string each : {"sgdm", "adamw", "lamb", "lion"}) {
    const auto config = with("codec", "sign", {.algorithm = each});
    expect_says(thrown([&] { validated(config); }), Code::kInvalidArgument,
                {"sign", "does not learn", "2.43", "int4", "one-bit-adam", "zero-one-adam"});
    for (const char* codec : {"fp32", "bf16", "int8", "int4"})
      validated(with("codec", codec, {.algorithm = each}));
    expect_says(thrown([&] { with("codec", "int3", {.algorithm = each}); }), Code::kInvalidArgument,
                {"int3", "fp32, bf16, int8 or int4"});
    expect_says(thrown([&] { validated(with("quant_block", "100", {.algorithm = each})); }),
                Code::kInvalidArgument, {"quant_block", "100", "multiple of 64"});
  }
}

TEST(OptimizerConfig, MethodsMayHaveOtherDefaultsForOneName) {
  EXPECT_EQ(method_named("lion").find("beta2")->default_text(), "0.99");
  EXPECT_EQ(method_named("adamw").find("beta2")->default_text(), "0.999");
  const OptimizerConfig config = with("beta2", "0.95", {.algorithm = "distributed-lion"});
  EXPECT_EQ(config.beta2, 0.95);
  EXPECT_EQ(to_text(config).at("beta2"), "0.95");
  EXPECT_EQ(validated({.algorithm = "lion"}).beta2, 0.99);
  EXPECT_EQ(validated({.algorithm = "adamw"}).beta2, 0.999);
  EXPECT_EQ(validated({.algorithm = "local-steps"}).beta2, 0.999);
  EXPECT_EQ(validated({.algorithm = "local-steps", .inner = "lion"}).beta2, 0.99);
  OptimizerConfig read;
  for (const auto& [field, value] : to_text(config)) set(read, field, value);
  EXPECT_EQ(read, config);
}

TEST(OptimizerConfig, AVoteHasNoSingleRound) {
  expect_says(thrown([] { with("form", "single-round", {.algorithm = "distributed-lion"}); }),
              Code::kInvalidArgument, {"form", "vote or count"});
}

TEST(OptimizerConfig, EnumsAreNames) {
  for (const std::string each : {"sgdm", "adamw", "lamb", "one-bit-adam", "one-bit-lamb",
                                 "zero-one-adam", "birder", "lion", "distributed-lion"})
    EXPECT_EQ(with("algorithm", each).algorithm, each);
  EXPECT_EQ(with("form", "count").form, RandomForm::kCount);
  EXPECT_EQ(with("form", "vote").form, RandomForm::kTwoRound);
  EXPECT_EQ(with("exchange", "count").exchange, ExchangeForm::kCount);
  EXPECT_EQ(with("exchange", "single-round").exchange, ExchangeForm::kSingleRound);
  EXPECT_EQ(with("exchange", "two-round").exchange, ExchangeForm::kTwoRound);
  EXPECT_EQ(with("scale_norm", "l1").scale_norm, kernels::Norm::kL1);
  EXPECT_EQ(with("skip", "step").skip, Skip::kStep);
  EXPECT_TRUE(with("bf16", "true").bf16);
  EXPECT_FALSE(with("bias_correction", "false").bias_correction);
}

TEST(OptimizerConfig, DashesUnderscoresAndCaseMakeNoDifference) {
  EXPECT_EQ(with("variance-kappa", "3").variance_kappa, 3);
  EXPECT_EQ(with("algorithm", "one_bit_adam").algorithm, "one-bit-adam");
  EXPECT_EQ(with("scale_norm", "L1").scale_norm, kernels::Norm::kL1);
  EXPECT_TRUE(with("bf16", "True").bf16);
}

TEST(OptimizerConfig, TakesTheNamesOfDeepSpeed) {
  EXPECT_EQ(with("freeze_step", "16000").freeze_step, 16'000);
  EXPECT_EQ(with("var_freeze_step", "12500").variance_freeze_step, 12'500);
  EXPECT_EQ(with("var_update_scaler", "17").variance_kappa, 17);
  EXPECT_EQ(with("local_step_scaler", "32678").double_every, 32'678);
  EXPECT_EQ(with("local-step-clipper", "8").max_interval, 8);
  EXPECT_EQ(with("min_coeff", "0.1").min_trust, 0.1);
  EXPECT_EQ(with("max_coeff", "0.3").max_trust, 0.3);
}

TEST(OptimizerConfig, AutoIsTakenWhereTheFieldAllowsIt) {
  EXPECT_EQ(with("freeze_step", "auto").freeze_step, kAuto);
  EXPECT_EQ(with("double_every", "auto").double_every, kAuto);
  EXPECT_EQ(with("ranks_per_node", "auto").ranks_per_node, kAutoNodes);
  EXPECT_EQ(with("ranks_per_node", "flat").ranks_per_node, kFlat);
  EXPECT_EQ(with("ranks_per_node", "none").ranks_per_node, kFlat);
  EXPECT_EQ(with("ranks_per_node", "4").ranks_per_node, 4);
  EXPECT_EQ(refusal("beta1", "auto"), "beta1 cannot be auto: give a number in [0, 1)");
  EXPECT_TRUE(says(refusal("variance_freeze_step", "auto"), {"cannot be auto"}));
  EXPECT_TRUE(says(refusal("bf16", "auto"), {"cannot be auto: give true or false"}));
}

TEST(OptimizerConfig, AnUnknownNameIsAnsweredWithTheNearest) {
  EXPECT_EQ(refusal("beta_1", "0.9"), "there is no option \"beta_1\": did you mean \"beta1\"?");
  EXPECT_TRUE(says(refusal("wieght-decay", "0"), {"\"weight_decay\""}));
  EXPECT_TRUE(says(refusal("variance_capa", "16"), {"\"variance_kappa\""}));
  EXPECT_TRUE(says(refusal("local_steps_clipper", "16"), {"\"max_interval\""}));
  EXPECT_TRUE(
      says(refusal("algorithm", "onebitadam"), {"did you mean \"one-bit-adam\"", "zero-one-adam"}));
  EXPECT_TRUE(says(refusal("", ""), {"did you mean"}));
}

TEST(OptimizerConfig, TextThatDoesNotParseChangesNothing) {
  for (const char* text : {"", " 3", "3 ", "3.5", "1e3", "+3", "three", "9223372036854775808"})
    EXPECT_TRUE(says(refusal("total_steps", text),
                     {"total_steps = \"" + std::string(text) + "\": give a whole number"}));
  for (const char* text : {"", "0,9", "0.9x", "1e999"})
    EXPECT_TRUE(says(refusal("beta1", text), {"give a number in [0, 1)"}));
  EXPECT_TRUE(says(refusal("scale_block", "-64"), {"0 (one scale per chunk) or a multiple of 64"}));
  EXPECT_TRUE(says(refusal("seed", "4294967296"), {"from 0 to 4294967295"}));
  EXPECT_TRUE(says(refusal("threads", "2147483648"), {"whole number >= 1"}));
  EXPECT_TRUE(says(refusal("bf16", "yes"), {"true or false"}));
}

TEST(OptimizerConfig, AFreezeStepBelowOneIsAnError) {
  for (const char* field : {"freeze_step", "variance_freeze_step"})
    EXPECT_TRUE(says(refusal(field, "0"), {field, "a freeze step below 1"}));
  EXPECT_TRUE(says(refusal("freeze_step", "-1"), {"a freeze step below 1"}));
  OptimizerConfig config{.algorithm = "one-bit-adam", .freeze_step = -2};
  EXPECT_TRUE(says(refusal(config), {"freeze_step = -2", "a freeze step below 1"}));
  config = {.algorithm = "zero-one-adam", .variance_freeze_step = kAuto};
  EXPECT_TRUE(says(refusal(config), {"variance_freeze_step = -1"}));
  EXPECT_EQ(with("total_steps", "0").total_steps, kUnset);
}

TEST(OptimizerConfig, WhatIsUnsetFollowsFromTheLengthOfTheRun) {
  OptimizerConfig one_bit{.algorithm = "one-bit-adam", .total_steps = 118'003};
  EXPECT_EQ(validated(one_bit).freeze_step, 23'601);
  OptimizerConfig zero_one{.algorithm = "zero-one-adam", .total_steps = 118'003};
  EXPECT_EQ(validated(zero_one).variance_freeze_step, 17'700);
  EXPECT_EQ(validated(zero_one).double_every, 16'717);
  one_bit.total_steps = zero_one.total_steps = 1;
  EXPECT_EQ(validated(one_bit).freeze_step, 1);
  EXPECT_EQ(validated(zero_one).variance_freeze_step, 1);
  EXPECT_EQ(validated(zero_one).double_every, 1);
  zero_one.variance_freeze_step = 500;
  EXPECT_EQ(validated(zero_one).double_every, 1);
}

TEST(OptimizerConfig, TheShortScheduleFillsInWhatIsLeftOpenOnly) {
  OptimizerConfig config{.algorithm = "zero-one-adam", .total_steps = 5000};
  set(config, "schedule", "short");
  EXPECT_EQ(validated(config).variance_kappa, 4);
  EXPECT_NEAR(static_cast<double>(validated(config).variance_freeze_step), 3000, 20);
  EXPECT_NEAR(static_cast<double>(validated(config).double_every), 334, 20);
  EXPECT_EQ(validated(config).beta2, 0.95);
  set(config, "beta2", "0.9");
  EXPECT_EQ(validated(config).beta2, 0.9);
  config.total_steps = 1000;
  EXPECT_EQ(validated(config).double_every, 400) << "a sync on every step fits";
  config.variance_kappa = config.variance_freeze_step = 1000;
  EXPECT_EQ(validated(config).double_every, 1) << "nothing fits";
  config.total_steps = 5000;
  set(config, "variance_kappa", "16");
  set(config, "variance_freeze_step", "750");
  set(config, "double_every", "708");
  const OptimizerConfig given = validated(config);
  set(config, "schedule", "published");
  EXPECT_EQ(given.variance_kappa, validated(config).variance_kappa);
  EXPECT_EQ(given.variance_freeze_step, validated(config).variance_freeze_step);
  EXPECT_EQ(given.double_every, validated(config).double_every);
  EXPECT_TRUE(says(refusal("schedule", "long"), {"published, short or default"}));
}

TEST(OptimizerConfig, TheScheduleIsShortInShortRunsWhereAllIsLeftOpen) {
  const auto schedule = [](std::int64_t steps, const char* option, const char* value) {
    OptimizerConfig config{.algorithm = "zero-one-adam", .total_steps = steps};
    set(config, option, value);
    return validated(config);
  };
  const auto is_short = [](const OptimizerConfig& config) {
    EXPECT_EQ(config.variance_kappa, config.schedule == IntervalSchedule::kShort ? 4 : 16);
    EXPECT_EQ(config.beta2, config.schedule == IntervalSchedule::kShort ? 0.95 : 0.999);
    return config.schedule == IntervalSchedule::kShort;
  };
  EXPECT_TRUE(is_short(schedule(500, "schedule", "default")));
  EXPECT_TRUE(is_short(schedule(10'000, "schedule", "default")));
  EXPECT_TRUE(is_short(schedule(500, "max_interval", "4")));
  EXPECT_TRUE(is_short(schedule(20'000, "schedule", "short")));
  EXPECT_FALSE(is_short(schedule(10'001, "schedule", "default")));
  EXPECT_FALSE(is_short(schedule(500, "schedule", "published")));
  EXPECT_FALSE(is_short(schedule(500, "variance_freeze_step", "75")));
  EXPECT_FALSE(is_short(schedule(500, "variance_kappa", "16")));
  EXPECT_FALSE(is_short(schedule(500, "double_every", "70")));
  OptimizerConfig config = schedule(500, "schedule", "default");
  EXPECT_EQ(validated(config), config);
}

TEST(OptimizerConfig, TheShortScheduleSendsNoMoreThanThePublishedOne) {
  const std::pair<const char*, double> codecs[] = {{"fp32", 32}, {"int8", 8.125}, {"int4", 4.125}};
  for (const auto& [codec, exact] : codecs)
    for (const std::int64_t steps :
         {1, 5, 20, 120, 200, 500, 1000, 1999, 5000, 20'000, 118'003, 1'000'000}) {
      const auto bits = [&](const char* schedule) {
        OptimizerConfig config{.algorithm = "zero-one-adam", .total_steps = steps};
        set(config, "schedule", schedule);
        set(config, "dense_codec", codec);
        return method_named("zero-one-adam")
            .rounds(validated(config), steps)
            .bits_per_parameter_per_step(exact, 32.0 / 31);
      };
      EXPECT_LE(bits("short"), bits("published")) << steps << " " << codec;
      const double share = steps < 120 ? 0.6 : steps < 2000 ? 0.9 : exact == 32 ? 0.98 : 0.97;
      EXPECT_GE(bits("short"), share * bits("published")) << steps << " " << codec;
    }
}

TEST(OptimizerConfig, WhatIsGivenStays) {
  OptimizerConfig config{.algorithm = "zero-one-adam",
                         .total_steps = 118'000,
                         .beta2 = 0.99,
                         .freeze_step = kUnset,
                         .schedule = IntervalSchedule::kPublished,
                         .variance_freeze_step = 12'500,
                         .variance_kappa = 16,
                         .double_every = kAuto};
  EXPECT_EQ(validated(config), config);
  EXPECT_EQ(validated(validated(with("max_interval", "12"))),
            validated(with("max_interval", "12")));
  config = {.algorithm = "one-bit-adam", .beta2 = 0.99, .freeze_step = kAuto};
  EXPECT_EQ(validated(config), config);
}

TEST(OptimizerConfig, WithoutALengthTheScheduleMustBeGiven) {
  EXPECT_EQ(refusal({.algorithm = "one-bit-adam"}),
            "one-bit-adam has neither freeze_step nor total_steps: give one of them");
  EXPECT_TRUE(says(refusal({.algorithm = "zero-one-adam"}),
                   {"neither variance_freeze_step nor total_steps"}));
  EXPECT_TRUE(says(refusal({.algorithm = "zero-one-adam", .variance_freeze_step = 9}),
                   {"neither double_every nor total_steps"}));
}

TEST(OptimizerConfig, ValuesOutOfRangeAreNamedWithWhatIsAllowed) {
  struct Case {
    const char *algorithm, *field, *value, *allowed;
  };
  const Case cases[] = {
      {"adamw", "beta1", "1", "[0, 1)"},
      {"zero-one-adam", "beta2", "-0.1", "[0, 1)"},
      {"one-bit-adam", "beta1", "nan", "[0, 1)"},
      {"sgdm", "momentum", "1.5", "[0, 1)"},
      {"birder", "beta", "1", "[0, 1)"},
      {"adamw", "epsilon", "0", "> 0"},
      {"adamw", "epsilon", "-1e-08", "> 0"},
      {"adamw", "epsilon", "1e-60", "float"},
      {"adamw", "epsilon", "1e+60", "float"},
      {"sgdm", "weight_decay", "-0.01", ">= 0"},
      {"sgdm", "weight_decay", "inf", "finite"},
      {"zero-one-adam", "variance_floor", "-1", ">= 0"},
      {"zero-one-adam", "variance_kappa", "0", ">= 1"},
      {"zero-one-adam", "double_every", "-5", ">= 1, auto"},
      {"zero-one-adam", "max_interval", "0", ">= 1"},
      {"sgdm", "scale_block", "100", "multiple of 64"},
      {"sgdm", "ranks_per_node", "-2", "flat or auto"},
      {"sgdm", "bucket_elements", "0", ">= 1"},
      {"sgdm", "max_grad_norm", "-1", ">= 0"},
      {"sgdm", "max_grad_norm", "nan", ">= 0"},
      {"sgdm", "shadow_every", "-1", ">= 0"},
      {"sgdm", "verify_every", "-1", ">= 0"},
      {"sgdm", "threads", "0", ">= 1"},
      {"sgdm", "device", "gpu", "cpu, emulated, cuda or cuda:k"},
      {"sgdm", "total_steps", "-10", ">= 0"},
  };
  for (const auto& [algorithm, field, value, allowed] : cases)
    EXPECT_TRUE(says(refusal(with(field, value, with("algorithm", algorithm))),
                     {std::string(field) + " = " + value + ": give ", allowed}));
  EXPECT_TRUE(says(refusal({.algorithm = "adan"}), {"adan", "did you mean", "birder"}));
  EXPECT_TRUE(says(refusal({.algorithm = "sgdm", .skip = static_cast<Skip>(2)}),
                   {"skip = 2: give block or step"}));
}

TEST(OptimizerConfig, LimitsThatAreAllowedPass) {
  for (const auto& [field, value] : {std::pair("beta1", "0"),
                                     {"beta2", "0"},
                                     {"scale_block", "0"},
                                     {"max_interval", "1"},
                                     {"max_interval", "12"},
                                     {"variance_floor", "0"},
                                     {"variance_kappa", "1"}})
    EXPECT_NO_THROW(validated(with(field, value))) << field;
}

TEST(OptimizerConfig, FieldsOfOtherAlgorithmsAreNoConcern) {
  OptimizerConfig config{.algorithm = "sgdm",
                         .beta1 = 7,
                         .epsilon = 0,
                         .freeze_step = -9,
                         .variance_kappa = 0,
                         .max_interval = 0,
                         .beta = 2,
                         .codec = GradientCodec::kFp32,
                         .feedback = Feedback::kFull,
                         .every = -9};
  EXPECT_EQ(validated(config), config);
  config = {.algorithm = "birder", .momentum = 4, .beta2 = 1};
  EXPECT_EQ(validated(config), config);
}

}  // namespace
}  // namespace laconic
