#include "app/data/idx.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "laconic/core/error.h"

namespace laconic::app::data {
namespace {

namespace fs = std::filesystem;

// Deflate makes at most this many bytes of one.
constexpr std::uint64_t kLargestRatio = 1032;
constexpr std::uint32_t kUnsignedBytes = 8;  // IDX's code of the only type read here

// The bytes of a file, unpacked if they are in gzip's form.
class Unpacked {
 public:
  explicit Unpacked(const fs::path& path) : path_(path.string()) {
    std::error_code error;
    packed_ = fs::file_size(path, error);
    if (error) fail(Code::kFile, "cannot read {}: {}", path_, error.message());
    file_ = ::gzopen(path.c_str(), "rb");
    if (file_ == nullptr) fail(Code::kFile, "cannot open {}", path_);
    ::gzbuffer(file_, 1 << 17);
  }
  Unpacked(const Unpacked&) = delete;
  Unpacked& operator=(const Unpacked&) = delete;
  ~Unpacked() { ::gzclose(file_); }

  const std::string& path() const noexcept { return path_; }
  // No more bytes than this can come out.
  std::uint64_t limit() const { return ::gzdirect(file_) != 0 ? packed_ : packed_ * kLargestRatio; }

  void read(std::span<std::uint8_t> out) {
    while (!out.empty()) {
      const auto wanted = static_cast<unsigned>(std::min<std::size_t>(out.size(), 1U << 30));
      const int got = ::gzread(file_, out.data(), wanted);
      if (got <= 0)
        fail(Code::kCorrupt,
             "{} is cut or damaged at (unpacked) byte {}, {} more are expected{}: get it anew",
             path_, place_, out.size(), reason());
      place_ += static_cast<std::uint64_t>(got);
      out = out.subspan(static_cast<std::size_t>(got));
    }
  }

  // Also checks gzip's own sum.
  void expect_end() {
    std::uint8_t more = 0;
    const int got = ::gzread(file_, &more, 1);
    if (got > 0)
      fail(Code::kCorrupt, "{} continues after byte {}, where its header ends it: get it again",
           path_, place_);
    if (const std::string why = reason(); !why.empty())
      fail(Code::kCorrupt, "{} is damaged after byte {}{}: get it anew", path_, place_, why);
  }

 private:
  std::string reason() const {
    int code = Z_OK;
    const char* text = ::gzerror(file_, &code);
    return code == Z_OK || code == Z_STREAM_END ? "" : fmt::format(" ({})", text);
  }

  std::string path_;
  std::uint64_t packed_ = 0, place_ = 0;
  gzFile file_ = nullptr;
};

std::uint32_t read_word(Unpacked& file) {
  std::array<std::uint8_t, 4> b{};
  file.read(b);
  return std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | b[3];
}

// The bytes of an IDX file with so many dimensions, and their sizes.
std::vector<std::uint8_t> read_idx(const fs::path& path, std::span<std::int64_t> sizes) {
  Unpacked file(path);
  const auto magic = static_cast<std::uint32_t>(kUnsignedBytes << 8 | sizes.size());
  if (const std::uint32_t found = read_word(file); found != magic)
    fail(Code::kCorrupt,
         "{} begins with {:#010x}, IDX with {} dimensions of bytes begins with {:#010x}: is it the "
         "right file?",
         file.path(), found, sizes.size(), magic);
  std::uint64_t bytes = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::uint32_t size = read_word(file);
    if (size == 0) fail(Code::kCorrupt, "{}: size {} is 0: get it anew", file.path(), i);
    sizes[i] = size;
    if (bytes > file.limit() / size)
      fail(Code::kCorrupt,
           "{}: the sizes ({} at place {}) ask for more bytes than the {} that the file can hold: "
           "get it anew",
           file.path(), size, i, file.limit());
    bytes *= size;
  }
  std::vector<std::uint8_t> out(bytes);
  file.read(out);
  file.expect_end();
  return out;
}

fs::path packed_or_plain(const fs::path& directory, const std::string& name) {
  std::error_code ignored;
  for (const auto& path : {directory / (name + ".gz"), directory / name})
    if (fs::exists(path, ignored)) return path;
  fail(Code::kFile, "{} holds neither {}.gz nor {}", directory.string(), name, name);
}

}  // namespace

Images read_idx_images(const fs::path& directory, const std::string& prefix) {
  const fs::path pixels = packed_or_plain(directory, prefix + "-images-idx3-ubyte");
  const fs::path labels = packed_or_plain(directory, prefix + "-labels-idx1-ubyte");
  Images images;
  std::array<std::int64_t, 3> sizes{};
  std::array<std::int64_t, 1> count{};
  images.pixels = read_idx(pixels, sizes);
  images.labels = read_idx(labels, count);
  images.height = sizes[1];
  images.width = sizes[2];
  if (sizes[0] != count[0])
    fail(Code::kCorrupt, "{} has {} images, {} has {} labels: take both from one data set",
         pixels.string(), sizes[0], labels.string(), count[0]);
  const auto bad = std::find_if(images.labels.begin(), images.labels.end(),
                                [](std::uint8_t label) { return label >= kImageClasses; });
  if (bad != images.labels.end())
    fail(Code::kCorrupt, "{}: label {} is {}, not one of 0 to {}: get it anew", labels.string(),
         bad - images.labels.begin(), *bad, kImageClasses - 1);
  return images;
}

}  // namespace laconic::app::data
