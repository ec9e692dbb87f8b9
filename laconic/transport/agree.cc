#include "laconic/transport/agree.h"

#include <algorithm>

#include "laconic/core/error.h"
#include "laconic/core/hash.h"

namespace laconic::inline transport {
namespace {

// The text of every rank, in rank order.
std::vector<std::string> gather_text(Transport& world, std::string text) {
  const std::vector<std::size_t> lengths = world.gather(text.size());
  const std::size_t longest = *std::max_element(lengths.begin(), lengths.end());
  text.resize(longest);
  std::vector<char> all;
  world.gather(std::span<const char>(text), all);
  std::vector<std::string> each;
  for (std::size_t r = 0; r < lengths.size(); ++r)
    each.emplace_back(all.data() + r * longest, lengths[r]);
  return each;
}

std::string_view line_at(std::string_view text, std::size_t begin) {
  return begin >= text.size() ? "nothing more" : text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

void agree(Transport& world, std::span<const std::string> mine, std::string_view remedy) {
  std::string text;
  for (const std::string& line : mine) text += line + '\n';
  const std::vector<std::uint64_t> hashes = world.gather(hash64(std::as_bytes(std::span(text))));
  const auto other = std::ranges::find_if(hashes, [&](auto hash) { return hash != hashes[0]; });
  if (other == hashes.end()) return;
  const auto rank = static_cast<std::size_t>(other - hashes.begin());
  const std::vector<std::string> all = gather_text(world, text);
  const std::string &theirs = all[rank], &first = all[0];
  const auto same = std::ranges::mismatch(theirs, first).in1 - theirs.begin();
  const std::size_t begin = theirs.substr(0, static_cast<std::size_t>(same)).rfind('\n') + 1;
  fail(Code::kInvalidArgument, "rank {} has {}, rank 0 has {}: {}", rank, line_at(theirs, begin),
       line_at(first, begin), remedy);
}

}  // namespace laconic::inline transport
