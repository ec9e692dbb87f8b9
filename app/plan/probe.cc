#include "app/plan/probe.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "app/sweeps.h"
#include "app/timing.h"
#include "laconic/kernels/dense.h"
#include "laconic/kernels/plain.h"
#include "laconic/kernels/random_sign.h"
#include "laconic/kernels/sign.h"
#include "laconic/optim/method.h"

namespace laconic::app::plan {
namespace {

namespace k = kernels;

constexpr std::size_t kElements = std::size_t{8} << 20, kTile = 4096;

// The quickest of three, after one that is not counted: others may be using the machine.
double seconds_per_element(const std::function<void()>& work) {
  work();
  std::vector<double> times;
  for (int i = 0; i < 3; ++i) times.push_back(seconds_of(work));
  return Sample(times).least / static_cast<double>(kElements);
}

double per_tile(const std::function<void(std::size_t at)>& work) {
  return seconds_per_element([&] {
    for (std::size_t at = 0; at < kElements; at += kTile) work(at);
  });
}

double serve(const Arrays& a, int messages) {
  static float q[kTile];
  return per_tile([&](std::size_t at) {
    std::array<k::Coded, 16> from;
    from.fill({0.5F, a.bits.data() + at / 8});
    k::Lanes lanes;
    k::serve(from.data(), messages, 1.0F, a.e.data() + at, nullptr, kTile, k::Norm::kL2, q, lanes);
  });
}

double count(const Arrays& a, int messages) {
  static std::uint8_t planes[kTile / 64 * 8 * 8];
  static std::uint16_t voters[kTile / 64];
  const std::uint8_t active[8] = {255, 255, 255, 255, 255, 255, 255, 255};
  return per_tile([&](std::size_t at) {
    std::array<const std::uint8_t*, 16> bits, actives;
    bits.fill(a.bits.data() + at / 8);
    actives.fill(active);
    k::count_signs(bits.data(), actives.data(), messages, kTile / 64, planes, voters);
  });
}

double redraw(const Arrays& a) {
  static std::uint8_t planes[kTile / 64 * 8 * 3];
  static std::uint16_t voters[kTile / 64];
  std::fill(std::begin(voters), std::end(voters), std::uint16_t{4});
  return per_tile([&](std::size_t at) {
    k::redraw({.key = {1, 2}}, at, planes, voters, 3, kTile, a.bits.data() + at / 8);
  });
}

void measure_coders(Arrays& a, laconic::plan::Speeds& s) {
  static float tile[kTile];
  static std::uint16_t half[kTile];
  constexpr int kMessages = 9;
  float *g = a.g.data(), *m = a.m.data(), *x = a.x.data(), *e = a.e.data();
  s.copy = seconds_per_element([&] { k::move({.reads = {g}, .writes = {x}}, kElements); });
  s.add_values = per_tile([&](std::size_t at) {
                   const float* from[] = {g + at, m + at, e + at, a.v.data() + at};
                   k::sum(from, 4, kTile, 0.25F, x + at);
                 }) /
                 4;
  auto* wide = reinterpret_cast<std::uint16_t*>(x);
  s.narrow = per_tile([&](std::size_t at) { k::to_bf16(g + at, kTile, wide + at); });
  s.widen = per_tile([&](std::size_t at) {
    std::memcpy(half, wide + at, sizeof half);
    k::from_bf16(half, kTile, tile);
  });
  s.encode = per_tile([&](std::size_t at) {
    k::Lanes lanes;
    k::measure(g + at, e + at, nullptr, kTile, k::Norm::kL2, tile, lanes);
    const float scale = k::scale_of(k::fold(lanes), kTile, k::Norm::kL2);
    k::code(tile, nullptr, kTile, scale, 1.0F, e + at, a.bits.data() + at / 8);
  });
  s.decode = per_tile([&](std::size_t at) {
    k::decode({0.5F, a.bits.data() + at / 8}, kTile, tile);
  });
  s.add_signs = std::max(0.0, (serve(a, kMessages) - serve(a, 1)) / (kMessages - 1));
  s.draw = per_tile([&](std::size_t at) {
    k::draw({.key = {1, 2}}, at, g + at, nullptr, kTile, a.bits.data() + at / 8);
  });
  s.count_signs = std::max(0.0, (count(a, kMessages) - count(a, 1)) / (kMessages - 1));
  s.redraw = redraw(a);
}

void measure_updates(Arrays& a, laconic::plan::Speeds& s) {
  std::map<std::string, double> measured;
  // Sets `seconds` to those of a sweep beyond `part`; leaves it where there is no such sweep.
  const auto measure = [&](const std::string& name, double part, double& seconds) {
    const Sweep* sweep = sweep_named(name);
    if (sweep == nullptr) return;
    const auto [at, fresh] = measured.try_emplace(name, 0.0);
    if (fresh) at->second = seconds_per_element([&] { sweep->run(a); });
    seconds = std::max(0.0, at->second - part);
  };
  for (auto& [name, cost] : s.methods) {
    const Method& method = method_named(name);
    measure(method.sweeps.exact, 0, cost.exact.after);
    // The draws of random signs, and votes, count as part of what comes before.
    const bool signs = method.codec == "random-sign" || method.codec == kVote;
    measure(method.sweeps.before, signs ? 0 : s.encode, cost.coded.before);
    measure(method.sweeps.after, s.decode, cost.coded.after);
    measure(method.sweeps.local, 0, cost.local);
  }
}

// Of the two ranks of `pair`: seconds of one all-gather of `bytes` bytes per rank.
double exchange_seconds(Transport& pair, std::size_t bytes, int times) {
  const Buffer<std::byte> mine(bytes), all(2 * bytes);
  pair.all_gather(mine.span(), all.span());
  return seconds_of([&] {
           for (int i = 0; i < times; ++i) pair.all_gather(mine.span(), all.span());
         }) /
         times;
}

Link measure_link(Transport& pair) {
  constexpr int kPings = 50;
  constexpr double kLongEnough = 5e-3;
  Link link;
  link.latency_seconds = exchange_seconds(pair, 8, kPings);
  double seconds = 0;
  std::size_t bytes = std::size_t{32} << 10;
  // Both ranks must agree when to stop, so rank 0's clock counts.
  while (seconds < kLongEnough && bytes < std::size_t{16} << 20) {
    bytes *= 2;
    seconds = exchange_seconds(pair, bytes, 2);
    pair.broadcast(std::as_writable_bytes(std::span(&seconds, 1)), 0);
  }
  link.bytes_per_second =
      static_cast<double>(bytes) / std::max(seconds / 2, seconds - link.latency_seconds);
  return link;
}

}  // namespace

laconic::plan::Speeds measure_speeds() {
  Arrays arrays(kElements);
  laconic::plan::Speeds speeds;
  measure_coders(arrays, speeds);
  measure_updates(arrays, speeds);
  return speeds;
}

MemorySpeed measure_memory() {
  const Buffer<float> a(kElements), b(kElements);
  const auto rate = [&](const k::Traffic& traffic) {
    return traffic.bytes_per_element() / seconds_per_element([&] { k::move(traffic, kElements); });
  };
  std::fill_n(a.data(), kElements, 1.0F);
  std::fill_n(b.data(), kElements, 1.0F);
  return {rate({.reads = {a.data(), b.data()}}),
          rate({.reads = {a.data()}, .updates = {b.data()}})};
}

// Each thread touches its memory first, as the ranks of a host do.
double measure_encoding(int threads) {
  constexpr std::size_t kEach = std::size_t{4} << 20;
  constexpr int kTimes = 4;
  const Sweep& sweep = *sweep_named("encode-momentum");
  std::barrier start(threads + 1);
  std::vector<std::jthread> workers;
  for (int t = 0; t < threads; ++t)
    workers.emplace_back([&] {
      Arrays arrays(kEach);
      sweep.run(arrays);
      start.arrive_and_wait();
      for (int i = 0; i < kTimes; ++i) sweep.run(arrays);
    });
  start.arrive_and_wait();
  const double took = seconds_of([&] { workers.clear(); });
  return static_cast<double>(kEach) * kTimes * threads / took;
}

std::vector<Host> hosts_of(Transport& world) {
  struct Name {
    std::uint64_t host;
    char text[64];
  };
  Name mine{world.host(), {}};
  gethostname(mine.text, sizeof mine.text - 1);
  const std::vector<Name> all = world.gather(mine);
  std::vector<Host> hosts;
  std::vector<std::uint64_t> ids;
  for (std::size_t r = 0; r < all.size(); ++r) {
    const auto at = std::find(ids.begin(), ids.end(), all[r].host);
    if (at == ids.end()) {
      ids.push_back(all[r].host);
      hosts.push_back({all[r].text, {static_cast<int>(r)}});
    } else {
      hosts[static_cast<std::size_t>(at - ids.begin())].ranks.push_back(static_cast<int>(r));
    }
  }
  return hosts;
}

std::vector<std::pair<int, int>> pairs_of(const std::vector<Host>& hosts) {
  std::vector<int> ranks;
  if (hosts.size() == 1)
    ranks = hosts.front().ranks;
  else
    for (const Host& host : hosts) ranks.push_back(host.ranks.front());
  std::vector<std::pair<int, int>> pairs;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    for (std::size_t j = i + 1; j < ranks.size(); ++j) pairs.emplace_back(ranks[i], ranks[j]);
  return pairs;
}

std::vector<PairLink> measure_links(Transport& world,
                                    const std::vector<std::pair<int, int>>& pairs) {
  std::vector<PairLink> links;
  for (const auto& [one, other] : pairs) {
    const bool mine = world.rank() == one || world.rank() == other;
    const auto pair = world.split(mine ? 1 : 0);
    PairLink link{one, other, {}};
    if (mine) link.link = measure_link(*pair);
    world.broadcast(std::as_writable_bytes(std::span(&link, 1)), one);
    links.push_back(link);
  }
  return links;
}

}  // namespace laconic::app::plan
