#include "app/training/run_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "app/training/arm.h"
#include "app/training/tuned.h"
#include "app/units.h"
#include "laconic/core/error.h"
#include "laconic/optim/spelling.h"

namespace laconic::app::training {
namespace {

// Whether a resumed run may have another value.
enum class Resumed : bool { kSame, kFree };

struct Key {
  std::string_view name, allowed, help;
  Resumed resumed;
  std::function<bool(RunConfig&, const std::string&)> set;
  std::function<std::string(const RunConfig&)> get;
};

template <typename T>
bool parse(const std::string& text, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    value = text == "true";
    return text == "true" || text == "false";
  } else if constexpr (std::is_arithmetic_v<T>) {
    T parsed{};
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, parsed);
    if (error != std::errc{} || stop != end) return false;
    value = parsed;
    return true;
  } else {
    value = text;
    return true;
  }
}

template <typename T>
std::string print(const T& value) {
  if constexpr (std::is_same_v<T, std::filesystem::path>)
    return value.string();
  else
    return fmt::format("{}", value);
}

constexpr auto any = [](const auto&) { return true; };
constexpr auto from_zero = [](const auto& v) { return v >= 0; };
constexpr auto from_one = [](const auto& v) { return v >= 1; };
constexpr std::int64_t kMostSteps = 1'000'000'000'000'000;  // shares of it are exact in doubles
constexpr auto share = [](double v) { return v >= 0 && v <= 1; };
constexpr auto finite_from_zero = [](double v) { return v >= 0 && std::isfinite(v); };

template <typename Member, typename Fits>
Key key(std::string_view name, Resumed resumed, std::string_view allowed, std::string_view help,
        Fits fits, Member member) {
  return {name,
          allowed,
          help,
          resumed,
          [=](RunConfig& config, const std::string& text) {
            auto value = member(config);
            if (!parse(text, value) || !fits(value)) return false;
            member(config) = value;
            return true;
          },
          [=](const RunConfig& config) { return print(member(const_cast<RunConfig&>(config))); }};
}

#define LACONIC_MEMBER(path) \
  [](RunConfig & c) -> auto& { return c.path; }

