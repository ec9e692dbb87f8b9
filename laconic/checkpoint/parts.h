#pragma once

#include <map>
#include <string>
#include <vector>

#include "laconic/checkpoint/safetensors.h"
#include "laconic/optim/optimizer.h"

// The parts of the state that each rank has for itself, as they lie in the files of the ranks.
namespace laconic::inline checkpoint {

inline constexpr const char* kWeights = "weights";
inline constexpr const char* kOwn = "own";  // the caller's, in the files of the ranks

// The bucket that a name like "bucket3/m" belongs to. Error(kInvalidArgument) for other names and
// buckets that do not exist.
int bucket_of(const std::string& name, int buckets);

// Where a part lies in its bucket, and what it is to the others (kMean or kOwned).
struct Place {
  Spread spread = Spread::kMean;
  std::uint64_t begin = 0;
  bool operator==(const Place&) const = default;
};
void put_place(Metadata& metadata, const State& state);
// Error(kCorrupt) where the file does not name one.
Place place_of(const SafetensorsFile& file, const std::string& name);

// What all ranks of a checkpoint held, put together bucket by bucket. Error(kCorrupt) when the
// parts do not cover a bucket, or overlap where each is owned by one rank.
class Parts {
 public:
  // `shared` lives as long, and has the weights of ranks that had none of their own.
  Parts(std::vector<SafetensorsFile> ranks, const SafetensorsFile& shared,
        const SavedState& optimizer);

  const std::vector<SafetensorsFile>& ranks() const noexcept { return ranks_; }
  // By name without "bucket<i>/": means over the ranks that hold an element, summed in the order of
  // ranks; and what is owned. kWeights where a rank had weights of its own: the mean of all ranks'.
  std::map<std::string, std::vector<float>> whole(int bucket) const;

 private:
  struct Part {
    std::size_t rank;
    std::uint64_t begin, end;
  };
  // Elements that the same ranks hold.
  struct Run {
    std::uint64_t begin, end;
    std::vector<Part> holders;
  };

  std::vector<Run> runs(const std::string& name, std::uint64_t length) const;
  std::vector<float> mean_weights(std::size_t bucket) const;
  void fill(const std::string& name, const Run& run, std::span<float> out) const;

  std::vector<SafetensorsFile> ranks_;
  const SafetensorsFile& shared_;
  std::vector<std::vector<std::string>> names_;  // of each bucket
  std::vector<std::uint64_t> begins_, lengths_;
};

}  // namespace laconic::inline checkpoint
