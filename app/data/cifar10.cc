#include "app/data/cifar10.h"

#include "app/data/files.h"
#include "laconic/core/error.h"

namespace laconic::app::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPixels = std::size_t{3} * 32 * 32;
constexpr std::size_t kRecord = 1 + kPixels;  // a label, then red, green and blue planes

void append(const fs::path& path, Images& images) {
  const std::string bytes = read_file(path);
  if (bytes.empty() || bytes.size() % kRecord != 0)
    fail(Code::kCorrupt,
         "{} has {} bytes, not a multiple of {}, the bytes of an image: get it anew", path.string(),
         bytes.size(), kRecord);
  for (std::size_t begin = 0; begin < bytes.size(); begin += kRecord) {
    const auto label = static_cast<std::uint8_t>(bytes[begin]);
    if (label >= kImageClasses)
      fail(Code::kCorrupt, "{}: the label at byte {} is {}, not one of 0 to {}: get it anew",
           path.string(), begin, label, kImageClasses - 1);
    images.labels.push_back(label);
    const auto pixels = bytes.begin() + static_cast<std::ptrdiff_t>(begin + 1);
    images.pixels.insert(images.pixels.end(), pixels, pixels + kPixels);
  }
}

}  // namespace

std::pair<Images, Images> read_cifar10(const fs::path& directory) {
  std::error_code ignored;
  const fs::path inside = directory / "cifar-10-batches-bin";
  const fs::path& folder = fs::is_directory(inside, ignored) ? inside : directory;
  Images train{.channels = 3, .height = 32, .width = 32, .pixels = {}, .labels = {}};
  Images validation = train;
  for (int batch = 1; batch <= 5; ++batch)
    append(folder / fmt::format("data_batch_{}.bin", batch), train);
  append(folder / "test_batch.bin", validation);
  return {std::move(train), std::move(validation)};
}

}  // namespace laconic::app::data
