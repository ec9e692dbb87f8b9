#include "laconic/transport/mpi.h"

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

#include "laconic/core/buffer.h"
#include "laconic/core/error.h"
#include "laconic/transport/engine.h"
#include "laconic/transport/mpi_communicator.h"
#include "laconic/transport/mpi_messages.h"

namespace laconic::inline transport {
namespace {

using mpi::check;
using mpi::Piece;
using mpi::Requests;
using mpi::Slot;

// Groups may be used by threads of their own, and MPI_THREAD_SERIALIZED allows one call at a time.
// Nobody waits for another rank while holding it, but where all ranks are known to be there.
std::mutex& one_call() {
  static std::mutex mutex;
  return mutex;
}
using Call = std::lock_guard<std::mutex>;

// While it lives, errors that belong to no communicator are returned: there MPI may report a failed
// request, and would end the program otherwise. MPI-3 asks MPI_COMM_WORLD, MPI-4 MPI_COMM_SELF, and
// they are the caller's, so it lives for one wait only; Open MPI asks the request's communicator,
// which is ours.
#ifdef OPEN_MPI
struct ErrorsReturn {
  ErrorsReturn() noexcept {}
};
#else
class ErrorsReturn {
 public:
  ErrorsReturn() noexcept {
    const Call call(one_call());
    if (living_++ > 0) return;
    for (std::size_t i = 0; i < comms_.size(); ++i) {
      MPI_Comm_get_errhandler(comms_[i], &before_[i]);
      MPI_Comm_set_errhandler(comms_[i], MPI_ERRORS_RETURN);
    }
  }
  ~ErrorsReturn() {
    const Call call(one_call());
    if (--living_ > 0) return;
    for (std::size_t i = 0; i < comms_.size(); ++i) {
      MPI_Comm_set_errhandler(comms_[i], before_[i]);
      MPI_Errhandler_free(&before_[i]);
    }
  }
  ErrorsReturn(const ErrorsReturn&) = delete;
  ErrorsReturn& operator=(const ErrorsReturn&) = delete;

 private:
  const std::array<MPI_Comm, 2> comms_{MPI_COMM_WORLD, MPI_COMM_SELF};
  static inline int living_ = 0;
  static inline std::array<MPI_Errhandler, 2> before_{};
};
#endif

class Mpi final : public Transport {
 public:
  // Takes `comm` over.
  Mpi(MPI_Comm comm, const MpiConfig& config, std::optional<Names> names = {})
      : comm_(comm), config_(config) {
    const Call call(one_call());
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    names_ = names ? *std::move(names) : Names(size_);
    first_.resize(static_cast<std::size_t>(size_));
  }

  ~Mpi() override {
    int finalized = 0;
    const Call call(one_call());
    if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized) return;
    if (!error_ && flight_.posted == flight_.retired)
      MPI_Comm_free(&comm_);
    else
      abandon();
  }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  std::uint64_t host() const noexcept override { return host_; }
  std::chrono::milliseconds timeout() const noexcept override { return config_.timeout; }

  void post(const Exchange& exchange, std::span<const std::byte> in) override {
    flight_.check_post(kSlots);
    const std::size_t block = block_bytes(exchange, in.size(), size_);
    guarded([&] {
      const std::size_t stride = (block + 63) / 64 * 64;
      Slot& slot = free_slot(exchange.into ? 0 : stride * peers_from(exchange));
      slot.exchange = exchange;
      slot.number = flight_.posted;
      slot.in = in.data();
      slot.block = block;
      slot.stride = stride;
      const Call call(one_call());
      start(slot);
      slot.busy = true;
      in_flight_[static_cast<std::size_t>(flight_.posted % kSlots)] = &slot;
      ++flight_.posted;
    });
  }

  Blocks arrive() override {
    flight_.check_arrive();
    Slot& slot = *in_flight_[static_cast<std::size_t>(flight_.arrived % kSlots)];
    guarded([&] { finish(slot, slot.receives, "send"); });
    ++flight_.arrived;
    for (int r = 0; r < size_; ++r) {
      const int from = slot.exchange.kind == Kind::kBroadcast ? slot.exchange.root : r;
      first_[static_cast<std::size_t>(r)] =
          from == rank_ ? slot.in + offset_to(slot, rank_) : place_of(slot, from);
    }
    return {first_.data(), slot.block};
  }

  void retire() override {
    flight_.check_retire();
    Slot& slot = *in_flight_[static_cast<std::size_t>(flight_.retired % kSlots)];
    guarded([&] { finish(slot, slot.sends, "take"); });
    slot.busy = false;
    ++flight_.retired;
  }

