#pragma once

#include "laconic/checkpoint/checkpoint.h"

namespace laconic::inline checkpoint {

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr const char* kSharedName = "shared.safetensors";
std::string rank_file_name(int rank);

// The folders that saving moves through, beside each other.
struct Places {
  explicit Places(const std::filesystem::path& path);
  std::filesystem::path target, fresh, aside, parent;
};

// What the optimizer is, without files.
Manifest describe(const SavedState& optimizer);
// To manifest.folder.
void write_manifest(const Manifest& manifest);
// Error(kInvalidArgument) that names both values when `saved` does not fit the optimizer.
void check_same(const Manifest& saved, const SavedState& optimizer);

}  // namespace laconic::inline checkpoint