const std::vector<Key>& keys() {
  constexpr auto kSame = Resumed::kSame, kFree = Resumed::kFree;
  static const std::vector<Key> all = {
      key("run.task", kSame, "a task", "fashion-mnist, cifar10, text, mlm or sst2", any,
          LACONIC_MEMBER(data.task)),
      key("run.data", kFree, "a path, or generated",
          "file or folder of the task's data; generated: a small made-up set; unset: where the "
          "task's package puts it",
          any, LACONIC_MEMBER(data.path)),
      key("run.model", kSame, "a model",
          "resnet8, resnet20, resnet18, resnet50, gpt2-mini, gpt2, bert-mini, bert-base or "
          "bert-large",
          any, LACONIC_MEMBER(model.name)),
      key("run.optimizer", kSame, "an optimizer",
          "a method, perhaps with options of its own (adamw:codec=int4); an exact method with "
          "-bf16: exact means travel as bf16",
          any, LACONIC_MEMBER(arm)),
      key(
          "run.ranks", kFree, "a whole number from 1 to 1024",
          "ranks; unset: 2 threads of this process, or the processes of mpirun",
          [](int v) { return v >= 1 && v <= 1024; }, LACONIC_MEMBER(ranks)),
      key(
          "run.steps", kFree, "a whole number from 1 to 10^15",
          "steps of the whole run; unset: the model's",
          [](std::int64_t v) { return v >= 1 && v <= kMostSteps; }, LACONIC_MEMBER(steps)),
      key("run.batch", kSame, "a whole number >= 1",
          "examples per rank and backward pass; unset: the model's", from_one,
          LACONIC_MEMBER(batch)),
      key("run.accumulate", kSame, "a whole number >= 1", "backward passes per step", from_one,
          LACONIC_MEMBER(accumulate)),
      key("run.seed", kSame, "a whole number >= 0", "seed of weights, data order and random signs",
          any, LACONIC_MEMBER(seed)),
      key(
          "run.lr", kSame, "a number > 0", "peak learning rate; unset: tuned for model and method",
          [](double v) { return v > 0 && std::isfinite(v); }, LACONIC_MEMBER(lr)),
      key("run.threads", kSame, "a whole number >= 1",
          "threads per rank; unset: cores divided by ranks", from_one, LACONIC_MEMBER(threads)),
      key("run.emulate", kFree,
          "RATE[,LATENCY], for example 100mbit,1ms; one for each node with / between, or @FILE",
          "emulated network between ranks; unset: none", any, LACONIC_MEMBER(emulate)),
      key("run.init", kFree, "a model.safetensors",
          "start from these weights, where names are equal", any, LACONIC_MEMBER(init)),
      key("run.out", kFree, "a folder", "folder of the results; unset: runs/TASK-MODEL-OPTIMIZER",
          any, LACONIC_MEMBER(out)),
      key("run.checkpoint_every", kFree, "a whole number >= 0",
          "steps between checkpoints; 0: only when stopped", from_zero,
          LACONIC_MEMBER(checkpoint_every)),
      key("run.validate_every", kFree, "a whole number >= 0",
          "steps between validations; 0: a tenth of the run", from_zero,
          LACONIC_MEMBER(validate_every)),
      key("run.validation_examples", kFree, "a whole number >= 1",
          "examples of a validation before the end; the last one takes all", from_one,
          LACONIC_MEMBER(validation_examples)),
      key(
          "run.timeout", kFree, "seconds > 0",
          "seconds after which a rank that sends nothing counts as lost",
          [](double v) { return v > 0 && std::isfinite(v); }, LACONIC_MEMBER(timeout)),
      key("run.tensorboard", kFree, "true or false", "write TensorBoard event files too", any,
          LACONIC_MEMBER(tensorboard)),
      key("run.trace", kFree, "a file",
          "write when each bucket was computed, encoded, sent and decoded, as a Chrome trace", any,
          LACONIC_MEMBER(trace)),
      key("run.elastic", kFree, "true or false", "a resume may have another number of ranks", any,
          LACONIC_MEMBER(elastic)),
      key("schedule.warmup", kSame, "a share of the steps, 0 to 1",
          "share of the steps in which the learning rate rises to its peak", share,
          LACONIC_MEMBER(warmup)),
      key("schedule.least", kSame, "a share of the peak, 0 to 1",
          "last learning rate, as a share of the peak", share, LACONIC_MEMBER(least)),
      key("schedule.decay", kSame, "constant, linear, cosine or staircase",
          "how the learning rate falls after warm-up", any, LACONIC_MEMBER(decay)),
      key("model.width", kSame, "a whole number >= 0",
          "channels of the first stage, or the hidden size; 0: the model's", from_zero,
          LACONIC_MEMBER(model.width)),
      key("model.depth", kSame, "a whole number >= 0",
          "blocks per stage, or layers; 0: the model's", from_zero, LACONIC_MEMBER(model.depth)),
      key("model.heads", kSame, "a whole number >= 0", "attention heads; 0: the model's", from_zero,
          LACONIC_MEMBER(model.heads)),
      key(
          "model.dropout", kSame, "a number below 1; negative: the model's own", "dropout",
          [](double v) { return v < 1; }, LACONIC_MEMBER(model.dropout)),
      key("model.vocabulary", kSame, "a whole number >= 0",
          "rows of the token table, at least the data's tokens; 0: as many", from_zero,
          LACONIC_MEMBER(model.vocabulary)),
      key("data.context", kSame, "a whole number >= 1", "tokens per example", from_one,
          LACONIC_MEMBER(data.context)),
      key("data.tokenizer", kSame, "byte or bpe", "how text becomes tokens", any,
          LACONIC_MEMBER(data.tokenizer)),
      key("data.vocabulary", kSame, "a whole number >= 1", "bpe: tokens to train", from_one,
          LACONIC_MEMBER(data.vocabulary)),
      key("data.tokenizer_data", kSame, "paths joined by commas",
          "bpe: files that it is trained on; unset: run.data", any,
          LACONIC_MEMBER(data.tokenizer_data)),
      key("data.cache", kFree, "a folder",
          "folder of trained tokenizers; unset: the user's cache folder", any,
          LACONIC_MEMBER(data.cache)),
      key("data.mask", kSame, "a share of the tokens, 0 to 1",
          "mlm: share of the tokens that the model must predict", share, LACONIC_MEMBER(data.mask)),
      key("data.held_out", kSame, "a whole number >= 0",
          "sst2 and mlm: sentences of train.tsv that become the validation set; 0: dev.tsv",
          from_zero, LACONIC_MEMBER(data.held_out)),
      key("data.validate_on", kSame, "validation or tuning",
          "the set that validations look at; tuning: a tenth of the training part, held out, to "
          "choose rates by",
          any, LACONIC_MEMBER(data.validate_on)),
      key("data.augment", kSame, "true or false", "images: random shifts, and flips for cifar10",
          any, LACONIC_MEMBER(data.augment)),
  };
  return all;
}

#undef LACONIC_MEMBER

constexpr std::string_view kOptimizer = "optimizer.";
// These follow from the method's name, and from the steps, the seed and the threads of the run.
constexpr std::string_view kDerived[] = {"algorithm", "total_steps", "seed", "threads"};

