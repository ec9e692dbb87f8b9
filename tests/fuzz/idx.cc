// Images and labels in IDX, plain, in gzip's form as given, or packed here.
#include "app/data/idx.h"

#include <zlib.h>

#include "tests/fuzz/input.h"

using namespace laconic;

namespace {

enum Form : unsigned { kPlain, kGzip, kPackedHere };

void put(Form form, const std::string& name, const std::string& bytes) {
  std::filesystem::remove(fuzz::folder() / name);
  std::filesystem::remove(fuzz::folder() / (name + ".gz"));
  if (form == kPlain) fuzz::put(name, bytes);
  if (form == kGzip) fuzz::put(name + ".gz", bytes);
  if (form != kPackedHere) return;
  const gzFile file = ::gzopen((fuzz::folder() / (name + ".gz")).c_str(), "wb1");
  if (!bytes.empty()) ::gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  ::gzclose(file);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const unsigned forms = input.byte();
  const std::string images = input.take(input.number());
  put(static_cast<Form>(forms % 3), "x-images-idx3-ubyte", images);
  put(static_cast<Form>(forms / 3 % 3), "x-labels-idx1-ubyte", input.rest());
  fuzz::accepted([] {
    const app::data::Images read = app::data::read_idx_images(fuzz::folder(), "x");
    fuzz::expect(std::ssize(read.pixels) == read.size() * read.image_bytes());
    app::data::DataConfig config;
    const auto dataset = app::data::make_image_dataset(
        read, read, {.mean = {0.5}, .deviation = {0.5}, .shift = 2}, config);
    app::data::Batch batch;
    const std::int64_t examples[] = {0, read.size() - 1};
    dataset->read(app::data::Split::kTrain, examples, 7, batch);
  });
  return 0;
}
