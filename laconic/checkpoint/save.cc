#include <algorithm>

#include "laconic/checkpoint/checkpoint.h"
#include "laconic/checkpoint/file.h"
#include "laconic/checkpoint/manifest.h"
#include "laconic/checkpoint/parts.h"
#include "laconic/transport/together.h"

namespace laconic::inline checkpoint {
namespace {

namespace fs = std::filesystem;

void prepare(const Places& places) {
  if (fs::exists(places.target) && !fs::exists(places.target / kManifestName) &&
      !(fs::is_directory(places.target) && fs::is_empty(places.target)))
    fail(Code::kInvalidArgument,
         "{} exists and is not a checkpoint: choose another path, or remove it first",
         places.target.string());
  make_directories(places.parent);
  fs::remove_all(places.fresh);
  fs::create_directory(places.fresh);
}

void write_files(const fs::path& folder, SavedState& optimizer, std::span<const double> numbers) {
  const Model& model = optimizer.model();
  const int rank = optimizer.transport().rank();
  std::vector<float> synced(model.weights.size());
  optimizer.synced_weights(synced);

  std::vector<Tensor> shared = {{kWeights, std::span<const float>(synced)}}, own;
  Metadata places;
  const std::span<const float> weights = optimizer.weights();
  if (!std::ranges::equal(std::as_bytes(std::span(synced)), std::as_bytes(weights)))
    own.emplace_back(kWeights, weights);
  if (!numbers.empty()) own.emplace_back(kOwn, numbers);
  for (const State& state : optimizer.state()) {
    switch (state.spread) {
      case Spread::kSame:
        shared.emplace_back(state.name, std::span<const float>(state.values));
        break;
      case Spread::kScalar:
        shared.emplace_back(state.name, std::span<const double>(state.scalars));
        break;
      case Spread::kRank:
        own.emplace_back(state.name, std::span<const double>(state.scalars));
        break;
      case Spread::kMean:
      case Spread::kOwned:
        bucket_of(state.name, optimizer.buckets());
        own.emplace_back(state.name, std::span<const float>(state.values));
        put_place(places, state);
    }
  }
  write_safetensors(folder / rank_file_name(rank), own, places);
  if (rank == 0) write_safetensors(folder / kSharedName, shared, {});
}

// The marks are read back, so that a folder that the ranks do not share is found now.
void finish_manifest(const Places& places, const SavedState& optimizer,
                     const std::map<std::string, std::string>& extra) {
  Manifest manifest = describe(optimizer);
  manifest.extra = extra;
  manifest.folder = places.fresh;
  manifest.files.push_back({kSharedName, {}});
  for (int r = 0; r < manifest.ranks; ++r) manifest.files.push_back({rank_file_name(r), {}});
  for (auto& file : manifest.files) file.mark = SafetensorsFile(places.fresh / file.name).mark();
  write_manifest(manifest);
}

// An empty folder at the target is replaced by the rename: what lies aside may be the only
// checkpoint then.
void put_in_place(const Places& places) {
  const bool replaces = fs::exists(places.target / kManifestName);
  if (replaces) {
    fs::remove_all(places.aside);
    rename_path(places.target, places.aside);
  }
  try {
    rename_path(places.fresh, places.target);
  } catch (...) {
    if (replaces) rename_path(places.aside, places.target);
    throw;
  }
  sync_directory(places.parent);
  std::error_code ignored;  // the new one is safe; the old one only takes room
  fs::remove_all(places.aside, ignored);
}

}  // namespace

void save_checkpoint(const fs::path& path, SavedState& optimizer,
                     const std::map<std::string, std::string>& extra, std::span<const double> own) {
  const Places places(path);
  Transport& world = optimizer.transport();
  const bool first = world.rank() == 0;
  together(world, [&] {
    if (first) prepare(places);
    return std::uint64_t{0};
  });
  try {
    together(world, [&] {
      write_files(places.fresh, optimizer, own);
      return std::uint64_t{0};
    });
    together(world, [&] {
      if (first) {
        finish_manifest(places, optimizer, extra);
        put_in_place(places);
      }
      return std::uint64_t{0};
    });
  } catch (...) {
    std::error_code ignored;
    if (first) fs::remove_all(places.fresh, ignored);
    throw;
  }
}

}  // namespace laconic::inline checkpoint