  std::unique_ptr<Transport> split(int color) override {
    flight_.check_split(color);
    const std::vector<int> colors = gather(color);
    std::vector<int> members;
    for (int r = 0; r < size_; ++r)
      if (colors[static_cast<std::size_t>(r)] == color) members.push_back(r);
    MPI_Comm made = MPI_COMM_NULL;
    when_all_are_here([&] { made = mpi::split(comm_, color, rank_); });
    auto part = std::make_unique<Mpi>(made, config_, names_.part(members));
    part->host_ = host_;
    return part;
  }

  // Collective, before anything else: exchanges are counted from here.
  void find_host() {
    when_all_are_here([&] { host_ = mpi::find_host(comm_); });
    flight_ = {};
  }

 private:
  // A failure makes the group unusable: later calls throw it again.
  template <typename Work>
  void guarded(Work work) {
    if (error_) throw Error(*error_);
    try {
      work();
    } catch (const Error& error) {
      error_.emplace(error);
      throw;
    }
  }

  // For work that waits in MPI for every rank, without a deadline: a roll call, which has one and
  // names who is missing, comes right before. Only a rank that ends in between can still be missed.
  template <typename Work>
  void when_all_are_here(Work work) {
    gather(rank_);
    const Call call(one_call());
    guarded(work);
  }

  std::size_t peers_from(const Exchange& exchange) const {
    if (exchange.kind == Kind::kBroadcast) return exchange.root == rank_ ? 0 : 1;
    return static_cast<std::size_t>(size_ - 1);
  }

  static std::size_t offset_to(const Slot& slot, int peer) {
    return slot.exchange.kind == Kind::kAllToAll ? slot.block * static_cast<std::size_t>(peer) : 0;
  }

  std::byte* place_of(const Slot& slot, int peer) const {
    if (slot.exchange.into) return slot.exchange.into + slot.block * static_cast<std::size_t>(peer);
    const int at = slot.exchange.kind == Kind::kBroadcast ? 0 : (peer - rank_ - 1 + size_) % size_;
    return slot.received.data() + static_cast<std::size_t>(at) * slot.stride;
  }

  // The free slot that fits best, or the largest free one after it has grown: few slots are ever
  // used, and grow only at first.
  Slot& free_slot(std::size_t bytes) {
    Slot* best = nullptr;
    for (Slot& slot : std::span(slots_).first(used_)) {
      if (slot.busy) continue;
      const std::size_t room = slot.received.size();
      if (best == nullptr) best = &slot;
      const std::size_t best_room = best->received.size();
      if (room >= bytes ? best_room < bytes || room < best_room
                        : room > best_room && best_room < bytes)
        best = &slot;
    }
    if (best == nullptr) best = &slots_[used_++];
    if (best->received.size() < bytes) best->received = Buffer<std::byte>(bytes);
    return *best;
  }

  // In the order rank + 1, rank + 2, …: no peer is everybody's first.
  void start(Slot& slot) {
    slot.receives.clear();
    slot.sends.clear();
    const bool broadcast = slot.exchange.kind == Kind::kBroadcast;
    for (int i = 1; i < size_; ++i) {
      const int peer = (rank_ - i + size_) % size_;
      if (!broadcast || peer == slot.exchange.root) start_receive(slot, peer);
    }
    if (broadcast && slot.exchange.root != rank_) return;
    for (int i = 1; i < size_; ++i) start_send(slot, (rank_ + i) % size_);
  }

  void start_receive(Slot& slot, int peer) {
    std::byte* to = place_of(slot, peer);
    cut(slot, slot.receives, peer,
        [&](std::size_t offset, const Piece& piece, MPI_Request* request) {
          check(MPI_Irecv(to + offset, piece.bytes, MPI_BYTE, peer, MPI_ANY_TAG, comm_, request),
                "MPI_Irecv");
        });
  }

  void start_send(Slot& slot, int peer) {
    const std::byte* from = slot.in + offset_to(slot, peer);
    cut(slot, slot.sends, peer, [&](std::size_t offset, const Piece& piece, MPI_Request* request) {
      check(MPI_Isend(from + offset, piece.bytes, MPI_BYTE, peer, piece.tag, comm_, request),
            "MPI_Isend");
    });
  }

  // An empty block is one empty piece.
  template <typename Start>
  void cut(const Slot& slot, Requests& requests, int peer, Start start) {
    std::size_t offset = 0;
    do {
      const std::size_t bytes = std::min(slot.block - offset, config_.largest_message);
      const bool last = offset + bytes == slot.block;
      requests.add({peer, static_cast<int>(bytes), mpi::tag_of(slot.exchange, slot.number, last)});
      start(offset, requests.pieces.back(), &requests.handles.back());
      offset += bytes;
    } while (offset < slot.block);
  }

