#pragma once

#include <mpi.h>

#include <algorithm>
#include <vector>

#include "laconic/core/buffer.h"
#include "laconic/transport/transport.h"

// The messages of one exchange as MPI sees them: pieces, their tags and their requests.
namespace laconic::inline transport::mpi {

// What the tag of each piece of a message holds of its exchange, within the 15 bits that every MPI grants a
// tag: so ranks that make different calls are noticed, not mixed up.
inline int tag_of(const Exchange& exchange, std::uint64_t number, bool last) {
  const int root = exchange.kind == Kind::kBroadcast ? exchange.root : 0;
  return static_cast<int>(exchange.kind) | int{last} << 2 | (root & 15) << 3 |
         static_cast<int>(number & 255) << 7;
}

inline Kind kind_of(int tag) { return static_cast<Kind>(tag & 3); }
inline bool is_last(int tag) { return (tag >> 2 & 1) != 0; }

// One message or a piece of it.
struct Piece {
  int peer;
  int bytes;
  int tag;
};

// Requests to or from peers; done ones are MPI_REQUEST_NULL.
struct Requests {
  std::vector<MPI_Request> handles;
  std::vector<Piece> pieces;

  void clear() {
    handles.clear();
    pieces.clear();
  }

  void add(const Piece& piece) {
    pieces.push_back(piece);
    handles.push_back(MPI_REQUEST_NULL);
  }

  std::vector<int> pending_peers() const {
    std::vector<int> peers;
    for (std::size_t i = 0; i < handles.size(); ++i)
      if (handles[i] != MPI_REQUEST_NULL && (peers.empty() || peers.back() != pieces[i].peer))
        peers.push_back(pieces[i].peer);
    std::sort(peers.begin(), peers.end());
    return peers;
  }
};

struct Slot {
  Exchange exchange;
  std::uint64_t number = 0;
  const std::byte* in = nullptr;
  std::size_t block = 0, stride = 0;
  Buffer<std::byte> received;  // the peers' blocks, from rank + 1 on
  Requests receives, sends;
  bool busy = false;
};

}  // namespace laconic::inline transport::mpi
