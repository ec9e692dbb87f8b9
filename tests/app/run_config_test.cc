#include "app/training/run_config.h"

#include <gtest/gtest.h>

#include <fstream>

#include "app/training/tuned.h"
#include "laconic/core/error.h"
#include "tests/checkpoint/scratch.h"
#include "tests/support/refusal.h"

namespace laconic::app::training {
namespace {

using testing::refusal_of;
using testing::says;

RunConfig with(std::initializer_list<Assignment> assignments) {
  RunConfig config;
  for (const Assignment& one : assignments) assign(config, one);
  return config;
}

std::filesystem::path file(const testing::Scratch& scratch, const std::string& text) {
  std::ofstream(scratch / "run.toml") << text;
  return scratch / "run.toml";
}

TEST(RunConfig, IsReadFromToml) {
  const testing::Scratch scratch;
  RunConfig config;
  for (const auto& one :
       read_toml(file(scratch,
                      "[run]\ntask = \"text\"\nmodel = \"gpt2-mini\"\nsteps = 50\nlr = 0.004\n"
                      "tensorboard = true\n[optimizer]\nmax_interval = 8\nexchange = \"count\"\n")))
    assign(config, one);
  EXPECT_EQ(config.data.task, "text");
  EXPECT_EQ(config.model.name, "gpt2-mini");
  EXPECT_EQ(config.steps, 50);
  EXPECT_EQ(config.lr, 0.004);
  EXPECT_TRUE(config.tensorboard);
  EXPECT_EQ(config.optimizer.max_interval, 8);
  EXPECT_EQ(config.optimizer.exchange, ExchangeForm::kCount);
}

// Its default is the method's.
TEST(RunConfig, AnOptionGoesToTheMethodWhicheverIsNamedFirst) {
  const auto beta2 = [](std::initializer_list<Assignment> assignments) {
    return validated(resolved(with(assignments)).optimizer).beta2;
  };
  EXPECT_EQ(beta2({{"run.optimizer", "lion"}}), 0.99);
  EXPECT_EQ(beta2({{"optimizer.beta2", "0.999"}, {"run.optimizer", "lion"}}), 0.999);
  EXPECT_EQ(beta2({{"run.optimizer", "lion"}, {"optimizer.beta2", "0.95"}}), 0.95);
  EXPECT_EQ(beta2({{"optimizer.beta2", "0.95"}, {"run.optimizer", "adamw"}}), 0.95);
  EXPECT_EQ(beta2({{"run.optimizer", "adamw"}}), 0.999);
}

TEST(RunConfig, TomlErrorsNameFileAndLine) {
  const testing::Scratch scratch;
  EXPECT_TRUE(
      says(refusal_of([&] { read_toml(file(scratch, "[run]\nsteps = = 5\n")); }), {"run.toml:2"}));
  EXPECT_TRUE(says(refusal_of([&] { read_toml(file(scratch, "steps = 5\n")); }), {"[run]"}));
  EXPECT_TRUE(
      says(refusal_of([&] { read_toml(file(scratch, "[run]\nsteps = [1]\n")); }), {"run.steps"}));
  EXPECT_THROW(read_toml(scratch / "none.toml"), Error);
}

TEST(RunConfig, LettersOfAllLanguagesStandInQuotesAndComments) {
  const testing::Scratch scratch;
  const auto data_of = [&](const std::string& line) {
    return read_toml(file(scratch, "[run]\n" + line + "\n")).at(0).second;
  };
  EXPECT_EQ(data_of(R"(data = "ä \"ö\"" # ü)"), R"(ä "ö")");
  EXPECT_EQ(data_of(R"(data = 'ä\' # 'ü)"), R"(ä\)");
  EXPECT_EQ(data_of(R"(data = """ä\"""ö"""" # ü)"), R"(ä"""ö")");
  EXPECT_EQ(data_of("data = '''ä\n''''' # ü"), "ä\n''");
  for (const char* bad :
       {"steǚ = 1", "steps = 1é", R"(data = "" é)", R"(data = "a"é)", R"(data = '\'é)",
        R"(data = """x""""é)", "data = '''x'''''é", "\xC2\xA0steps = 1"})
    EXPECT_TRUE(says(refusal_of([&] { data_of(bad); }), {"run.toml:2", "quotes"})) << bad;
}

TEST(RunConfig, UnknownKeysComeWithTheNearestName) {
  EXPECT_TRUE(says(refusal_of([] { with({{"run.stpes", "5"}}); }), {"run.steps"}));
  EXPECT_TRUE(says(refusal_of([] { with({{"optimiser.beta1", "0.5"}}); }), {"optimizer.beta1"}));
  EXPECT_TRUE(says(refusal_of([] { with({{"optimizer.max_intervall", "5"}}); }), {"max_interval"}));
}

TEST(RunConfig, ValuesThatDoNotFitAreRefusedWithWhatMayBe) {
  for (const Assignment& bad : std::vector<Assignment>{{"run.ranks", "0"},
                                                       {"run.steps", "-1"},
                                                       {"run.steps", "ten"},
                                                       {"run.lr", "nan"},
                                                       {"run.batch", "0"},
                                                       {"schedule.warmup", "1.5"},
                                                       {"data.augment", "maybe"},
                                                       {"optimizer.total_steps", "5"}})
    EXPECT_TRUE(says(refusal_of([&] { with({bad}); }), {bad.first})) << bad.first;
  EXPECT_TRUE(says(refusal_of([] { parse_assignment("max_interval"); }), {"section.key=value"}));
}

TEST(RunConfig, ComesBackFromText) {
  const RunConfig config = resolved(with({{"run.model", "bert-mini"},
                                          {"run.task", "mlm"},
                                          {"run.optimizer", "birder"},
                                          {"run.lr", "0.1"},
                                          {"optimizer.exchange", "single-round"},
                                          {"model.dropout", "0.25"},
                                          {"data.tokenizer", "bpe"}}));
  RunConfig back;
  for (const auto& one : to_text(config))
    if (!one.second.empty()) assign(back, one);
  EXPECT_EQ(to_text(resolved(back)), to_text(config));
  EXPECT_EQ(back.optimizer.exchange, ExchangeForm::kSingleRound);
  EXPECT_EQ(back.model.dropout, 0.25);
}

TEST(RunConfig, KeysAreDescribedWithTheDefaultsThatTheyTake) {
  const auto keys = describe_keys();
  ASSERT_FALSE(keys.empty());
  for (const KeyDescription& key : keys) {
    SCOPED_TRACE(key.name);
    EXPECT_FALSE(key.help.empty());
    EXPECT_FALSE(key.allowed.empty());
    for (const std::string_view column : {key.allowed, key.help})
      EXPECT_EQ(column.find("  "), std::string_view::npos) << "columns are two spaces apart";
    if (key.default_text == "unset") continue;
    EXPECT_NO_THROW(with({{std::string(key.name), key.default_text}}));
  }
}

TEST(RunConfig, WhatIsLeftOutComesFromTheTable) {
  const RunConfig config =
      resolved(with({{"run.model", "resnet20"}, {"run.optimizer", "adamw-bf16"}}));
  EXPECT_GT(config.lr, 0);
  EXPECT_GT(config.steps, 0);
  EXPECT_GT(config.batch, 0);
  EXPECT_EQ(config.optimizer.algorithm, "adamw");
  EXPECT_TRUE(config.optimizer.bf16);
  EXPECT_EQ(config.optimizer.total_steps, config.steps);
  EXPECT_TRUE(says(refusal_of([] { resolved(with({{"run.model", "resnet21"}})); }), {"resnet20"}));
  EXPECT_TRUE(says(refusal_of([] {
                     resolved(with({{"run.optimizer", "zero-one-adm"}}));
                   }),
                   {"zero-one-adam"}));
}

TEST(RunConfig, AResumeRefusesWhatWouldMakeItAnotherRun) {
  const auto saved = to_text(resolved(with({{"run.batch", "8"}})));
  check_resumable(
      saved, to_text(resolved(with({{"run.batch", "8"}, {"run.steps", "9"}, {"run.ranks", "3"}}))));
  const std::string why = refusal_of([&] {
    check_resumable(saved, to_text(resolved(with({{"run.batch", "16"}}))));
  });
  EXPECT_TRUE(says(why, {"run.batch", "8", "16"}));
}

TEST(LearningRateOfARun, RisesAndFalls) {
  RunConfig config = resolved(with({{"run.steps", "100"},
                                    {"run.lr", "1"},
                                    {"schedule.warmup", "0.1"},
                                    {"schedule.least", "0.5"}}));
  const LearningRate rate = learning_rate(config);
  EXPECT_LT(rate(1), rate(10));
  EXPECT_EQ(rate(10), 1);
  EXPECT_NEAR(rate(100), 0.5, 1e-9);
}

TEST(TunedRates, BelongToModelAndOptimizer) {
  EXPECT_EQ(tuned_lr("resnet20", "adamw"), 1e-2);
  EXPECT_EQ(tuned_lr("resnet20", "sgdm"), 0.03);
  EXPECT_EQ(tuned_lr("resnet20", "birder"), 1e-2);
  EXPECT_EQ(tuned_lr("resnet50", "birder"), 2e-3);
  EXPECT_EQ(tuned_lr("bert-large", "sgdm"), 0.05);
  EXPECT_TRUE(says(refusal_of([] { tuned_lr("resnet21", "adamw"); }), {"resnet20"}));
}

TEST(TunedRates, AMethodWithoutOneOfItsOwnTakesTheModels) {
  for (const char* model : {"resnet8", "resnet50", "gpt2-mini", "bert-base"})
    EXPECT_EQ(tuned_lr(model, "one-bit-adam"), tuned_lr(model, "adamw")) << model;
}

TEST(RunConfig, AnArmIsAMethodWithOptionsOfItsOwn) {
  const RunConfig config = resolved(
      with({{"run.optimizer", "adamw:codec=int4:feedback=ema"}, {"optimizer.beta1", "0.8"}}));
  EXPECT_EQ(config.optimizer.algorithm, "adamw");
  EXPECT_EQ(config.optimizer.codec, GradientCodec::kInt4);
  EXPECT_EQ(config.optimizer.feedback, Feedback::kEma);
  EXPECT_EQ(config.optimizer.beta1, 0.8);
  EXPECT_EQ(config.lr, tuned_lr(config.model.name, "adamw"));
  EXPECT_EQ(folder_name(config.arm), "adamw-codec=int4-feedback=ema");
  EXPECT_TRUE(says(refusal_of([] {
                     resolved(with({{"run.optimizer", "adamw:int4"}}));
                   }),
                   {"`int4`", "option=value"}));
  EXPECT_TRUE(says(refusal_of([] {
                     resolved(with({{"run.optimizer", "adamw:codex=int4"}}));
                   }),
                   {"codex", "codec"}));
  EXPECT_TRUE(says(refusal_of([] {
                     resolved(with({{"run.optimizer", "adamw:codec=sign"}}));
                   }),
                   {"does not learn", "int4"}));
}

TEST(TunedRates, AreThoseOfTheOptimizerWhateverItsDenseMeansAreSentIn) {
  EXPECT_EQ(resolved(with({{"run.optimizer", "sgdm-bf16"}})).lr, tuned_lr("resnet20", "sgdm"));
}

}  // namespace
}  // namespace laconic::app::training
