#include "app/data/generated.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "app/data/examples.h"

namespace laconic::app::data {
namespace {

constexpr std::int64_t kTrainImages = 4096, kValidationImages = 1024;
constexpr std::int64_t kTrainSentences = 8192, kValidationSentences = 1024;
constexpr std::int64_t kGrid = 5;   // points of a pattern in each direction
constexpr std::int64_t kMoves = 2;  // pixels in each direction

// Random numbers of one example, one after the other.
class Dice {
 public:
  explicit Dice(std::int64_t example) : example_(example) {}
  std::uint32_t roll(std::size_t count) {
    if (next_ % 4 == 0)
      bits_ =
          random_bits(Purpose::kGenerated, 0, 0, example_, static_cast<std::uint32_t>(next_ / 4));
    return below(static_cast<std::uint32_t>(count), bits_[next_++ % 4]);
  }

 private:
  std::int64_t example_;
  std::size_t next_ = 0;
  PhiloxCounter bits_{};
};

// [class, channel, y, x] in 0..255, with a border for moves: random points, smooth between them.
std::vector<int> patterns(std::int64_t channels, std::int64_t side) {
  const std::int64_t wide = side + 2 * kMoves;
  std::vector<int> out;
  for (std::int64_t plane = 0; plane < kImageClasses * channels; ++plane) {
    const auto point = [&](std::int64_t y, std::int64_t x) {
      const auto bits =
          random_bits(Purpose::kPrototype, 0, 0, plane, static_cast<std::uint32_t>(y * kGrid + x));
      return static_cast<std::int64_t>(bits[0] >> 24);
    };
    for (std::int64_t y = 0; y < wide; ++y)
      for (std::int64_t x = 0; x < wide; ++x) {
        const std::int64_t v = y * (kGrid - 1), u = x * (kGrid - 1);
        const std::int64_t gy = v / wide, gx = u / wide, fy = v % wide, fx = u % wide;
        const std::int64_t above = point(gy, gx) * (wide - fx) + point(gy, gx + 1) * fx;
        const std::int64_t under = point(gy + 1, gx) * (wide - fx) + point(gy + 1, gx + 1) * fx;
        out.push_back(static_cast<int>((above * (wide - fy) + under * fy) / (wide * wide)));
      }
  }
  return out;
}

Images images_of(const std::vector<int>& patterns, std::int64_t channels, std::int64_t side,
                 std::int64_t first, std::int64_t count) {
  Images images{.channels = channels, .height = side, .width = side, .pixels = {}, .labels = {}};
  images.pixels.reserve(static_cast<std::size_t>(count * images.image_bytes()));
  const std::int64_t wide = side + 2 * kMoves;
  for (std::int64_t example = first; example < first + count; ++example) {
    Dice dice(example);
    const std::uint32_t label = dice.roll(kImageClasses);
    const std::uint32_t other = dice.roll(kImageClasses);
    // Of the other, in 256ths: above 128 for one in 17, so that no model is always right.
    const int share = static_cast<int>(dice.roll(136));
    const std::int64_t down = dice.roll(2 * kMoves + 1), right = dice.roll(2 * kMoves + 1);
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t y = 0; y < side; ++y)
        for (std::int64_t x = 0; x < side; ++x) {
          const auto at = static_cast<std::size_t>((c * wide + y + down) * wide + x + right);
          const auto size = static_cast<std::size_t>(channels * wide * wide);
          const int mixed =
              (patterns[label * size + at] * (256 - share) + patterns[other * size + at] * share) /
              256;
          const int noise = static_cast<int>(dice.roll(192)) - 96;
          images.pixels.push_back(static_cast<std::uint8_t>(std::clamp(mixed + noise, 0, 255)));
        }
    images.labels.push_back(static_cast<std::uint8_t>(label));
  }
  return images;
}

constexpr std::array<std::string_view, 10> kThings = {
    "film", "story", "plot", "ending", "music", "script", "dialogue", "hero", "acting", "picture"};
constexpr std::array<std::string_view, 10> kGood = {"wonderful", "moving",    "clever", "funny",
                                                    "warm",      "brilliant", "fresh",  "charming",
                                                    "graceful",  "gripping"};
constexpr std::array<std::string_view, 10> kBad = {"dull",  "clumsy", "tired", "hollow", "boring",
                                                   "bleak", "silly",  "flat",  "stale",  "shallow"};
constexpr std::array<std::string_view, 5> kVery = {"", "very ", "truly ", "rather ", "deeply "};
constexpr std::array<std::string_view, 5> kPeople = {"director", "writer", "team", "studio",
                                                     "newcomer"};

Sentence sentence_of(std::int64_t example) {
  Dice dice(example);
  const auto one_of = [&](const auto& words) { return words[dice.roll(words.size())]; };
  const bool good = dice.roll(2) == 1;
  const auto praise = [&](bool yes) { return one_of(yes ? kGood : kBad); };
  const auto thing = one_of(kThings), other = one_of(kThings), very = one_of(kVery);
  const auto label = static_cast<std::uint8_t>(good ? 1 : 0);
  switch (dice.roll(6)) {
    case 0: return {fmt::format("the {} is {}{} .", thing, very, praise(good)), label};
    case 1: return {fmt::format("the {} is not {}{} .", thing, very, praise(!good)), label};
    case 2: {
      const auto first = praise(!good), then = praise(good);
      return {
          fmt::format("although the {} is {}{} , the {} is {} .", thing, very, first, other, then),
          label};
    }
    case 3: {
      const auto first = praise(good), then = one_of(kPeople);
      return {fmt::format("a {}{} {} from a {} .", very, first, thing, then), label};
    }
    case 4:
      return {fmt::format("nobody would call the {} {}{} .", thing, very, praise(!good)), label};
    default: {
      const auto first = praise(good), then = praise(good);
      return {fmt::format("the {} and the {} are {}{} and {} .", thing, other, very, first, then),
              label};
    }
  }
}

}  // namespace

std::pair<Images, Images> generated_images(std::int64_t channels, std::int64_t side) {
  const std::vector<int> of_classes = patterns(channels, side);
  return {images_of(of_classes, channels, side, 0, kTrainImages),
          images_of(of_classes, channels, side, kTrainImages, kValidationImages)};
}

std::vector<Sentence> generated_sentences(Split split) {
  const bool train = split == Split::kTrain;
  const std::int64_t first = train ? 0 : kTrainSentences;
  std::vector<Sentence> sentences;
  for (std::int64_t i = 0; i < (train ? kTrainSentences : kValidationSentences); ++i)
    sentences.push_back(sentence_of(first + i));
  return sentences;
}

std::string generated_text() {
  std::string text;
  for (const Split split : {Split::kTrain, Split::kValidation})
    for (const Sentence& sentence : generated_sentences(split)) text += sentence.text + '\n';
  return text;
}

}  // namespace laconic::app::data
