#pragma once

#include <laconic/core/error.h>
#include <laconic/core/hash.h>
#include <laconic/transport/transport.h>

#include <span>
#include <vector>

// Every rank says the hash of its number; all must hear the same.
inline void gather_hashes(laconic::Transport& transport) {
  const auto hash_of = [](int rank) { return laconic::hash64(std::as_bytes(std::span(&rank, 1))); };
  const std::vector<std::uint64_t> all = transport.gather(hash_of(transport.rank()));
  for (int r = 0; r < transport.size(); ++r)
    if (all[static_cast<std::size_t>(r)] != hash_of(r))
      laconic::fail(laconic::Code::kCorrupt, "rank {} sent something else", r);
}
