#include "app/data/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "app/data/examples.h"
#include "laconic/core/error.h"
#include "laconic/core/hash.h"

namespace laconic::app::data {
namespace {

// (pixel - mean) * factor: no multiply-add to fuse, so the same bits on every machine.
struct Scale {
  float mean, factor;
  float operator()(std::uint8_t pixel) const noexcept {
    return (static_cast<float>(pixel) - mean) * factor;
  }
};

// Where the pixels of an image come from.
struct Move {
  std::int64_t down = 0, right = 0;
  bool mirrored = false;
};

class ImageDataset final : public Dataset {
 public:
  ImageDataset(Images train, Images validation, ImageStyle style, const DataConfig& config)
      : splits_{std::move(train), std::move(validation)},
        style_(style),
        seed_(config.seed),
        task_(config.task),
        origin_(config.path) {
    const Images& images = splits_[0];
    shape_.images = true;
    shape_.channels = images.channels;
    shape_.height = images.height;
    shape_.width = images.width;
    shape_.classes = kImageClasses;
    for (std::size_t c = 0; c < static_cast<std::size_t>(images.channels); ++c)
      scales_.push_back({static_cast<float>(255 * style.mean[c]),
                         static_cast<float>(1 / (255 * style.deviation[c]))});
    Hash64 hash(static_cast<std::uint64_t>(images.width));
    for (const Images& split : splits_) {
      hash.add(std::as_bytes(std::span(split.pixels)));
      hash.add(std::as_bytes(std::span(split.labels)));
    }
    fingerprint_ = hash.value();
  }

  const DataShape& shape() const noexcept override { return shape_; }
  std::int64_t size(Split split) const noexcept override { return of(split).size(); }
  std::uint64_t fingerprint() const noexcept override { return fingerprint_; }

  std::string describe() const override {
    return fmt::format("{}, {} + {} images of {}x{}x{} from {}", task_,
                       with_commas(splits_[0].size()), with_commas(splits_[1].size()),
                       shape_.height, shape_.width, shape_.channels, origin_);
  }

  void read(Split split, std::span<const std::int64_t> examples, std::uint64_t draw,
            Batch& out) const override {
    const Images& images = of(split);
    check_examples(examples, images.size());
    const auto bytes = static_cast<std::size_t>(images.image_bytes());
    out.size = static_cast<std::int64_t>(examples.size());
    out.tokens.clear();
    out.values.resize(examples.size() * bytes);
    out.targets.resize(examples.size());
    for (std::size_t i = 0; i < examples.size(); ++i) {
      const auto example = static_cast<std::size_t>(examples[i]);
      const Move move = split == Split::kTrain ? move_of(examples[i], draw) : Move{};
      copy(images.pixels.data() + example * bytes, move, out.values.data() + i * bytes);
      out.targets[i] = images.labels[example];
    }
  }

 private:
  const Images& of(Split split) const noexcept { return splits_[split == Split::kTrain ? 0 : 1]; }

  Move move_of(std::int64_t example, std::uint64_t draw) const noexcept {
    const auto bits = random_bits(Purpose::kAugmentation, seed_, draw, example, 0);
    const auto places = static_cast<std::uint32_t>(2 * style_.shift + 1);
    return {static_cast<std::int64_t>(below(places, bits[0])) - style_.shift,
            static_cast<std::int64_t>(below(places, bits[1])) - style_.shift,
            style_.flip && (bits[2] & 1) != 0};
  }

  void copy(const std::uint8_t* from, Move move, float* to) const noexcept {
    const std::int64_t height = shape_.height, width = shape_.width;
    const std::int64_t first = std::clamp<std::int64_t>(-move.right, 0, width);
    const std::int64_t last = std::clamp<std::int64_t>(width - move.right, 0, width);
    for (const Scale scale : scales_) {
      for (std::int64_t y = 0; y < height; ++y, to += width) {
        const std::int64_t source = y + move.down;
        if (source < 0 || source >= height) {
          std::fill_n(to, width, scale(0));
          continue;
        }
        const std::uint8_t* row = from + source * width + move.right;
        std::fill(to, to + first, scale(0));
        for (std::int64_t x = first; x < last; ++x) to[x] = scale(row[x]);
        std::fill(to + last, to + width, scale(0));
        if (move.mirrored) std::reverse(to, to + width);
      }
      from += height * width;
    }
  }

  std::array<Images, 2> splits_;
  ImageStyle style_;
  std::uint32_t seed_;
  std::string task_, origin_;
  DataShape shape_;
  std::vector<Scale> scales_;  // one a channel
  std::uint64_t fingerprint_;
};

}  // namespace

std::pair<Images, Images> hold_out_last_tenth(Images all) {
  Images held = {all.channels, all.height, all.width, {}, {}};
  const std::int64_t kept = all.size() - all.size() / 10;
  const auto pixels = all.pixels.begin() + kept * all.image_bytes();
  held.pixels.assign(pixels, all.pixels.end());
  held.labels.assign(all.labels.begin() + kept, all.labels.end());
  all.pixels.erase(pixels, all.pixels.end());
  all.labels.resize(static_cast<std::size_t>(kept));
  return {std::move(all), std::move(held)};
}

std::shared_ptr<const Dataset> make_image_dataset(Images train, Images validation, ImageStyle style,
                                                  const DataConfig& config) {
  if (train.height != validation.height || train.width != validation.width)
    fail(Code::kInvalidArgument,
         "{}: training images are {}x{}, validation images {}x{}: take files of one data set",
         config.path, train.height, train.width, validation.height, validation.width);
  return std::make_shared<ImageDataset>(std::move(train), std::move(validation), style, config);
}

}  // namespace laconic::app::data