  void finish(const Slot& slot, Requests& requests, const char* verb) {
    const ErrorsReturn errors_return;
    std::size_t done = 0;
    const auto all_done = [&] {
      done += complete_some(slot, requests, &requests == &slot.receives);
      return done == requests.handles.size();
    };
    if (!poll(all_done, done, config_.timeout))
      fail(Code::kTimeout,
           "{} did not {} exchange {} within {} ms: see whether it lives and makes the same calls",
           names_.list(requests.pending_peers()), verb, slot.number, config_.timeout.count());
  }

  std::size_t complete_some(const Slot& slot, Requests& requests, bool received) {
    const std::size_t size = requests.handles.size();
    if (size == 0) return 0;
    if (statuses_.size() < size) statuses_.resize(size);
    if (indices_.size() < size) indices_.resize(size);
    int count = 0;
    const Call call(one_call());
    const int code = MPI_Testsome(static_cast<int>(size), requests.handles.data(), &count,
                                  indices_.data(), statuses_.data());
    if (code != MPI_ERR_IN_STATUS) check(code, "MPI_Testsome");
    if (count == MPI_UNDEFINED) return 0;
    const auto completed = static_cast<std::size_t>(count);
    for (std::size_t i = 0; i < completed; ++i) {
      const Piece& piece = requests.pieces[static_cast<std::size_t>(indices_[i])];
      const int result = code == MPI_SUCCESS ? MPI_SUCCESS : statuses_[i].MPI_ERROR;
      if (received)
        verify(slot, piece, statuses_[i], result);
      else
        check(result, "MPI_Isend");
    }
    return completed;
  }

  void verify(const Slot& slot, const Piece& piece, const MPI_Status& status, int result) const {
    int error_class = MPI_SUCCESS, bytes = 0;
    MPI_Error_class(result, &error_class);
    const bool truncated = error_class == MPI_ERR_TRUNCATE;
    if (!truncated) check(result, "MPI_Irecv");
    check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    if (!truncated && bytes == piece.bytes && status.MPI_TAG == piece.tag) return;
    // Not every MPI reports how long a truncated message was.
    const bool unknown = truncated && bytes <= piece.bytes;
    fail(Code::kInvalidArgument,
         "exchange {} differs: {} sends {}{}, {} expects {}: make the same calls on every rank",
         slot.number, names_[piece.peer], unknown ? "more than " : "",
         describe_piece(unknown ? piece.bytes : bytes, status.MPI_TAG), names_[rank_],
         describe_piece(piece.bytes, piece.tag));
  }

  static std::string describe_piece(int bytes, int tag) {
    return fmt::format("{} bytes{} ({})", bytes, mpi::is_last(tag) ? "" : " and further ones",
                       name(mpi::kind_of(tag)));
  }

  // Peers may be dead, so nothing here waits. A receive may still be written to, so its memory is
  // never freed, and neither is the communicator. The newest goes first, or it would catch what was
  // sent for an older one.
  void abandon() noexcept {
    std::sort(slots_.begin(), slots_.end(),
              [](const Slot& a, const Slot& b) { return a.number > b.number; });
    for (Slot& slot : slots_) {
      bool pending = false;
      for (auto request = slot.receives.handles.rbegin(); request != slot.receives.handles.rend();
           ++request) {
        if (*request == MPI_REQUEST_NULL) continue;
        MPI_Cancel(&*request);
        MPI_Request_free(&*request);
        pending = true;
      }
      if (pending) new (std::nothrow) Buffer<std::byte>(std::move(slot.received));
      for (MPI_Request& request : slot.sends.handles)
        if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
    }
  }

  MPI_Comm comm_;
  const MpiConfig config_;
  std::uint64_t host_ = 0;
  int rank_ = 0, size_ = 0;
  Names names_{0};
  Flight flight_;
  std::optional<Error> error_;
  std::array<Slot, kSlots> slots_;
  std::size_t used_ = 0;  // the first of them; all that are busy are among these
  std::array<Slot*, kSlots> in_flight_{};
  std::vector<const std::byte*> first_;
  std::vector<MPI_Status> statuses_;
  std::vector<int> indices_;
};

}  // namespace

std::unique_ptr<Transport> make_mpi(MPI_Comm comm, const MpiConfig& config) {
  check_timeout(config.timeout);
  if (config.largest_message < 1 || config.largest_message > std::numeric_limits<int>::max())
    fail(Code::kInvalidArgument, "largest_message is {} bytes, it must be from 1 to {}",
         config.largest_message, std::numeric_limits<int>::max());
  mpi::check_environment();
  auto world = std::make_unique<Mpi>(mpi::duplicate(comm, config.timeout), config);
  world->find_host();
  return world;
}

}  // namespace laconic::inline transport