[[noreturn]] void refuse_unknown(const std::string& name) {
  std::vector<std::string> known;
  for (const Key& key : keys()) known.emplace_back(key.name);
  for (const auto& [field, text] : to_text(OptimizerConfig{}))
    if (std::ranges::find(kDerived, field) == std::end(kDerived))
      known.push_back(std::string(kOptimizer) + field);
  const std::vector<std::string_view> names(known.begin(), known.end());
  fail(Code::kInvalidArgument, "there is no key {}: did you mean {}?", name, nearest(name, names));
}

}  // namespace

void assign(RunConfig& config, const Assignment& assignment) {
  const auto& [name, value] = assignment;
  if (name.starts_with(kOptimizer)) {
    const std::string field = name.substr(kOptimizer.size());
    if (std::ranges::find(kDerived, field) != std::end(kDerived))
      fail(Code::kInvalidArgument,
           "{} follows from the run: set run.optimizer, run.steps, run.seed or run.threads", name);
    set(config.optimizer, field, value);
    return;
  }
  const auto found = std::ranges::find(keys(), name, &Key::name);
  if (found == keys().end()) refuse_unknown(name);
  if (!found->set(config, value))
    fail(Code::kInvalidArgument, "{} = \"{}\": give {}", name, value, found->allowed);
}

Assignment parse_assignment(const std::string& text) {
  const auto equals = text.find('=');
  const auto dot = text.find('.');
  if (equals == std::string::npos || dot == std::string::npos || dot > equals)
    fail(Code::kInvalidArgument,
         "--set {}: write section.key=value, for example optimizer.max_interval=8", text);
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::map<std::string, std::string> to_text(const RunConfig& config) {
  std::map<std::string, std::string> all;
  for (const Key& key : keys()) {
    RunConfig unused;
    const std::string text = key.get(config);
    if (key.set(unused, text)) all.emplace(key.name, text);  // what is left open has no text
  }
  const auto defaults = to_text(OptimizerConfig{.algorithm = config.optimizer.algorithm});
  for (const auto& [field, text] : to_text(config.optimizer))
    if (text != defaults.at(field) && std::ranges::find(kDerived, field) == std::end(kDerived))
      all.emplace(std::string(kOptimizer) + field, text);
  return all;
}

std::vector<KeyDescription> describe_keys() {
  const auto defaults = to_text(RunConfig{});
  std::vector<KeyDescription> all;
  for (const Key& key : keys()) {
    const auto found = defaults.find(std::string(key.name));
    const bool open = found == defaults.end() || found->second.empty();
    all.push_back({key.name, key.allowed, key.help, open ? "unset" : found->second,
                   key.resumed == Resumed::kFree});
  }
  return all;
}

std::string folder_name(std::string arm) {
  std::ranges::replace(arm, ':', '-');
  return arm;
}

namespace {

void set_arm(RunConfig& run) {
  std::string_view arm = run.arm;
  set_method(run.optimizer, arm);
  set_options(run.optimizer, arm);
}

}  // namespace

RunConfig resolved(RunConfig config) {
  const Preset preset = preset_of(config.model.name);
  set_arm(config);
  if (config.steps == 0) config.steps = preset.steps;
  if (config.batch == 0) config.batch = preset.batch;
  if (config.lr == 0) config.lr = tuned_lr(config.model.name, config.optimizer.algorithm);
  if (config.validate_every == 0)
    config.validate_every = std::max<std::int64_t>(1, config.steps / 10);
  if (config.out.empty())
    config.out =
        fmt::format("runs/{}-{}-{}", config.data.task, config.model.name, folder_name(config.arm));
  if (!config.emulate.empty()) parse_links(config.emulate);
  config.data.seed = config.seed;
  config.optimizer.seed = config.seed;
  config.optimizer.total_steps = config.steps;
  validated(config.optimizer);
  validated(learning_rate(config));
  return config;
}

LearningRate learning_rate(const RunConfig& config) {
  LearningRate rate;
  rate.peak = config.lr;
  rate.least = config.lr * config.least;
  rate.warmup = std::min(
      config.steps,
      static_cast<std::int64_t>(std::ceil(config.warmup * static_cast<double>(config.steps))));
  rate.total = config.steps;
  rate.decay = parse_decay(config.decay);
  return rate;
}

void check_resumable(const std::map<std::string, std::string>& saved,
                     const std::map<std::string, std::string>& now) {
  for (const Key& key : keys()) {
    const auto before = saved.find(std::string(key.name)), after = now.find(std::string(key.name));
    if (key.resumed == Resumed::kFree || before == saved.end() || after == now.end()) continue;
    if (before->second != after->second)
      fail(
          Code::kInvalidArgument,
          "the run was started with {} = {}, not {}: resume with the same, or choose another --out",
          key.name, before->second, after->second);
  }
}

}  // namespace laconic::app::training
