#include "app/data/generated.h"

#include <array>
#include <cmath>
#include <map>
#include <sstream>

#include "tests/app/data/data_files.h"

namespace laconic::app::data {
namespace {

DataConfig generated(const std::string& task) {
  DataConfig config;
  config.task = task;
  config.path = "generated";
  config.context = 32;
  config.augment = false;
  return config;
}

// How often the nearest class mean of the training images is right.
double accuracy_of_means(const Dataset& data) {
  const Batch train = all_of(data, Split::kTrain), test = all_of(data, Split::kValidation);
  const std::size_t bytes = train.values.size() / static_cast<std::size_t>(train.size);
  std::vector<std::vector<double>> means(10, std::vector<double>(bytes));
  std::array<double, 10> counts{};
  for (const std::int64_t label : train.targets) ++counts[static_cast<std::size_t>(label)];
  for (std::size_t i = 0; i < train.targets.size(); ++i) {
    const auto label = static_cast<std::size_t>(train.targets[i]);
    for (std::size_t p = 0; p < bytes; ++p)
      means[label][p] += static_cast<double>(train.values[i * bytes + p]) / counts[label];
  }
  double right = 0;
  for (std::size_t i = 0; i < test.targets.size(); ++i) {
    std::array<double, 10> distances{};
    for (std::size_t k = 0; k < 10; ++k)
      for (std::size_t p = 0; p < bytes; p += 3)
        distances[k] += std::pow(static_cast<double>(test.values[i * bytes + p]) - means[k][p], 2);
    const auto best = std::min_element(distances.begin(), distances.end()) - distances.begin();
    right += best == test.targets[i] ? 1 : 0;
  }
  return right / static_cast<double>(test.size);
}

TEST(Generated, ImagesCanBeLearntAndAreNotTrivial) {
  for (const std::string task : {"fashion-mnist", "cifar10"}) {
    const auto data = open_dataset(generated(task));
    EXPECT_EQ(data->shape().channels, task == "cifar10" ? 3 : 1);
    EXPECT_EQ(data->shape().width, task == "cifar10" ? 32 : 28);
    const double accuracy = accuracy_of_means(*data);
    EXPECT_GT(accuracy, 0.7) << task;
    EXPECT_LT(accuracy, 0.98) << task;
  }
}

TEST(Generated, SentencesCanBeLearntButNotFromSingleWordsAlone) {
  std::map<std::string, std::array<double, 2>> counts;
  std::array<double, 2> labels{};
  const auto words_of = [](const Sentence& sentence, auto take) {
    std::istringstream words(sentence.text);
    for (std::string word; words >> word;) take(word);
  };
  for (const Sentence& sentence : generated_sentences(Split::kTrain)) {
    ++labels[sentence.label];
    words_of(sentence, [&](const std::string& word) { ++counts[word][sentence.label]; });
  }
  EXPECT_NEAR(labels[0] / (labels[0] + labels[1]), 0.5, 0.03);
  double right = 0;
  const auto tests = generated_sentences(Split::kValidation);
  for (const Sentence& sentence : tests) {
    double odds = 0;
    words_of(sentence, [&](const std::string& word) {
      odds += std::log((counts[word][1] + 1) / (counts[word][0] + 1));
    });
    right += (odds > 0) == (sentence.label == 1) ? 1 : 0;
  }
  EXPECT_GT(right / static_cast<double>(tests.size()), 0.55);
  EXPECT_LT(right / static_cast<double>(tests.size()), 0.95);
}

TEST(Generated, EveryTaskWorksWithoutFilesAndIsTheSameForEverySeed) {
  for (const std::string& task : task_names()) {
    DataConfig config = generated(task);
    const auto data = open_dataset(config);
    config.seed = 3;
    EXPECT_EQ(open_dataset(config)->fingerprint(), data->fingerprint()) << task;
    EXPECT_NE(data->describe().find("generated"), std::string::npos) << data->describe();
    EXPECT_GE(data->size(Split::kTrain), 1000) << task;
    EXPECT_GE(data->size(Split::kValidation), 100) << task;
    const Batch batch = batch_of(*data, Split::kTrain, first_examples(8), 1);
    EXPECT_EQ(batch.size, 8) << task;
    EXPECT_EQ(batch.values.empty(), !data->shape().images) << task;
    EXPECT_EQ(batch.tokens.empty(), data->shape().images) << task;
  }
}

TEST(Generated, BytesAreThoseOfEveryOtherMachine) {
  EXPECT_EQ(generated_sentences(Split::kTrain)[0].text,
            "although the plot is rather flat , the plot is fresh .");
  EXPECT_EQ(open_dataset(generated("fashion-mnist"))->fingerprint(), 5844828255017755224U);
  EXPECT_EQ(open_dataset(generated("sst2"))->fingerprint(), 5316983443603051721U);
}

}  // namespace
}  // namespace laconic::app::data
