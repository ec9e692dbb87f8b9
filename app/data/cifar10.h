#pragma once

#include <filesystem>
#include <utility>

#include "app/data/images.h"

namespace laconic::app::data {

// Training and validation images of CIFAR-10's binary version: data_batch_1.bin to data_batch_5.bin
// and test_batch.bin in `directory` or in cifar-10-batches-bin inside it. Throws Error(kFile) if
// one is missing and Error(kCorrupt) naming file, place and both values.
std::pair<Images, Images> read_cifar10(const std::filesystem::path& directory);

}  // namespace laconic::app::data
