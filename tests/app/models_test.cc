#include "app/plan/models.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

#include "app/models/model.h"
#include "tests/support/refusal.h"

namespace laconic::app::models {
namespace {

using laconic::testing::refusal_of;
using laconic::testing::says;

const data::DataShape kNoData;
const data::DataShape kImages = {
    .images = true, .channels = 1, .height = 28, .width = 28, .classes = 10};
const data::DataShape kText = {.vocabulary = 50, .length = 16};
const data::DataShape kMasked = {.vocabulary = 50, .length = 16, .masked = true, .padding = 0};
const data::DataShape kSentences = {.vocabulary = 50, .length = 16, .classes = 2, .padding = 0};

ModelConfig named(const std::string& name) { return {.name = name}; }

ModelConfig dropping(const std::string& name) {
  return {.name = name, .width = 16, .depth = 2, .heads = 2, .dropout = 0.5};
}

// Inputs and targets that fit, always the same.
data::Batch some_batch(const data::DataShape& shape, std::int64_t size) {
  auto pick = [i = 1u](std::int64_t below) mutable {
    return std::int64_t{(i++ * 2654435761u) >> 8} % below;
  };
  data::Batch batch;
  batch.size = size;
  for (std::int64_t i = 0; i < size * shape.channels * shape.height * shape.width; ++i)
    batch.values.push_back(float(pick(2000)) / 1000 - 1);
  for (std::int64_t i = 0; i < size * shape.length; ++i)
    batch.tokens.push_back(1 + pick(shape.vocabulary - 1));
  const bool one_each = shape.classes > 0;
  for (std::int64_t i = 0; i < size * (one_each ? 1 : shape.length); ++i)
    batch.targets.push_back(pick(one_each ? shape.classes : shape.vocabulary));
  return batch;
}

torch::Tensor some_tokens(std::int64_t size = 2) {
  return inputs_of(some_batch(kText, size), kText).clone();
}

bool same(const torch::Tensor& a, const torch::Tensor& b) { return torch::equal(a, b); }

struct Count {
  std::string name;
  data::DataShape shape;
  std::int64_t parameters;
};

class PublishedCount : public ::testing::TestWithParam<Count> {};

TEST_P(PublishedCount, IsTheModels) {
  std::int64_t parameters = 0;
  for (const auto& each : make_blank_model(named(GetParam().name), GetParam().shape)->parameters())
    parameters += each.numel();
  EXPECT_EQ(parameters, GetParam().parameters);
}

constexpr data::DataShape kMaskedOnly{.masked = true}, kTwoClasses{.classes = 2};
INSTANTIATE_TEST_SUITE_P(Models, PublishedCount,
                         ::testing::Values(Count{"resnet8", kNoData, 75'290},
                                           Count{"resnet20", kNoData, 269'722},
                                           Count{"resnet18", kNoData, 11'689'512},
                                           Count{"resnet50", kNoData, 25'557'032},
                                           Count{"gpt2-mini", kNoData, 1'040'768},
                                           Count{"gpt2", kNoData, 124'439'808},
                                           Count{"bert-mini", kNoData, 958'848},
                                           Count{"bert-base", kMaskedOnly, 109'514'298},
                                           Count{"bert-base", kTwoClasses, 109'482'240 + 1'538},
                                           Count{"bert-large", kMaskedOnly, 335'174'458},
                                           Count{"bert-large", kTwoClasses, 335'141'888 + 2'050}),
                         [](const auto& each) {
                           std::string name = each.param.name;
                           std::erase(name, '-');
                           return name + (each.param.shape.classes > 0 ? "_classifying" : "");
                         });

TEST(Models, AllHaveACountAbove) {
  EXPECT_EQ(model_names(),
            (std::vector<std::string>{"resnet8", "resnet20", "resnet18", "resnet50", "gpt2-mini",
                                      "gpt2", "bert-mini", "bert-base", "bert-large"}));
}

TEST(Models, HaveAsManyParametersAsPlanCounts) {
  constexpr data::DataShape kBytes{.vocabulary = 260},
      kMaskedBytes{.vocabulary = 260, .masked = true};
  const std::map<std::string, data::DataShape> trained{
      {"resnet8", kImages},        {"resnet20", kImages},      {"gpt2-mini", kBytes},
      {"bert-mini", kMaskedBytes}, {"bert-base", kTwoClasses}, {"bert-large", kTwoClasses}};
  const auto count = [](const std::string& name, const data::DataShape& shape) {
    std::int64_t parameters = 0;
    for (const auto& each : make_blank_model(named(name), shape)->parameters())
      parameters += each.numel();
    return parameters;
  };
  for (const std::string& name : model_names()) {
    const auto found = trained.find(name);
    data::DataShape shape = found == trained.end() ? kNoData : found->second;
    auto parameters = static_cast<std::size_t>(count(name, shape));
    if (shape.classes > 0 && !shape.images) {  // without the head: two classes
      ++shape.classes;
      parameters -= 2 * (static_cast<std::size_t>(count(name, shape)) - parameters);
    }
    EXPECT_EQ(parameters, plan::parameters_of(name)) << name;
  }
}

TEST(Models, ImagesOfAnySizeGiveALogitForEachClass) {
  for (const std::string name : {"resnet8", "resnet20", "resnet18", "resnet50"})
    for (const auto& [channels, side] : {std::pair{1, 28}, {3, 32}, {2, 9}}) {
      const data::DataShape shape{
          .images = true, .channels = channels, .height = side, .width = side + 1, .classes = 7};
      const auto model = make_model({.name = name, .width = 8, .depth = 1}, shape, 1);
      const data::Batch batch = some_batch(shape, 2);
      EXPECT_EQ(model->forward(inputs_of(batch, shape)).sizes(), (at::IntArrayRef{2, 7})) << name;
    }
}

TEST(Models, TokensGiveLogitsForEachTokenOrForTheExample) {
  const auto tokens = some_tokens(3);
  EXPECT_EQ(make_model(named("gpt2-mini"), kText, 1)->forward(tokens).sizes(),
            (at::IntArrayRef{3, 16, 50}));
  EXPECT_EQ(make_model(named("bert-mini"), kMasked, 1)->forward(tokens).sizes(),
            (at::IntArrayRef{3, 16, 50}));
  EXPECT_EQ(make_model(named("bert-mini"), kSentences, 1)->forward(tokens).sizes(),
            (at::IntArrayRef{3, 2}));
}

TEST(Models, ParametersHaveThePublishedNames) {
  const auto names = [](const std::string& name, const data::DataShape& shape) {
    const auto keys = make_blank_model(named(name), shape)->named_parameters().keys();
    return std::set<std::string>(keys.begin(), keys.end());
  };
  const auto resnet = names("resnet18", kNoData);
  for (const char* each : {"conv1.weight", "bn1.bias", "layer1.0.conv1.weight", "fc.bias",
                           "layer2.0.downsample.0.weight", "layer4.1.bn2.weight"})
    EXPECT_TRUE(resnet.contains(each)) << each;
  const auto gpt2 = names("gpt2-mini", kText);
  for (const char* each : {"wte.weight", "wpe.weight", "h.0.ln_1.weight", "h.4.attn.c_attn.weight",
                           "h.0.mlp.c_proj.bias", "ln_f.bias"})
    EXPECT_TRUE(gpt2.contains(each)) << each;
  const auto bert = names("bert-mini", kMasked);
  for (const char* each :
       {"bert.embeddings.word_embeddings.weight", "bert.encoder.layer.3.attention.self.query.bias",
        "bert.encoder.layer.0.output.LayerNorm.weight", "cls.predictions.bias",
        "cls.predictions.transform.dense.weight"})
    EXPECT_TRUE(bert.contains(each)) << each;
}

TEST(Models, AClassifierTakesTheWholeEncoderOfALongerMaskedModelByName) {
  data::DataShape longer = kMasked;
  longer.length = 100;
  const auto from = make_model(named("bert-mini"), longer, 1)->named_parameters();
  std::size_t own = 0;
  for (const auto& each : make_model(named("bert-mini"), kSentences, 2)->named_parameters()) {
    const auto* same_name = from.find(each.key());
    if (same_name)
      EXPECT_EQ(same_name->sizes(), each.value().sizes()) << each.key();
    else
      ++own;
  }
  EXPECT_EQ(own, 4u);  // pooler and classifier
}

TEST(Models, EqualSeedsGiveEqualWeightsAndOthersOthers) {
  const std::vector<std::pair<std::string, data::DataShape>> small = {
      {"resnet8", kImages}, {"gpt2-mini", kText}, {"bert-mini", kMasked}};
  for (const auto& [name, shape] : small) {
    const auto a = make_model(named(name), shape, 7)->parameters();
    const auto b = make_model(named(name), shape, 7)->parameters();
    const auto other = make_model(named(name), shape, 8)->parameters();
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(same(a[i], b[i])) << name << " " << i;
    EXPECT_FALSE(same(a[0], other[0])) << name;
  }
}

TEST(Models, InitialWeightsHaveThePublishedSpread) {
  const auto spread = [](const torch::OrderedDict<std::string, torch::Tensor>& of,
                         const char* name) { return of[name].std().item<double>(); };
  const auto gpt2 = make_model(named("gpt2-mini"), kText, 1)->named_parameters();
  const double wide = 0.02 * std::sqrt(768.0 / 128);  // the published 0.02 belongs to 768
  EXPECT_NEAR(spread(gpt2, "h.0.mlp.c_fc.weight"), wide, 0.001);
  EXPECT_NEAR(spread(gpt2, "h.0.mlp.c_proj.weight"), wide / std::sqrt(10.0), 0.001);
  const auto resnet = make_model(named("resnet20"), kImages, 1)->named_parameters();
  EXPECT_NEAR(spread(resnet, "layer3.1.conv1.weight"), std::sqrt(2.0 / (64 * 9)), 0.002);
}

TEST(Models, TorchsGlobalGeneratorIsLeftAlone) {
  torch::manual_seed(5);
  const auto untouched = torch::rand({4});
  torch::manual_seed(5);
  const auto model = make_model(dropping("gpt2-mini"), kText, 1);
  model->reseed(1, 0, 1);
  model->forward(some_tokens());
  EXPECT_TRUE(same(torch::rand({4}), untouched));
}

TEST(Dropout, IsAPureFunctionOfSeedRankAndStep) {
  const auto model = make_model(dropping("bert-mini"), kSentences, 1);
  const auto tokens = some_tokens(8);
  const auto at = [&](std::uint32_t seed, int rank, std::int64_t step) {
    model->reseed(seed, rank, step);
    return model->forward(tokens);
  };
  const auto first = at(1, 0, 1);
  EXPECT_FALSE(same(first, model->forward(tokens)));  // the same step goes on drawing
  EXPECT_FALSE(same(first, at(2, 0, 1)));
  EXPECT_FALSE(same(first, at(1, 1, 1)));
  EXPECT_FALSE(same(first, at(1, 0, 2)));
  EXPECT_FALSE(same(first, at(1, 0, (std::int64_t{1} << 32) + 1)));
  EXPECT_TRUE(same(first, at(1, 0, 1)));
}

TEST(Dropout, KeepsTheMeanAndIsOffInEvaluation) {
  struct Dropping : Network {
    torch::Tensor forward(const torch::Tensor& x) override { return dropout(x, 0.25); }
  };
  Dropping network;
  const auto ones = torch::ones({100'000});
  EXPECT_TRUE(says(refusal_of([&] { network.forward(ones); }), {"0.25", "reseed"}));
  network.reseed(1, 0, 1);
  const auto dropped = network.forward(ones);
  EXPECT_NEAR((dropped == 0).to(torch::kFloat).mean().item<double>(), 0.25, 0.01);
  EXPECT_NEAR(dropped.mean().item<double>(), 1, 0.01);
  network.eval();
  EXPECT_TRUE(same(network.forward(ones), ones));
}

TEST(Dropout, OfThreadsIsTheSameAsAlone) {
  const auto tokens = some_tokens(4);
  const auto run = [&](int rank, std::vector<torch::Tensor>& out) {
    const auto model = make_model(dropping("gpt2-mini"), kText, 1);
    for (int step = 1; step <= 20; ++step) {
      model->reseed(3, rank, step);
      out.push_back(model->forward(tokens).detach());
    }
  };
  std::vector<torch::Tensor> alone[2], together[2];
  for (int rank : {0, 1}) run(rank, alone[rank]);
  {
    std::jthread other([&] { run(1, together[1]); });
    run(0, together[0]);
  }
  for (int rank : {0, 1})
    for (std::size_t i = 0; i < alone[rank].size(); ++i)
      EXPECT_TRUE(same(alone[rank][i], together[rank][i])) << rank << " at " << i;
}

// Where logits differ when the token in the middle does: [length].
std::vector<bool> touched_by_the_middle(Network& model) {
  const torch::NoGradGuard no_gradients;
  model.eval();
  const auto tokens = some_tokens(1);
  auto other = tokens.clone();
  other[0][8] = 1 + (tokens[0][8].item<std::int64_t>() + 5) % 49;
  const auto distance = (model.forward(tokens) - model.forward(other)).abs().amax(-1)[0];
  std::vector<bool> result;
  for (int i = 0; i < 16; ++i) result.push_back(distance[i].item<float>() > 1e-7f);
  return result;
}

TEST(Gpt2, ATokenChangesNothingBeforeIt) {
  const auto touched = touched_by_the_middle(*make_model(named("gpt2-mini"), kText, 1));
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(touched[i], i >= 8) << i;
}

TEST(Bert, ATokenChangesBothSides) {
  const auto touched = touched_by_the_middle(*make_model(named("bert-mini"), kMasked, 1));
  for (std::size_t i = 0; i < 16; ++i) EXPECT_TRUE(touched[i]) << i;
}

TEST(Bert, PaddingChangesNothing) {
  for (const data::DataShape& shape : {kMasked, kSentences}) {
    const auto model = make_model(named("bert-mini"), shape, 1);
    model->eval();
    auto tokens = some_tokens(2);
    tokens.narrow(1, 10, 6).zero_();
    const auto padded = model->forward(tokens);
    const auto bare = model->forward(tokens.narrow(1, 0, 10).contiguous());
    const bool each_token = shape.classes == 0;
    EXPECT_TRUE(torch::allclose(each_token ? padded.narrow(1, 0, 10) : padded, bare, 1e-4, 1e-5));
    EXPECT_TRUE(model->forward(torch::zeros_like(tokens)).isfinite().all().item<bool>());
  }
}

TEST(Models, ExamplesLongerThanThePositionsAreRefused) {
  const auto model = make_model(named("gpt2-mini"), kText, 1);
  EXPECT_TRUE(says(refusal_of([&] {
                     model->forward(torch::zeros({1, 129}, torch::kLong));
                   }),
                   {"129", "128"}));
  data::DataShape longer = kText;
  longer.length = 200;
  EXPECT_EQ(make_model(named("gpt2-mini"), longer, 1)
                ->forward(torch::zeros({1, 200}, torch::kLong))
                .size(1),
            200);
}

std::string refusal(const ModelConfig& config, const data::DataShape& shape) {
  return refusal_of([&] { make_model(config, shape, 1); });
}

TEST(Models, AMisspeltNameIsAnsweredWithTheNearest) {
  EXPECT_TRUE(says(refusal(named("resnet200"), kImages), {"resnet200\"", "\"resnet20\""}));
  EXPECT_TRUE(says(refusal(named("brt-mini"), kMasked), {"\"bert-mini\"", "gpt2", "resnet50"}));
  EXPECT_TRUE(make_blank_model(named("GPT2_mini"), kText));
}

TEST(Models, DataOfAnotherKindAreRefusedNamingWhatFits) {
  EXPECT_TRUE(says(refusal(named("resnet20"), kText), {"images", "gpt2-mini, gpt2"}));
  EXPECT_TRUE(says(refusal(named("gpt2"), kImages), {"images", "resnet8", "resnet20"}));
  EXPECT_TRUE(says(refusal(named("gpt2-mini"), kMasked), {"masked", "bert-mini"}));
  EXPECT_TRUE(says(refusal(named("gpt2-mini"), kSentences), {"classes", "bert-mini"}));
  EXPECT_TRUE(says(refusal(named("bert-mini"), kText), {"causal", "gpt2-mini"}));
}

TEST(Models, ImpossibleSizesAreRefusedSayingWhatIsPossible) {
  EXPECT_TRUE(says(refusal({.name = "gpt2-mini", .width = 130}, kText), {"130", "4", "132"}));
  EXPECT_TRUE(says(refusal({.name = "gpt2-mini", .width = -1}, kText), {"-1", "1 to"}));
  EXPECT_TRUE(says(refusal({.name = "gpt2-mini", .depth = 5000}, kText), {"5000", "1024"}));
  EXPECT_TRUE(
      says(refusal({.name = "gpt2-mini", .dropout = 1}, kText), {"dropout", "less than 1"}));
  EXPECT_TRUE(says(refusal({.name = "resnet8", .heads = 2}, kImages), {"no heads"}));
  EXPECT_TRUE(says(refusal({.name = "resnet8", .dropout = 0.1}, kImages), {"no dropout"}));
}

TEST(Models, TheVocabularyMayBeLargerThanTheDatas) {
  ModelConfig config = named("gpt2-mini");
  config.vocabulary = 70;
  EXPECT_EQ(make_model(config, kText, 1)->forward(some_tokens()).size(2), 70);
  config.vocabulary = 49;
  EXPECT_TRUE(says(refusal_of([&] { make_model(config, kText, 1); }), {"49", "50 tokens"}));
  config.name = "resnet8";
  EXPECT_TRUE(says(refusal_of([&] { make_model(config, kImages, 1); }), {"images", "49"}));
}

TEST(Batches, AreViewedWithoutACopy) {
  const data::Batch images = some_batch(kImages, 3), text = some_batch(kText, 2);
  EXPECT_EQ(inputs_of(images, kImages).data_ptr(), images.values.data());
  EXPECT_EQ(targets_of(images, kImages).sizes(), (at::IntArrayRef{3}));
  EXPECT_EQ(inputs_of(text, kText).data_ptr(), text.tokens.data());
  EXPECT_EQ(targets_of(text, kText).sizes(), (at::IntArrayRef{2, 16}));
  EXPECT_TRUE(says(refusal_of([&] { inputs_of(text, kImages); }), {"0 values", "2, 1, 28, 28"}));
}

TEST(Loss, CountsOnlyTargetsThatAreAskedFor) {
  const auto logits = torch::tensor({{{2.f, 0.f}, {0.f, 3.f}, {9.f, 9.f}}}).requires_grad_();
  const auto targets = torch::tensor({{std::int64_t{0}, std::int64_t{0}, data::kIgnored}});
  const double first = std::log1p(std::exp(-2.0)), second = std::log1p(std::exp(3.0));
  EXPECT_NEAR(loss_of(logits, targets).item<double>(), (first + second) / 2, 1e-6);
  const Score score = score_of(logits, targets);
  EXPECT_NEAR(score.loss, first + second, 1e-6);
  EXPECT_EQ(score.correct, 1);
  EXPECT_EQ(score.targets, 2);

  const auto nothing = loss_of(logits, torch::full_like(targets, data::kIgnored));
  EXPECT_EQ(nothing.item<double>(), 0);
  nothing.backward();
  EXPECT_TRUE(same(logits.grad(), torch::zeros_like(logits)));
}

struct Learner {
  std::string name;
  data::DataShape shape;
  double lr;
};

class Training : public ::testing::TestWithParam<Learner> {};

TEST_P(Training, OnAFixedBatchLowersTheLoss) {
  const auto& [name, shape, lr] = GetParam();
  const auto model = make_model(named(name), shape, 1);
  const data::Batch batch = some_batch(shape, 8);
  const auto inputs = inputs_of(batch, shape), targets = targets_of(batch, shape);
  double first = 0, last = 0;
  for (int step = 0; step < 20; ++step) {
    model->zero_grad();
    const auto loss = loss_of(model->forward(inputs), targets);
    loss.backward();
    last = loss.item<double>();
    if (step == 0) first = last;
    const torch::NoGradGuard no_gradients;
    for (auto& each : model->parameters()) {
      ASSERT_TRUE(each.grad().defined());
      each.sub_(each.grad(), lr);
    }
  }
  EXPECT_LT(last, 0.9 * first);
}

INSTANTIATE_TEST_SUITE_P(Models, Training,
                         ::testing::Values(Learner{"resnet8", kImages, 0.1},
                                           Learner{"resnet20", kImages, 0.1},
                                           Learner{"gpt2-mini", kText, 0.5},
                                           Learner{"bert-mini", kMasked, 0.1},
                                           Learner{"bert-mini", kSentences, 0.1}),
                         [](const auto& each) {
                           std::string name = each.param.name;
                           std::erase(name, '-');
                           return name + (each.param.shape.masked ? "_masked" : "");
                         });

}  // namespace
}  // namespace laconic::app::models
