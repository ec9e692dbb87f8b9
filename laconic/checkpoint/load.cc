#include <algorithm>
#include <optional>

#include "laconic/checkpoint/checkpoint.h"
#include "laconic/checkpoint/manifest.h"
#include "laconic/checkpoint/parts.h"
#include "laconic/checkpoint/seal.h"
#include "laconic/core/error.h"
#include "laconic/transport/together.h"

namespace laconic::inline checkpoint {
namespace {

namespace fs = std::filesystem;

bool is_shared(const State& state) {
  return state.spread == Spread::kSame || state.spread == Spread::kScalar;
}
bool has_scalars(const State& state) {
  return state.spread == Spread::kScalar || state.spread == Spread::kRank;
}

SafetensorsFile open(const Manifest& manifest, std::size_t index) {
  const Manifest::File& wanted = manifest.files[index];
  SafetensorsFile file(manifest.folder / wanted.name);
  if (file.mark().bytes != wanted.mark.bytes || file.mark().seal != wanted.mark.seal)
    fail(Code::kCorrupt, "{} has {} bytes and the seal {}, the manifest has {} and {}",
         file.path().string(), file.mark().bytes, file.mark().seal, wanted.mark.bytes,
         wanted.mark.seal);
  return file;
}

// Every state has its tensor, every tensor its state. Error(kInvalidArgument) otherwise.
void check_tensors(const SafetensorsFile& file, const std::vector<State>& states, bool shared) {
  std::size_t known = 0;
  for (const char* name : {kWeights, kOwn}) known += file.find(name) != nullptr ? 1 : 0;
  for (const State& state : states) {
    if (is_shared(state) != shared) continue;
    const auto dtype = has_scalars(state) ? Dtype::kF64 : Dtype::kF32;
    const std::size_t count = has_scalars(state) ? state.scalars.size() : state.values.size();
    const auto* entry = file.find(state.name);
    if (entry == nullptr && state.optional) continue;
    ++known;
    if (entry == nullptr)
      fail(Code::kInvalidArgument, "{} has no `{}`, which this optimizer needs",
           file.path().string(), state.name);
    if (entry->dtype != dtype || entry->elements != count)
      fail(Code::kInvalidArgument, "{} has {} elements of `{}`, this optimizer has {}",
           file.path().string(), entry->elements, state.name, count);
    if (!shared && !has_scalars(state) &&
        place_of(file, state.name) != Place{state.spread, state.begin})
      fail(Code::kInvalidArgument, "{}: `{}` begins at {}, in this optimizer at {}",
           file.path().string(), state.name, place_of(file, state.name).begin, state.begin);
  }
  if (known != file.tensors().size())
    fail(Code::kInvalidArgument, "{} has {} tensors, this optimizer keeps {}", file.path().string(),
         file.tensors().size(), known);
}

void check_weights(const SafetensorsFile& file, std::size_t elements) {
  const auto* entry = file.find(kWeights);
  if (entry == nullptr || entry->dtype != Dtype::kF32 || entry->elements != elements)
    fail(Code::kCorrupt, "{} has {} weights, {} are expected", file.path().string(),
         entry == nullptr ? 0 : entry->elements, elements);
}

void check_own(const SafetensorsFile& file, std::size_t numbers) {
  const auto* entry = file.find(kOwn);
  const std::uint64_t found = entry == nullptr ? 0 : entry->elements;
  if (found != numbers || (entry != nullptr && entry->dtype != Dtype::kF64))
    fail(Code::kInvalidArgument, "{} has {} numbers of the caller's, {} are asked for",
         file.path().string(), found, numbers);
}

// One rank's view of a checkpoint that is being loaded.
class Loading {
 public:
  Loading(const Manifest& manifest, SavedState& optimizer, std::span<double> numbers)
      : manifest_(manifest),
        optimizer_(optimizer),
        numbers_(numbers),
        rank_(optimizer.transport().rank()),
        states_(optimizer.state()),
        shared_(open(manifest, 0)) {}

  // The state of the saved rank of this number lies as this rank's does. An error when it does not
  // and should.
  bool lies_alike() {
    const bool same_ranks = manifest_.ranks == optimizer_.transport().size();
    const auto here = to_text(optimizer_.config()).find("ranks_per_node")->second;
    const auto there = manifest_.config.find("ranks_per_node");
    if (!same_ranks || there == manifest_.config.end() || there->second != here) return false;
    own_ = open(manifest_, static_cast<std::size_t>(rank_) + 1);
    try {
      check_tensors(*own_, states_, false);
    } catch (const Error& error) {
      // Found by looking at the machines, which may have changed.
      const bool found = optimizer_.config().ranks_per_node == kAutoNodes;
      if (error.code() != Code::kInvalidArgument || !found) throw;
      return false;
    }
    return true;
  }

