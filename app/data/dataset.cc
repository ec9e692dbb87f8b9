#include "app/data/dataset.h"

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <string_view>

#include "app/data/cifar10.h"
#include "app/data/examples.h"
#include "app/data/files.h"
#include "app/data/generated.h"
#include "app/data/idx.h"
#include "app/data/masked.h"
#include "app/data/text.h"
#include "app/data/tokenizer.h"
#include "app/data/tsv.h"
#include "laconic/core/error.h"
#include "laconic/optim/spelling.h"

namespace laconic::app::data {
namespace {

using Opened = std::shared_ptr<const Dataset>;

constexpr ImageStyle kGeneratedStyle = {{0.5, 0.5, 0.5}, {0.25, 0.25, 0.25}, 0, false};
// Published means and deviations. A mirrored shoe would be none of Fashion-MNIST's, all of which
// point to the left: no flip there.
constexpr ImageStyle kFashionStyle = {{0.2860}, {0.3530}, 2, false};
constexpr ImageStyle kCifarStyle = {{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}, 4, true};

Opened open_images(const DataConfig& config, ImageStyle style, std::pair<Images, Images> splits) {
  if (config.tuning()) splits = hold_out_last_tenth(std::move(splits.first));
  if (config.path == kGenerated) {
    style.mean = kGeneratedStyle.mean;
    style.deviation = kGeneratedStyle.deviation;
  }
  if (!config.augment) {
    style.shift = 0;
    style.flip = false;
  }
  return make_image_dataset(std::move(splits.first), std::move(splits.second), style, config);
}

Opened open_fashion_mnist(const DataConfig& config) {
  if (config.path == kGenerated) return open_images(config, kFashionStyle, generated_images(1, 28));
  Images train = read_idx_images(config.path, "train");
  return open_images(config, kFashionStyle,
                     {std::move(train), read_idx_images(config.path, "t10k")});
}

Opened open_cifar10(const DataConfig& config) {
  return open_images(
      config, kCifarStyle,
      config.path == kGenerated ? generated_images(3, 32) : read_cifar10(config.path));
}

std::vector<std::string> parts_of(std::string_view paths) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = paths.find(',');
    parts.emplace_back(paths.substr(0, end));
    if (end == std::string_view::npos) return parts;
    paths.remove_prefix(end + 1);
  }
}

// What the tokenizer is trained on.
std::string tokenizer_text(const DataConfig& config) {
  std::vector<std::string> paths = {config.path};
  if (!config.tokenizer_data.empty())
    paths = parts_of(config.tokenizer_data);
  else if (config.task == "mlm")
    paths = parts_of(config.path);
  std::string all;
  for (const std::string& path : paths) {
    if (!holds_sentences(path)) {
      const std::string text = read_text(path);
      all.append(split_text(text).train).push_back('\n');
      continue;
    }
    const auto sentences = path == kGenerated ? generated_sentences(Split::kTrain)
                                              : read_tsv(std::filesystem::path(path) / "train.tsv");
    for (const Sentence& sentence : sentences) all.append(sentence.text).push_back('\n');
  }
  return all;
}

Tokenizer tokenizer_of(const DataConfig& config) {
  if (config.tokenizer == "byte") return {};
  return train_or_load(
      tokenizer_text(config), config.vocabulary,
      config.cache.empty() ? user_cache_directory() : std::filesystem::path(config.cache));
}

Opened open_text(const DataConfig& config) {
  const std::string text = read_text(config.path);
  return make_text_dataset(tokenizer_of(config), text, config);
}

Opened open_masked(const DataConfig& config) {
  const auto sentences = read_plain_sentences(parts_of(config.path), config);
  return make_masked_dataset(tokenizer_of(config), sentences, config);
}

Opened open_sentences(const DataConfig& config) {
  const auto sentences = read_sentences(config.path, config);
  return make_sentence_dataset(tokenizer_of(config), sentences, config);
}

struct Task {
  std::string_view name;
  Opened (*open)(const DataConfig& config);
  std::string_view usual_path;  // empty: none
  std::string_view remedy;
};

constexpr std::string_view kAnyText =
    "give any text file, or a directory of them, with --data PATH";
constexpr std::array kTasks = {
    Task{"fashion-mnist", open_fashion_mnist, "/usr/share/datasets/fashion-mnist",
         "install Debian's package dataset-fashion-mnist, or give a directory with the four files "
         "of "
         "Fashion-MNIST (train-images-idx3-ubyte.gz, ...) with --data DIR"},
    Task{"cifar10", open_cifar10, "",
         "unpack cifar-10-binary.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html and give "
         "its directory with --data DIR"},
    Task{"text", open_text, "", kAnyText},
    Task{"mlm", open_masked, "",
         "give text files, directories of them or of SST-2, joined by ',', with --data PATH"},
    Task{"sst2", open_sentences, "",
         "unpack SST-2.zip from https://gluebenchmark.com/tasks and give its directory (train.tsv "
         "and dev.tsv) with --data DIR"},
};

