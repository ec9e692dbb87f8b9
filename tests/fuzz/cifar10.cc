// CIFAR-10's binary files, the first of them hostile.
#include "app/data/cifar10.h"

#include "tests/fuzz/input.h"

using namespace laconic;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool others = [] {
    const std::string record(3073, '\1');
    for (const char* name : {"2", "3", "4", "5"})
      fuzz::put(std::string("data_batch_") + name + ".bin", record);
    fuzz::put("test_batch.bin", record);
    return true;
  }();
  fuzz::expect(others);
  fuzz::Input input(data, size);
  fuzz::put("data_batch_1.bin", input.rest());
  fuzz::accepted([] {
    const auto [train, validation] = app::data::read_cifar10(fuzz::folder());
    fuzz::expect(std::ssize(train.pixels) == train.size() * train.image_bytes());
  });
  return 0;
}