  void check(bool exact) {
    check_weights(shared_, manifest_.elements);
    check_tensors(shared_, states_, true);
    shared_.verify();
    if (exact) {
      if (own_->find(kWeights) != nullptr) check_weights(*own_, manifest_.elements);
      check_own(*own_, numbers_.size());
      own_->verify();
      return;
    }
    std::vector<SafetensorsFile> ranks;
    for (std::size_t r = 1; r < manifest_.files.size(); ++r) ranks.push_back(open(manifest_, r));
    for (const SafetensorsFile& file : ranks) {
      check_own(file, numbers_.size());
      if (file.find(kWeights) != nullptr) check_weights(file, manifest_.elements);
    }
    parts_.emplace(std::move(ranks), shared_, optimizer_);
    // All of it is read by every rank later; to know that it is whole, once is enough.
    const auto size = static_cast<std::size_t>(optimizer_.transport().size());
    for (auto r = static_cast<std::size_t>(rank_); r < parts_->ranks().size(); r += size)
      parts_->ranks()[r].verify();
  }

  void take(bool exact) {
    for (const State& state : states_) {
      if (!is_shared(state) && !exact) continue;
      const SafetensorsFile& file = is_shared(state) ? shared_ : *own_;
      if (file.find(state.name) == nullptr) {
        std::ranges::fill(state.scalars, 0.0);
        std::ranges::fill(state.values, 0.0F);
      } else if (has_scalars(state))
        file.read(state.name, 0, state.scalars);
      else
        file.read(state.name, 0, state.values);
    }
    const bool own_weights = exact && own_->find(kWeights) != nullptr;
    (own_weights ? *own_ : shared_).read(kWeights, 0, optimizer_.weights());
    if (exact) {
      if (!numbers_.empty()) own_->read(kOwn, 0, numbers_);
      return;
    }
    take_mean();
    for (int b = 0; b < optimizer_.buckets(); ++b) optimizer_.redistribute(b, parts_->whole(b));
  }

 private:
  void take_mean() {
    if (numbers_.empty()) return;
    std::vector<double> one(numbers_.size());
    std::ranges::fill(numbers_, 0.0);
    for (const SafetensorsFile& file : parts_->ranks()) {
      file.read(kOwn, 0, one);
      for (std::size_t i = 0; i < one.size(); ++i) numbers_[i] += one[i];
    }
    for (double& number : numbers_) number /= static_cast<double>(parts_->ranks().size());
  }

  const Manifest& manifest_;
  SavedState& optimizer_;
  std::span<double> numbers_;
  int rank_;
  std::vector<State> states_;
  SafetensorsFile shared_;
  std::optional<SafetensorsFile> own_;
  std::optional<Parts> parts_;
};

void check_all_read_the_same(const std::vector<std::uint64_t>& seals, const fs::path& path) {
  for (std::size_t r = 1; r < seals.size(); ++r)
    if (seals[r] != seals[0])
      fail(Code::kInvalidArgument,
           "rank {} finds another checkpoint at {} (seal {}) than rank 0 ({}): use a folder that "
           "all "
           "ranks share",
           r, path.string(), hex(seals[r]), hex(seals[0]));
}

}  // namespace

Resume load_checkpoint(const fs::path& path, SavedState& optimizer, std::span<double> own) {
  Transport& world = optimizer.transport();
  Manifest manifest;
  check_all_read_the_same(together(world,
                                   [&] {
                                     manifest = read_manifest(path);
                                     check_same(manifest, optimizer);
                                     return parse_hex(manifest.seal);
                                   }),
                          path);
  std::optional<Loading> loading;
  const auto alike = together(world, [&] {
    loading.emplace(manifest, optimizer, own);
    return std::uint64_t{loading->lies_alike()};
  });
  const bool exact = std::find(alike.begin(), alike.end(), 0U) == alike.end();
  together(world, [&] {
    loading->check(exact);
    return std::uint64_t{0};
  });
  together(world, [&] {
    loading->take(exact);
    return std::uint64_t{0};
  });
  optimizer.restored();
  return exact ? Resume::kExact : Resume::kRedistributed;
}

}  // namespace laconic::inline checkpoint
