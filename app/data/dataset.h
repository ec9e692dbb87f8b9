#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

// Data without torch: examples come out as plain vectors.
namespace laconic::app::data {

enum class Split : std::uint8_t { kTrain, kValidation };

inline constexpr std::int64_t kIgnored = -100;  // a target that counts for nothing

// Some examples, side by side. Images: values [n, channels, height, width], one target per example.
// Tokens: tokens [n, length], targets one per token (language models; kIgnored where nothing is
// asked) or one per example (classification).
struct Batch {
  std::int64_t size = 0;
  std::vector<float> values;
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> targets;
};

// What a model must know of the data.
struct DataShape {
  bool images = false;
  std::int64_t channels = 0, height = 0, width = 0;  // images
  std::int64_t vocabulary = 0, length = 0;           // tokens: length is the context
  std::int64_t classes = 0;                          // 0: a target for every token
  bool masked = false;          // masked-language-model targets: a model that sees both sides
  std::int64_t padding = -1;    // the token that fills short examples; -1: none
  std::uint64_t tokenizer = 0;  // stands for it: weights serve data of the same tokenizer only
};

// Examples of one task. Everything follows from the files, the config and the arguments: the same
// call gives the same bits, whatever was called before. Thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const DataShape& shape() const noexcept = 0;
  virtual std::int64_t size(Split split) const noexcept = 0;
  // The examples with these numbers in [0, size(split)). `draw` keys what is random about them
  // (crops, flips, masks); validation ignores it.
  virtual void read(Split split, std::span<const std::int64_t> examples, std::uint64_t draw,
                    Batch& out) const = 0;
  // One line for people: "fashion-mnist, 60,000 + 10,000 images from <path>".
  virtual std::string describe() const = 0;
  // Stands for all bytes that examples are made of: a resume with other data is refused.
  virtual std::uint64_t fingerprint() const noexcept = 0;
};

struct DataConfig {
  std::string task = "fashion-mnist";  // task_names()
  // File or directory; empty: where the task's package puts it; "generated": no files. mlm takes
  // several, joined by ','. text and mlm read any text; mlm also a directory of sst2's files.
  std::string path;
  std::int64_t context = 128;      // tokens per example
  std::string tokenizer = "byte";  // "byte" or "bpe"
  std::int64_t vocabulary = 2048;  // bpe: how many tokens to train
  // bpe: what it is trained on, paths joined by ','; empty: `path`. Of a text its training part
  // counts, of an sst2 directory all of train.tsv. So mlm and sst2 on one directory share their
  // tokenizer; with mlm on more than that, give the same tokenizer_data (or mlm's path) to both.
  std::string tokenizer_data;
  std::string cache;          // directory for trained tokenizers; empty: the user's cache directory
  double mask = 0.15;         // mlm: fraction of tokens asked for
  std::int64_t held_out = 0;  // sst2 and mlm: that many sentences of train.tsv (by a fixed
                              // shuffle) become the validation set; 0: dev.tsv
  // "tuning": the last tenth of the training part (of sst2: by a fixed shuffle) stands in for the
  // validation set, which is not looked at. What is chosen there may be reported on the other.
  std::string validate_on = "validation";
  bool augment = true;     // images: random shifts (and flips for cifar10)
  std::uint32_t seed = 0;  // of what is random about training examples; files, generated data
                           // and validation are the same for every seed
  bool tuning() const noexcept { return validate_on == "tuning"; }
};

// "fashion-mnist", "cifar10", "text", "mlm", "sst2".
std::vector<std::string> task_names();

// Throws Error(kInvalidArgument) with the nearest task name, Error(kFile) with how to get the
// data, Error(kCorrupt) naming file, place and both values.
std::shared_ptr<const Dataset> open_dataset(const DataConfig& config);

// The order of n training examples, forever: epoch after epoch, each a permutation that is a pure
// function of (seed, epoch). No state, so training resumes at any step.
class Order {
 public:
  Order(std::int64_t examples, std::uint32_t seed);
  // The example at this place in the endless sequence.
  std::int64_t operator()(std::int64_t place) const noexcept;

 private:
  std::int64_t examples_;
  std::uint32_t seed_;
};

// The examples of rank `rank` of `ranks` at `step` (1, 2, …), `batch` each: ranks never share one
// within an epoch.
std::vector<std::int64_t> examples_of(const Order& order, std::int64_t step, int rank, int ranks,
                                      std::int64_t batch);

}  // namespace laconic::app::data