std::vector<std::string_view> names_of_tasks() {
  std::vector<std::string_view> names;
  for (const Task& task : kTasks) names.push_back(task.name);
  return names;
}

std::string_view chosen(std::string_view what, std::string_view text,
                        std::span<const std::string_view> names) {
  for (const std::string_view name : names)
    if (spelled(name) == spelled(text)) return name;
  fail(Code::kInvalidArgument, "no {} named \"{}\": did you mean \"{}\"? There are: {}", what, text,
       nearest(text, names), fmt::join(names, ", "));
}

void check_range(const char* what, double value, double least, double most) {
  if (!(value >= least && value <= most))
    fail(Code::kInvalidArgument, "{} = {}: it must be from {} to {}", what, value, least, most);
}

DataConfig checked(DataConfig config) {
  static constexpr std::array<std::string_view, 2> kTokenizers = {"byte", "bpe"};
  config.task = chosen("task", config.task, names_of_tasks());
  config.tokenizer = chosen("tokenizer", config.tokenizer, kTokenizers);
  static constexpr std::array<std::string_view, 2> kSets = {"validation", "tuning"};
  config.validate_on = chosen("set to validate on", config.validate_on, kSets);
  check_range("context", static_cast<double>(config.context), 2, 1 << 20);
  check_range("vocabulary", static_cast<double>(config.vocabulary), kFirstMerge,
              kLargestVocabulary);
  check_range("mask", config.mask, 0.001, 1);
  check_range("held_out", static_cast<double>(config.held_out), 0, 4294967295.0);
  return config;
}

}  // namespace

std::vector<std::string> task_names() {
  const auto names = names_of_tasks();
  return {names.begin(), names.end()};
}

Opened open_dataset(const DataConfig& user) {
  DataConfig config = checked(user);
  const Task& task = *std::find_if(kTasks.begin(), kTasks.end(),
                                   [&](const Task& t) { return t.name == config.task; });
  if (config.path.empty()) config.path = task.usual_path;
  try {
    if (config.path.empty()) fail(Code::kFile, "no path is given");
    return task.open(config);
  } catch (const Error& error) {
    if (error.code() != Code::kFile) throw;
    fail(Code::kFile, "no data for {}: {}; {}; or try it without files: --data generated",
         task.name, error.what(), task.remedy);
  }
}

Order::Order(std::int64_t examples, std::uint32_t seed) : examples_(examples), seed_(seed) {
  if (examples < 1)
    fail(Code::kInvalidArgument, "an order of {} examples: at least 1 is needed", examples);
}

// A Feistel network: bits of the number are cut in two halves, and each half in turn is changed by
// a random function of the other, which can be undone, so that no two numbers meet. It permutes [0,
// 2^bits), less than 2n; whoever lands at n or above goes on until below.
std::int64_t Order::operator()(std::int64_t place) const noexcept {
  constexpr std::uint32_t kRounds = 6;
  const auto n = static_cast<std::uint64_t>(examples_);
  const auto epoch = static_cast<std::uint64_t>(place) / n;
  const auto bits = static_cast<int>(std::bit_width(n - 1));
  const int low_bits = bits / 2;
  const std::uint64_t low_mask = (std::uint64_t{1} << low_bits) - 1;
  const std::uint64_t high_mask = (std::uint64_t{1} << (bits - low_bits)) - 1;
  std::uint64_t number = static_cast<std::uint64_t>(place) % n;
  do {
    std::uint64_t low = number & low_mask, high = number >> low_bits;
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      std::uint64_t& changed = round % 2 == 0 ? high : low;
      const std::uint64_t other = round % 2 == 0 ? low : high;
      const auto random =
          random_bits(Purpose::kOrder, seed_, epoch, static_cast<std::int64_t>(other), round);
      changed ^=
          (std::uint64_t{random[0]} << 32 | random[1]) & (round % 2 == 0 ? high_mask : low_mask);
    }
    number = high << low_bits | low;
  } while (number >= n);
  return static_cast<std::int64_t>(number);
}

std::vector<std::int64_t> examples_of(const Order& order, std::int64_t step, int rank, int ranks,
                                      std::int64_t batch) {
  if (step < 1 || rank < 0 || rank >= ranks || batch < 1)
    fail(Code::kInvalidArgument,
         "step {}, rank {} of {}, batch {}: steps count from 1, ranks from 0, a batch has at least "
         "1",
         step, rank, ranks, batch);
  std::vector<std::int64_t> examples(static_cast<std::size_t>(batch));
  std::int64_t place = ((step - 1) * ranks + rank) * batch;
  for (std::int64_t& example : examples) example = order(place++);
  return examples;
}

}  // namespace laconic::app::data
