#include "laconic/kernels/plain.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/plain.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "laconic/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

// What is updated keeps its value, which no compiler may know. By value, so that pointers stay in
// registers.
template <int kReads, int kUpdates, int kWrites>
HWY_INLINE void move_as(Traffic t, std::size_t count) {
  const Full d;
  volatile float nothing = 0;
  const auto none = hn::Set(d, nothing);
  auto seen = hn::Zero(d);  // keeps the compiler from dropping reads that nobody else needs
  for (std::size_t i = 0; i + 64 <= count; i += 64) {
    std::uint64_t word = i;
    const auto words = static_cast<std::size_t>(t.bits_per_element);
    if (t.bits_in != nullptr)
      for (std::size_t w = 0; w < words; ++w) {
        std::uint64_t more;
        std::memcpy(&more, t.bits_in + i / 8 * words + 8 * w, 8);
        word ^= more;
      }
    const auto base = hn::Set(d, static_cast<float>(word & 1));
    if constexpr (kReads + kUpdates + kWrites == 0) seen = hn::Or(seen, base);
    for (std::size_t k = i; kReads + kUpdates + kWrites > 0 && k < i + 64; k += kWidth) {
      auto total = base;
      for (int r = 0; r < kReads; ++r) total = hn::Or(total, hn::LoadU(d, t.reads[r] + k));
      const auto change = hn::And(total, none);
      for (int u = 0; u < kUpdates; ++u)
        hn::StoreU(hn::Or(change, hn::LoadU(d, t.updates[u] + k)), d, t.updates[u] + k);
      for (int w = 0; w < kWrites; ++w) hn::StoreU(change, d, t.writes[w] + k);
      if constexpr (kUpdates + kWrites == 0) seen = hn::Or(seen, total);
    }
    if (t.bits_out != nullptr)
      for (std::size_t w = 0; w < words; ++w)
        std::memcpy(t.bits_out + i / 8 * words + 8 * w, &word, 8);
  }
  volatile float sink = hn::GetLane(seen);
  static_cast<void>(sink);
}

template <int kReads, int kUpdates>
HWY_INLINE void move_writes(const Traffic& t, std::size_t count, int writes) {
  writes == 0   ? move_as<kReads, kUpdates, 0>(t, count)
  : writes == 1 ? move_as<kReads, kUpdates, 1>(t, count)
                : move_as<kReads, kUpdates, 2>(t, count);
}

template <int kReads>
HWY_INLINE void move_updates(const Traffic& t, std::size_t count, int updates, int writes) {
  switch (updates) {
    case 0: return move_writes<kReads, 0>(t, count, writes);
    case 1: return move_writes<kReads, 1>(t, count, writes);
    case 2: return move_writes<kReads, 2>(t, count, writes);
    default: return move_writes<kReads, 3>(t, count, writes);
  }
}

void Move(const Traffic& t, std::size_t count, int reads, int updates, int writes) {
  switch (reads) {
    case 0: return move_updates<0>(t, count, updates, writes);
    case 1: return move_updates<1>(t, count, updates, writes);
    case 2: return move_updates<2>(t, count, updates, writes);
    default: return move_updates<3>(t, count, updates, writes);
  }
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {

HWY_EXPORT(Move);

namespace {

template <class T, std::size_t n>
int used(T* const (&arrays)[n]) {
  int number = 0;
  while (number < static_cast<int>(n) && arrays[number] != nullptr) ++number;
  return number;
}

}  // namespace

double Traffic::bytes_per_element() const noexcept {
  const int floats = used(reads) + 2 * used(updates) + used(writes);
  return 4.0 * floats + 0.125 * bits_per_element * ((bits_in ? 1 : 0) + (bits_out ? 1 : 0));
}

void move(const Traffic& traffic, std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(Move)
  (traffic, count, used(traffic.reads), used(traffic.updates), used(traffic.writes));
}

}  // namespace laconic::kernels
#endif
