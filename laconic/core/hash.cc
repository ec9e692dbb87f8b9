#include "laconic/core/hash.h"

#include <xxhash.h>

#include <new>

namespace laconic::inline core {

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Hash64::Hash64(std::uint64_t seed) : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_64bits_reset_withSeed(static_cast<XXH3_state_t*>(state_.get()), seed);
}

void Hash64::add(std::span<const std::byte> bytes) noexcept {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state_.get()), bytes.data(), bytes.size());
}

std::uint64_t Hash64::value() const noexcept {
  return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state_.get()));
}

void Hash64::Free::operator()(void* state) const noexcept {
  XXH3_freeState(static_cast<XXH3_state_t*>(state));
}

}  // namespace laconic::inline core
