#pragma once

#include <filesystem>

#include "app/data/images.h"

namespace laconic::app::data {

// The images and labels of one split of an MNIST-like set: <prefix>-images-idx3-ubyte and
// <prefix>-labels-idx1-ubyte in `directory`, each with .gz (preferred) or plain. Throws
// Error(kFile) if one is missing and Error(kCorrupt) naming file, place and both values.
Images read_idx_images(const std::filesystem::path& directory, const std::string& prefix);

}  // namespace laconic::app::data
