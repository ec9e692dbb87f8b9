#include "laconic/device/self_test.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "laconic/core/error.h"
#include "laconic/device/host.h"
#include "laconic/device/memory.h"

namespace laconic::inline device {
namespace {

constexpr std::size_t kElements = 5 * kTile + 1234;
constexpr std::size_t kBegin = 2 * 64, kCount = kElements - 2 * 64,
                      kCapacity = (kCount + 363) / 64 * 64;

bool same(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

enum class Like { kGradient, kMoment, kVariance, kWeight, kMask, kZero };

// Most are normal, of many sizes; some blocks are dead, denormal or hold what is not finite.
std::vector<float> awkward(Like like, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(kElements);
  if (like == Like::kZero) return values;
  for (std::size_t k = 0; k < values.size(); ++k) {
    const std::size_t word = k / 64;
    float v = normal(random) * std::exp2(static_cast<float>(static_cast<int>(random() % 24) - 16));
    if (word % 11 == 3) v = 0;
    if (word % 11 == 4) v = std::copysign(0.0F, v);
    if (word % 23 == 5) v *= 1e-38F;
    if (k / kTile == 3) v = 0;
    values[k] = v;
  }
  if (like == Like::kGradient) {
    values[kBegin + 100] = std::numeric_limits<float>::quiet_NaN();
    values[2 * kTile + 77] = std::numeric_limits<float>::infinity();
    values[4 * kTile + 3000] = -2e16F;
  }
  for (float& v : values) {
    if (like == Like::kVariance) v = std::fabs(v);
    if (like == Like::kMask) v = random() % 7 == 0 ? 0.0F : 1.0F;
  }
  return values;
}

// Memory of both sides with the same values.
template <typename T>
class Twin {
 public:
  Twin(Device& device, std::vector<T> values)
      : device_(device), here_(std::move(values)), there_(device, here_.size()) {
    copy_to<T>(device_, here_, there_.span());
  }
  T* at(bool host) { return host ? here_.data() : there_.data(); }
  std::size_t size() const { return here_.size(); }
  // Empty: no difference.
  std::string difference(std::string_view name) const {
    std::vector<T> found(here_.size());
    copy_from<T>(device_, there_.span(), std::span<T>(found));
    for (std::size_t k = 0; k < found.size(); ++k) {
      bool equal = found[k] == here_[k];
      if constexpr (std::is_same_v<T, float>) equal = same(found[k], here_[k]);
      if (!equal) return fmt::format("{}[{}] is {}, {} on the CPU", name, k, found[k], here_[k]);
    }
    return {};
  }

 private:
  Device& device_;
  std::vector<T> here_;
  Memory<T> there_;
};

class SelfTest {
 public:
  explicit SelfTest(Device& device) : device_(device) {}

  std::vector<KernelCheck> run() {
    for (const char* codec : {"sign", "int8", "int4", "int2", "top-k"}) encode_lossy(codec);
    encode_in_parts();
    for (const char* codec : {"fp32", "bf16"}) encode_exact(codec);
    signs();
    decode();
    passes();
    tensors();
    return std::move(checks_);
  }

 private:
  // All vectors that a job may touch, fresh for every check.
  struct Vectors {
    Vectors(Device& device, unsigned seed)
        : g(device, awkward(Like::kGradient, seed)),
          finite(device, awkward(Like::kMoment, seed + 1)),
          m(device, awkward(Like::kMoment, seed + 2)),
          v(device, awkward(Like::kVariance, seed + 3)),
          x(device, awkward(Like::kWeight, seed + 4)),
          x_sync(device, awkward(Like::kWeight, seed + 5)),
          e(device, awkward(Like::kMoment, seed + 6)),
          live(device, awkward(Like::kMask, seed + 7)),
          out(device, awkward(Like::kZero, seed)),
          left(device, std::vector<std::uint8_t>((kElements + 63) / 64)),
          begins_there(device, begins()),
          floors(device, std::vector<float>(begins().size(), 1e-4F)) {}

    static std::vector<std::size_t> begins() {
      std::vector<std::size_t> all;
      for (std::size_t at = 0; at < kElements; at += kTile) all.push_back(at);
      return all;
    }
    FloorTable table(bool host) {
      return {host_begins, {floors.at(host), floors.size()}, kElements, begins_there.at(host)};
    }
    std::string difference() const {
      std::string text;
      const auto add = [&](const auto& twin, const char* name) {
        if (text.empty()) text = twin.difference(name);
      };
      add(g, "g"), add(finite, "values"), add(m, "m"), add(v, "v"), add(x, "x");
      add(x_sync, "x_sync"), add(e, "residual"), add(out, "values"), add(left, "left");
      add(floors, "floors");
      return text;
    }

    Twin<float> g, finite, m, v, x, x_sync, e, live, out;
    Twin<std::uint8_t> left;
    Twin<std::size_t> begins_there;
    Twin<float> floors;
    std::vector<std::size_t> host_begins = begins();
  };

  // work(device, vectors, host, bytes) on both sides; `bytes` is what else must be equal.
  using Bytes = std::vector<std::byte>;
  using Work = std::function<void(Device&, Vectors&, bool host, Bytes&)>;
  void check(std::string kernel, std::string with, const Work& work) {
    Vectors vectors(device_, ++seed_);
    Bytes here, there;
    work(host_, vectors, true, here);
    work(device_, vectors, false, there);
    device_.settle();
    std::string difference = vectors.difference();
    if (difference.empty() && here.size() == there.size())
      for (std::size_t i = 0; i < here.size() && difference.empty(); ++i)
        if (here[i] != there[i])
          difference =
              fmt::format("byte {} is {:02x}, {:02x} on the CPU", i,
                          std::to_integer<unsigned>(there[i]), std::to_integer<unsigned>(here[i]));
    if (here.size() != there.size()) difference = "messages of different lengths";
    checks_.push_back({std::move(kernel), std::move(with), kElements, std::move(difference)});
  }

  static kernels::AdamStep adam() {
    return {0.9F, 0.1F, 0.999F, 0.001F, 1.1e-3F, 0.9999F, 1.7F, 1e-8F};
  }
  static Bytes message(const Codec& codec) { return Bytes(codec.message_size(kCapacity)); }
  static Range range() { return {kBegin, kCount, kCapacity}; }

  static std::vector<std::pair<const char*, std::function<Source(Vectors&, bool)>>> sources() {
    return {
        {"values", [](Vectors& v, bool h) { return Values{.values = v.g.at(h), .checked = true}; }},
        {"momentum",
         [](Vectors& v, bool h) {
           return Momentum{adam(), v.g.at(h), v.m.at(h), nullptr};
         }},
        {"pending momentum",
         [](Vectors& v, bool h) {
           return PendingMomentum{adam(), 0.7F, v.g.at(h), v.m.at(h), v.e.at(h), nullptr};
         }},
        {"displacement", [](Vectors& v, bool h) {
           return Displacement{v.x_sync.at(h), v.g.at(h), {}};
         }}};
  }

  void encode_one(const std::string& kernel, const std::string& with, const Codec& codec,
                  const std::function<Source(Vectors&, bool)>& source, bool pending, bool masked,
                  float share, float keep) {
    check(kernel, with, [&](Device& device, Vectors& v, bool host, Bytes& out) {
      out = message(codec);
      const Range at = range();
      codec.clear({at.capacity, at.count, at.capacity - at.count}, out.data());
      float* e = v.e.at(host) + at.begin;
      device.reserve(&codec, 1);
      const EncodeResult result =
          device.encode({.to = {.codec = &codec,
                                .block = codec.block(),
                                .range = at,
                                .residual = {e, pending ? nullptr : e, 1, share, keep},
                                .live = masked ? v.live.at(host) : nullptr,
                                .out = out.data()},
                         .source = source(v, host),
                         .sampled_from = at.begin});
      append(out, &result.bad, sizeof result.bad);
      append(out, &result.residual, sizeof result.residual);
    });
  }
  static void append(Bytes& bytes, const void* from, std::size_t count) {
    const auto* first = static_cast<const std::byte*>(from);
    bytes.insert(bytes.end(), first, first + count);
  }

  void encode_lossy(const std::string& name) {
    const std::string kernel = name == "sign"    ? "encode_sign"
                               : name == "top-k" ? "encode_top_k"
                                                 : "encode_integers";
    for (const auto& [what, source] : sources()) {
      const bool pending = std::string_view(what) == "pending momentum";
      for (const auto norm : {kernels::Norm::kL2, kernels::Norm::kL1}) {
        if (norm == kernels::Norm::kL1 && name != "sign") continue;
        const bool masked = norm == kernels::Norm::kL1 || name == "int8";
        const auto codec = make_codec(name, {.scale_block = masked ? 256U : 4096U,
                                             .scale_norm = norm,
                                             .quant_block = masked ? 64U : 256U});
        encode_one(kernel,
                   fmt::format("{}, {}{}", what, codec->describe(), masked ? ", masked" : ""),
                   *codec, source, pending, masked, 1, 0);
      }
    }
    const auto codec = make_codec(name);
    encode_one(kernel, codec->describe() + ", blended residual", *codec, sources()[0].second, false,
               false, 0.2F, 0.8F);
    encode_one(kernel, codec->describe() + ", residual dropped", *codec, sources()[0].second, false,
               true, 0, 0);
  }

  void encode_in_parts() {
    const auto codec = make_codec("sign", {.scale_block = 0});
    encode_one(
        "encode_sign", codec->describe(), *codec,
        [](Vectors& v, bool h) {
          return Values{v.finite.at(h), true};
        },
        false, true, 1, 0);
  }

  void encode_exact(const std::string& name) {
    const auto codec = make_codec(name);
    for (const auto& [what, source] : sources())
      check("encode_dense", fmt::format("{}, {}", what, codec->describe()),
            [&](Device& device, Vectors& v, bool host, Bytes& out) {
              out = message(*codec);
              const Range at = range();
              codec->clear({at.capacity, at.count, at.capacity - at.count}, out.data());
              Counter bad{0};
              Source from = source(v, host);
              if (auto* one = std::get_if<Momentum>(&from)) one->exact_bad = &bad;
              if (auto* one = std::get_if<PendingMomentum>(&from)) one->exact_bad = &bad;
              if (auto* one = std::get_if<Displacement>(&from)) one->exact_bad = {4096, &bad};
              if (auto* one = std::get_if<Values>(&from)) *one = {v.finite.at(host), false};
              device.encode({.to = {.codec = codec.get(),
                                    .block = kTile,
                                    .range = at,
                                    .residual = {},
                                    .out = out.data()},
                             .source = from,
                             .spent = v.out.at(host)});
              const std::uint64_t counted = bad.load();
              append(out, &counted, sizeof counted);
            });
  }

  void signs() {
    const Range at = range();
    const std::size_t bits = 8 * wire::words(at.capacity),
                      active = wire::activity_size(at.capacity);
    const kernels::Draw draw{.key = {7, 9}, .rank = 3, .bucket = 2};
    check("draw_signs", "moments", [&](Device& device, Vectors& v, bool host, Bytes& out) {
      out.resize(bits + active);
      Counter bad{0};
      device.draw(
          {.range = at,
           .source =
               SignMoments{{0.9F, 0.1F}, v.g.at(host), v.m.at(host), v.v.at(host), {4096, &bad}},
           .draw = draw,
           .bits = reinterpret_cast<std::uint8_t*>(out.data()),
           .active = reinterpret_cast<std::uint8_t*>(out.data()) + bits});
    });
    check("cast_votes", "moments", [&](Device& device, Vectors& v, bool host, Bytes& out) {
      out.resize(bits + active);
      Counter bad{0};
      const kernels::Ties ties{true};
      device.vote(
          {.range = at,
           .source =
               LionVotes{{0.9F, 0.1F, 0.99F, 0.01F}, ties, v.g.at(host), v.m.at(host), {512, &bad}},
           .ties = ties,
           .bits = reinterpret_cast<std::uint8_t*>(out.data()),
           .active = reinterpret_cast<std::uint8_t*>(out.data()) + bits});
    });
    check("share_signs", "moments", [&](Device& device, Vectors& v, bool host, Bytes& out) {
      out.resize(2 * at.capacity + active);
      Counter bad{0};
      device.share(ShareSigns{
          .range = at,
          .source =
              SignMoments{{0.9F, 0.1F}, v.g.at(host), v.m.at(host), v.v.at(host), {4096, &bad}},
          .out = reinterpret_cast<std::uint16_t*>(out.data()),
          .active = reinterpret_cast<std::uint8_t*>(out.data()) + 2 * at.capacity});
    });
  }

  static std::vector<std::pair<const char*, std::function<Sink(Vectors&, bool, Counter&)>>>
  sinks() {
    return {{"decode_store", [](Vectors& v, bool h, Counter&) { return Store{v.out.at(h)}; }},
            {"decode_sgdm",
             [](Vectors& v, bool h, Counter& bad) {
               return SgdmUpdate{{0.9F, 0.01F, 0.999F}, v.m.at(h), v.x.at(h), {256, &bad}};
             }},
            {"decode_lion",
             [](Vectors& v, bool h, Counter& bad) {
               return LionUpdate{
                   {{0.9F, 0.1F, 0.99F, 0.01F}, 1e-3F, 0.999F}, v.m.at(h), v.x.at(h), {4096, &bad}};
             }},
            {"decode_adamw",
             [](Vectors& v, bool h, Counter& bad) {
               static const AdamPart parts[] = {{0, 5000, adam()}, {5000, kElements - 5000, [] {
                                                                      kernels::AdamStep other =
                                                                          adam();
                                                                      other.rate = 2e-3F;
                                                                      return other;
                                                                    }()}};
               return AdamWUpdate{parts, v.m.at(h), v.v.at(h), v.x.at(h), {4096, &bad}};
             }},
            {"decode_moments",
             [](Vectors& v, bool h, Counter& bad) {
               return MomentsUpdate{adam(), v.m.at(h), v.v.at(h), v.left.at(h), {512, &bad}};
             }},
            {"decode_momentum_store",
             [](Vectors& v, bool h, Counter&) {
               return MomentumStore{v.m.at(h), v.v.at(h)};
             }},
            {"decode_momentum_apply",
             [](Vectors& v, bool h, Counter&) {
               return MomentumApply{adam(), v.table(h), v.m.at(h), v.v.at(h), v.x.at(h)};
             }},
            {"decode_pending_sync",
             [](Vectors& v, bool h, Counter&) {
               return PendingSync{adam(),    31.0F,          v.table(h), v.m.at(h),
                                  v.v.at(h), v.x_sync.at(h), v.x.at(h)};
             }},
            {"decode_sign_update",
             [](Vectors& v, bool h, Counter&) {
               return SignUpdate{1e-3F, 0.999F, v.x.at(h)};
             }},
            {"decode_outer", [](Vectors& v, bool h, Counter&) {
               kernels::OuterStep step{.rule = kernels::OuterRule::kNesterov,
                                       .follow = kernels::Follow::kKeep,
                                       .rate = 0.7F,
                                       .momentum = 0.9F,
                                       .clip = 3.0F};
               return OuterUpdate{step, v.m.at(h), v.e.at(h), v.x_sync.at(h), v.x.at(h)};
             }}};
  }

  // A message that the host made of values with and without what is not finite.
  Bytes made(const Codec& codec, bool finite) {
    Bytes out = message(codec);
    const Range at = range();
    codec.clear({at.capacity, at.count, at.capacity - at.count}, out.data());
    const auto values = awkward(finite ? Like::kMoment : Like::kGradient, 99);
    std::vector<float> e(kElements);
    host_.reserve(&codec, 1);
    host_.encode({.to = {.codec = &codec,
                         .block = codec.exact() ? kTile : codec.block(),
                         .range = at,
                         .residual = {e.data(), e.data()},
                         .out = out.data()},
                  .source = Values{values.data(), !codec.exact()}});
    return out;
  }

  void decode() {
    for (const char* name : {"fp32", "bf16", "int8", "int4", "int2", "sign", "top-k"})
      for (const auto& [kernel, sink] : sinks()) {
        const auto codec = make_codec(name);
        const Bytes from = made(*codec, false);
        check(kernel, codec->describe(), [&](Device& device, Vectors& v, bool host, Bytes& out) {
          Counter bad{0};
          device.decode({.codec = codec.get(),
                         .block = codec->exact() ? kTile : codec->block(),
                         .range = range(),
                         .message = from.data(),
                         .sink = sink(v, host, bad)});
          device.settle();
          const std::uint64_t counted = bad.load();
          append(out, &counted, sizeof counted);
        });
      }
    read_signs();
  }

  void read_signs() {
    const Range at = range();
    std::mt19937 random(5);
    for (const int planes : {0, 2}) {
      const std::size_t words = wire::words(at.capacity);
      std::vector<std::uint8_t> bits(8 * static_cast<std::size_t>(std::max(planes, 1)) * words),
          extras(planes > 0 ? 2 * words : wire::activity_size(at.capacity));
      for (auto& byte : bits) byte = static_cast<std::uint8_t>(random());
      for (std::size_t i = 0; i < extras.size(); ++i)
        extras[i] = planes == 0  ? static_cast<std::uint8_t>(random())
                    : i % 2 == 0 ? static_cast<std::uint8_t>(random() % 4)
                                 : std::uint8_t{0};
      check("decode_sign_update", planes > 0 ? "counts" : "signs",
            [&](Device& device, Vectors& v, bool host, Bytes&) {
              device.read({.range = at,
                           .bits = bits.data(),
                           .extras = extras.data(),
                           .planes = planes,
                           .sink = SignUpdate{1e-3F, 0.999F, v.x.at(host)}});
            });
    }
  }

  void passes() {
    check("local_step", "bad blocks", [](Device& device, Vectors& v, bool host, Bytes& out) {
      Counter bad{0};
      device.run(LocalStep{adam(), 0.7F, v.g.at(host), v.m.at(host), v.v.at(host), v.e.at(host),
                           v.x.at(host), v.table(host), &bad});
      device.settle();
      const std::uint64_t counted = bad.load();
      append(out, &counted, sizeof counted);
    });
    check("moments_apply", "floors", [](Device& device, Vectors& v, bool host, Bytes&) {
      device.run(MomentsApply{adam(), v.m.at(host), v.v.at(host), v.x.at(host), v.x_sync.at(host),
                              v.left.at(host), v.table(host)});
    });
    for (const bool freeze : {false, true})
      check("update_floors", freeze ? "freeze" : "update",
            [freeze](Device& device, Vectors& v, bool host, Bytes& out) {
              std::size_t dead = 0;
              device.run(
                  UpdateFloors{v.v.at(host), v.table(host), 0.01F, true, false, freeze, &dead});
              append(out, &dead, sizeof dead);
            });
    for (const auto norm : {kernels::Norm::kL2, kernels::Norm::kL1})
      check("measure", norm == kernels::Norm::kL2 ? "squares" : "magnitudes",
            [norm](Device& device, Vectors& v, bool host, Bytes& out) {
              const bool checked = norm == kernels::Norm::kL2;
              std::vector<float> sums((kElements + kTile - 1) / kTile);
              device.run(TileSums{checked ? v.g.at(host) : v.v.at(host), kElements, norm, checked,
                                  sums.data()});
              append(out, sums.data(), 4 * sums.size());
            });
    check("scale", "values", [](Device& device, Vectors& v, bool host, Bytes&) {
      device.run(Scaling{v.finite.at(host), kElements, 0.37F});
    });
  }

  void tensors() {
    constexpr std::size_t kPieces = (kElements + kTile - 1) / kTile;
    const auto parts_of = [](Vectors& v, bool host) {
      std::vector<TensorPart> parts;
      for (const auto& [begin, end] :
           {std::pair<std::size_t, std::size_t>{0, 6000}, {6000, kElements}})
        parts.push_back({.begin = begin,
                         .count = end - begin,
                         .step = {1.3F, 1.7F, 1e-8F, 0.01F},
                         .rate = 1e-3F,
                         .m = v.m.at(host),
                         .v = v.v.at(host),
                         .x = v.x.at(host),
                         .left = v.left.at(host),
                         .floors = begin == 0 ? FloorTable{} : v.table(host)});
      return parts;
    };
    std::vector<TensorPiece> pieces;
    for (std::size_t i = 0; i < kPieces; ++i)
      pieces.push_back(
          {i * kTile < 6000 ? 0U : 1U, i * kTile, std::min(kTile, kElements - i * kTile)});
    check("tensor_norms", "two parts", [&](Device& device, Vectors& v, bool host, Bytes& out) {
      std::vector<double> sums(2 * kPieces);
      device.run(TensorNorms{parts_of(v, host), pieces, sums.data(), sums.data() + kPieces});
      append(out, sums.data(), 8 * sums.size());
    });
    check("tensor_apply", "two parts", [&](Device& device, Vectors& v, bool host, Bytes&) {
      device.run(TensorApply{parts_of(v, host), pieces});
    });
  }

  Device& device_;
  HostDevice host_{1};
  unsigned seed_ = 0;
  std::vector<KernelCheck> checks_;
};

}  // namespace

std::vector<KernelCheck> compare_with_host(Device& device) { return SelfTest(device).run(); }

}  // namespace laconic::inline device
