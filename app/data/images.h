#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/data/dataset.h"

namespace laconic::app::data {

// Images as files hold them: bytes, [n, channels, height, width], one label each.
struct Images {
  std::int64_t channels = 1, height = 0, width = 0;
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;

  std::int64_t size() const noexcept { return static_cast<std::int64_t>(labels.size()); }
  std::int64_t image_bytes() const noexcept { return channels * height * width; }
};

// How pixels (as 0..1) become values, and how training images are varied: moved by up to `shift`
// pixels in each direction, black coming in at the edges, and mirrored half of the time where `flip`.
struct ImageStyle {
  std::array<double, 3> mean{}, deviation{};  // of each channel
  int shift = 0;
  bool flip = false;
};

inline constexpr std::uint8_t kImageClasses = 10;  // of fashion-mnist and cifar10

// The first nine tenths, and the rest.
std::pair<Images, Images> hold_out_last_tenth(Images all);

// Throws Error(kInvalidArgument) if the splits differ in shape. Labels are below kImageClasses.
std::shared_ptr<const Dataset> make_image_dataset(Images train, Images validation, ImageStyle style,
                                                  const DataConfig& config);

}  // namespace laconic::app::data
