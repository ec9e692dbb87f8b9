// Files of tensors: any bytes, or a header that is sealed as it should be.
#include "laconic/checkpoint/safetensors.h"

#include "laconic/checkpoint/seal.h"
#include "tests/fuzz/input.h"

using namespace laconic;

namespace {

std::string file_of(fuzz::Input& input) {
  if (input.byte() % 2 == 0) return input.rest();
  const std::string header = sealed(input.take(input.number()), "}}");
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + input.rest();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const auto path = fuzz::put("tensors", file_of(input));
  fuzz::accepted([&] {
    const SafetensorsFile file(path);
    for (const auto& [name, entry] : file.tensors()) {
      fuzz::expect(entry.elements <= size);
      std::vector<float> floats(entry.dtype == Dtype::kF32 ? entry.elements : 0);
      std::vector<double> doubles(entry.dtype == Dtype::kF64 ? entry.elements : 0);
      entry.dtype == Dtype::kF32 ? file.read(name, 0, std::span<float>(floats))
                                 : file.read(name, 0, std::span<double>(doubles));
      const auto beyond = [&file, &tensor = name, &about = entry] {
        float one = 0;
        file.read(tensor, about.elements, std::span(&one, 1));
      };
      fuzz::expect(!fuzz::accepted(beyond));
    }
    file.verify();
  });
  return 0;
}
