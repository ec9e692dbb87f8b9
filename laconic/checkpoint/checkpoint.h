#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "laconic/checkpoint/safetensors.h"
#include "laconic/optim/optimizer.h"

// A checkpoint is a folder that all ranks see: shared.safetensors (what is equal on all ranks, and
// the weights of the last sync), rank00000.safetensors, … (what each rank has for itself, its
// weights where they differ from those), and manifest.json, which is written last.
namespace laconic::inline checkpoint {

struct Manifest {
  static constexpr int kFormat = 1;

  struct File {
    std::string name;
    FileMark mark;
  };

  std::string algorithm;
  std::map<std::string, std::string> config;  // as to_text gives it; has the seed too
  std::int64_t step = 0;
  int ranks = 0;
  std::uint64_t elements = 0;
  std::vector<Group> groups;
  std::vector<File> files;                   // the shared one, then rank by rank
  std::map<std::string, std::string> extra;  // the caller's
  std::string seal;                          // stands for every bit of the checkpoint
  std::filesystem::path folder;              // where it was found
};

// Collective. The checkpoint that was at `path` stays whole until the new one is; after an error it
// is still there, or the new one if all that failed was to make its name last. Error(kFile) with
// the path and the system's reason, Error(kInvalidArgument) when at `path` there is something else
// or `extra` is not UTF-8: the same on all ranks. Needs 4 bytes per parameter for a while. `own`:
// numbers that this rank wants back (e.g. a model's running statistics), equally many on all ranks.
void save_checkpoint(const std::filesystem::path& path, SavedState& optimizer,
                     const std::map<std::string, std::string>& extra = {},
                     std::span<const double> own = {});

// Whether there is one that read_manifest would look at, whole or damaged.
bool has_checkpoint(const std::filesystem::path& path);

// What a checkpoint is of, without its tensors. Where saving was interrupted between two renames,
// the checkpoint before is found. Error(kFile) when there is none, Error(kCorrupt),
// Error(kUnavailable) when a newer laconic wrote it.
Manifest read_manifest(const std::filesystem::path& path);

enum class Resume : std::uint8_t {
  kExact,          // goes on as if it had never stopped, bit for bit
  kRedistributed,  // other ranks: each part of the state was found its place (redistribute)
};

// Collective. Everything is checked, on all ranks, before anything is written to the optimizer's
// state and the model's weights; so after an error they are as they were (unless a file that was
// whole cannot be read a moment later). Besides what read_manifest throws: Error(kInvalidArgument)
// naming both values when the checkpoint is of another model or of a configuration that computes
// something else. total_steps, threads, shadow_every and verify_every may differ, and
// ranks_per_node as the number of ranks may. `own` comes back as this rank saved it; with other
// ranks as the mean of what all had saved.
Resume load_checkpoint(const std::filesystem::path& path, SavedState& optimizer,
                       std::span<double> own = {});

}  // namespace laconic::inline checkpoint
