#include "laconic/checkpoint/parts.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "laconic/core/error.h"

namespace laconic::inline checkpoint {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 18;  // floats read at a time
constexpr std::string_view kBucket = "bucket";

template <typename T>
std::optional<T> parse(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string prefix_of(int bucket) { return fmt::format("{}{}/", kBucket, bucket); }

const std::string& text_of(const SafetensorsFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end())
    fail(Code::kCorrupt, "{} has no `{}` in its metadata", file.path().string(), key);
  return found->second;
}

}  // namespace

int bucket_of(const std::string& name, int buckets) {
  const std::size_t slash = name.find('/');
  if (name.starts_with(kBucket) && slash != std::string::npos) {
    const auto digits = std::string_view(name).substr(kBucket.size(), slash - kBucket.size());
    const auto bucket = parse<int>(digits);
    if (bucket && *bucket >= 0 && *bucket < buckets && name.starts_with(prefix_of(*bucket)))
      return *bucket;
  }
  fail(Code::kInvalidArgument, "the state `{}` belongs to none of the {} buckets", name, buckets);
}

void put_place(Metadata& metadata, const State& state) {
  metadata["begin." + state.name] = std::to_string(state.begin);
  metadata["spread." + state.name] = state.spread == Spread::kMean ? "mean" : "owned";
}

Place place_of(const SafetensorsFile& file, const std::string& name) {
  const std::string &begin = text_of(file, "begin." + name),
                    &spread = text_of(file, "spread." + name);
  const auto number = parse<std::uint64_t>(begin);
  if (!number || (spread != "mean" && spread != "owned"))
    fail(Code::kCorrupt,
         "{}: `{}` begins at `{}` and is `{}`; a number, and mean or owned, are expected",
         file.path().string(), name, begin, spread);
  return {spread == "mean" ? Spread::kMean : Spread::kOwned, *number};
}

Parts::Parts(std::vector<SafetensorsFile> ranks, const SafetensorsFile& shared,
             const SavedState& optimizer)
    : ranks_(std::move(ranks)),
      shared_(shared),
      names_(static_cast<std::size_t>(optimizer.buckets())) {
  for (int b = 0; b < optimizer.buckets(); ++b) {
    begins_.push_back(optimizer.bucket(b).begin);
    lengths_.push_back(optimizer.bucket(b).count);
  }
  for (const auto& [name, entry] : ranks_.front().tensors())
    if (name != kWeights && entry.dtype == Dtype::kF32)
      names_[static_cast<std::size_t>(bucket_of(name, optimizer.buckets()))].push_back(name);
  for (std::size_t b = 0; b < names_.size(); ++b)
    for (const std::string& name : names_[b]) runs(name, lengths_[b]);
}

std::map<std::string, std::vector<float>> Parts::whole(int bucket) const {
  const auto b = static_cast<std::size_t>(bucket);
  std::map<std::string, std::vector<float>> all;
  for (const std::string& name : names_[b]) {
    std::vector<float>& values = all[name.substr(prefix_of(bucket).size())];
    values.resize(lengths_[b]);
    for (const Run& run : runs(name, lengths_[b]))
      fill(name, run, std::span(values).subspan(run.begin, run.end - run.begin));
  }
  const auto has_own = [](const SafetensorsFile& file) { return file.find(kWeights) != nullptr; };
  if (std::ranges::any_of(ranks_, has_own)) all[kWeights] = mean_weights(b);
  return all;
}

std::vector<float> Parts::mean_weights(std::size_t bucket) const {
  std::vector<float> mean(lengths_[bucket]), one(lengths_[bucket]);
  for (const SafetensorsFile& rank : ranks_) {
    (rank.find(kWeights) ? rank : shared_).read(kWeights, begins_[bucket], std::span(one));
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += one[i];
  }
  const auto scale = static_cast<float>(1.0 / static_cast<double>(ranks_.size()));
  for (float& value : mean) value *= scale;
  return mean;
}

std::vector<Parts::Run> Parts::runs(const std::string& name, std::uint64_t length) const {
  std::vector<Part> parts;
  std::vector<std::uint64_t> cuts = {0, length};
  const Spread spread = place_of(ranks_.front(), name).spread;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const auto* entry = ranks_[r].find(name);
    if (entry == nullptr || entry->dtype != Dtype::kF32)
      fail(Code::kCorrupt, "{} has no F32 tensor `{}`, {} has it", ranks_[r].path().string(), name,
           ranks_.front().path().string());
    const Place place = place_of(ranks_[r], name);
    if (place.spread != spread)
      fail(Code::kCorrupt, "{} and {} differ in whether `{}` is owned",
           ranks_.front().path().string(), ranks_[r].path().string(), name);
    if (entry->elements != 0 && (place.begin > length || entry->elements > length - place.begin))
      fail(Code::kCorrupt, "{}: `{}` has {} elements from {} on, its bucket has {}",
           ranks_[r].path().string(), name, entry->elements, place.begin, length);
    if (entry->elements == 0) continue;
    parts.push_back({r, place.begin, place.begin + entry->elements});
    cuts.insert(cuts.end(), {parts.back().begin, parts.back().end});
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());

  std::vector<Run> all;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    Run& run = all.emplace_back(Run{cuts[i], cuts[i + 1], {}});
    for (const Part& part : parts)
      if (part.begin <= run.begin && part.end >= run.end) run.holders.push_back(part);
    if (run.holders.empty() || (spread == Spread::kOwned && run.holders.size() != 1))
      fail(Code::kCorrupt, "{}: {} ranks hold elements {} to {} of `{}`, {} expected",
           ranks_.front().path().parent_path().string(), run.holders.size(), run.begin, run.end,
           name, spread == Spread::kOwned ? "one is" : "at least one is");
  }
  return all;
}

void Parts::fill(const std::string& name, const Run& run, std::span<float> out) const {
  std::vector<float> piece(run.holders.size() > 1 ? std::min(kPiece, out.size()) : 0);
  const auto scale = static_cast<float>(1.0 / static_cast<double>(run.holders.size()));
  for (std::size_t at = 0; at < out.size(); at += kPiece) {
    const std::span<float> sum = out.subspan(at, std::min(kPiece, out.size() - at));
    for (std::size_t h = 0; h < run.holders.size(); ++h) {
      const Part& part = run.holders[h];
      const std::span<float> values = h == 0 ? sum : std::span(piece).first(sum.size());
      ranks_[part.rank].read(name, run.begin + at - part.begin, values);
      if (h != 0)
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
    }
    for (float& value : sum) value *= scale;
  }
}

}  // namespace laconic::inline checkpoint
