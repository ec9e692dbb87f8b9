// golden DIRECTORY: runs every kernel, on the best target and as the reference, and writes what
// went in and what came out, for numpy_check.py: arrays.bin holds raw little-endian arrays,
// index.json says what lies where.
#include <fmt/format.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <initializer_list>

#include "laconic/kernels/outer.h"
#include "laconic/kernels/reference.h"
#include "laconic/kernels/target.h"
#include "tests/support/cases.h"

namespace laconic::kernels {
namespace {

using testing::Array;
using testing::Arrays;
using testing::Case;
using testing::CodedArray;
using testing::IntegersArray;
using testing::Kind;
using testing::Side;

static_assert(std::endian::native == std::endian::little);

class Golden {
 public:
  explicit Golden(const std::filesystem::path& directory)
      : arrays_(directory / "arrays.bin", std::ios::binary), index_(directory / "index.json") {
    index_ << "[";
  }

  template <typename Function, typename... Args>
  void record(const char* kernel, std::initializer_list<const char*> names, Function* fast,
              Function* slow, const Args&... args) {
    Side before;
    index_ << (calls_++ == 0 ? "" : ",")
           << fmt::format("\n{{\"kernel\": \"{}\", \"before\": {}, \"runs\": {{", kernel,
                          all(before, names, args...));
    run(target(), names, fast, args...);
    index_ << ", ";
    run("reference", names, slow, args...);
    index_ << "}}";
  }

  bool finish() {
    index_ << "\n]\n";
    index_.close();
    arrays_.close();
    fmt::print("{} calls, {} bytes of arrays\n", calls_, written_);
    return index_.good() && arrays_.good();
  }

 private:
  template <typename Function, typename... Args>
  void run(const std::string& who, std::initializer_list<const char*> names, Function* function,
           const Args&... args) {
    Side side;
    std::string result = "null";
    if constexpr (std::is_void_v<decltype(call_on(side, function, args...))>)
      call_on(side, function, args...);
    else
      result = json(side, call_on(side, function, args...));
    index_ << fmt::format("\"{}\": {{\"result\": {}, \"after\": {}}}", who, result,
                          all(side, names, args...));
  }

  template <typename... Args>
  std::string all(Side& side, std::initializer_list<const char*> names, const Args&... args) {
    std::string text;
    const char* const* name = names.begin();
    ((text += fmt::format("{}\"{}\": {}", text.empty() ? "" : ", ", *name++, json(side, args))),
     ...);
    return "{" + text + "}";
  }

  std::string stored(const char* type, const void* data, std::size_t count, std::size_t bytes) {
    arrays_.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
    written_ += bytes;
    return fmt::format("{{\"type\": \"{}\", \"count\": {}, \"at\": {}}}", type, count,
                       written_ - bytes);
  }

  std::string json(Side& side, const Array<float>& array) {
    const std::size_t count = array.values.size();
    return stored("<f4", side.place(array), count, count * 4);
  }
  std::string json(Side& side, const Array<Lanes>& array) {
    return stored("<f4", side.place(array).memory, 16, 64);
  }
  std::string json(Side& side, const Array<std::uint8_t>& array) {
    return stored("u1", side.place(array), array.values.size(), array.values.size());
  }
  std::string json(Side& side, const Array<std::uint16_t>& array) {
    return stored("<u2", side.place(array), array.values.size(), array.values.size() * 2);
  }
  std::string json(Side& side, const Array<std::uint64_t>& array) {
    return stored("<u8", side.place(array), array.values.size(), array.values.size() * 8);
  }
  std::string json(Side& side, const CodedArray& coded) {
    return fmt::format("{{\"scale\": {}, \"bits\": {}}}", json(side, coded.scale),
                       json(side, coded.bits));
  }
  std::string json(Side& side, const IntegersArray& from) {
    return fmt::format("{{\"scale\": {}, \"codes\": {}}}", json(side, from.scale),
                       json(side, from.codes));
  }
  template <typename T>
  std::string json(Side& side, const std::vector<T>& arrays) {
    std::string text;
    for (const T& array : arrays) text += (text.empty() ? "" : ", ") + json(side, array);
    return "[" + text + "]";
  }
  std::string json(Side&, std::nullptr_t) { return "null"; }
  std::string json(Side&, float value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return fmt::format("{:.17g}", static_cast<double>(value));
  }
  std::string json(Side&, Norm norm) { return norm == Norm::kL2 ? "\"L2\"" : "\"L1\""; }
  template <typename T>
  requires std::is_integral_v<T> std::string json(Side&, T value) {
    return fmt::format("{}", value);
  }
  std::string json(Side&, const Draw& draw) {
    return fmt::format("{{\"key\": [{}, {}], \"stream\": {}, \"rank\": {}, \"bucket\": {}}}",
                       draw.key[0], draw.key[1], static_cast<std::uint32_t>(draw.stream), draw.rank,
                       draw.bucket);
  }
  std::string json(Side& side, const Ties& ties) { return all(side, {"odd"}, ties.odd); }
  std::string json(Side& side, const LionMoments& s) {
    return all(side, {"beta1", "one_minus_beta1", "beta2", "one_minus_beta2"}, s.beta1,
               s.one_minus_beta1, s.beta2, s.one_minus_beta2);
  }
  std::string json(Side& side, const LionStep& s) {
    return all(side, {"moments", "lr", "decay"}, s.moments, s.lr, s.decay);
  }
  std::string json(Side& side, const BirderMoments& s) {
    return all(side, {"beta", "one_minus_beta"}, s.beta, s.one_minus_beta);
  }
  std::string json(Side& side, const SgdmStep& s) {
    return all(side, {"momentum", "lr", "decay"}, s.momentum, s.lr, s.decay);
  }
  std::string json(Side& side, const AdamStep& s) {
    return all(side,
               {"beta1", "one_minus_beta1", "beta2", "one_minus_beta2", "rate", "decay",
                "correction", "epsilon", "floor"},
               s.beta1, s.one_minus_beta1, s.beta2, s.one_minus_beta2, s.rate, s.decay,
               s.correction, s.epsilon, s.floor);
  }
  std::string json(Side& side, const TrustStep& s) {
    return all(side, {"scale", "correction", "epsilon", "weight_decay", "floor"}, s.scale,
               s.correction, s.epsilon, s.weight_decay, s.floor);
  }

  std::string json(Side& side, const OuterStep& s) {
    return all(side,
               {"rule", "follow", "penalty", "rate", "momentum", "clip", "inverse_gamma", "beta1",
                "one_minus_beta1", "beta2", "one_minus_beta2", "decay", "own", "shared"},
               static_cast<int>(s.rule), static_cast<int>(s.follow), s.penalty, s.rate, s.momentum,
               s.clip, s.inverse_gamma, s.beta1, s.one_minus_beta1, s.beta2, s.one_minus_beta2,
               s.decay, s.own, s.shared);
  }

  std::ofstream arrays_, index_;
  std::size_t calls_ = 0, written_ = 0;
};

// The name of a kernel and both its forms.
#define LACONIC_BOTH(kernel, ...) #kernel, {__VA_ARGS__ }, kernel, reference::kernel

void record_sign(Golden& golden, Case& one, Norm norm) {
  const auto a = one.floats(), e = one.floats(), live = one.live(), out = one.floats();
  const auto bits = one.bits();
  const Array<Lanes> none{{Lanes{}}};
  for (bool masked : {false, true}) {
    // The whole way of a block: the scale that is coded is the one that was measured.
    Lanes lanes;
    std::vector<float> p(one.count());
    reference::measure(a.values.data(), e.values.data(), masked ? live.values.data() : nullptr,
                       one.count(), norm, p.data(), lanes);
    const std::size_t alive =
        masked ? reference::count_live(live.values.data(), one.count()) : one.count();
    const float sum = reference::fold(lanes);
    const float scale = reference::scale_of(sum, alive, norm);
    const auto go = [&](const auto& mask) {
      golden.record(LACONIC_BOTH(measure, "a", "e", "live", "count", "norm", "p", "lanes"), a, e,
                    mask, one.count(), norm, out, none);
      golden.record(LACONIC_BOTH(fold, "lanes"), Array<Lanes>{{lanes}});
      golden.record(LACONIC_BOTH(scale_of, "sum", "count", "norm"), sum, alive, norm);
      golden.record(LACONIC_BOTH(code, "p", "live", "count", "scale", "gain", "e", "bits"),
                    one.array(p), mask, one.count(), scale, masked ? 3.0F : 1.0F, out, bits);
      const std::vector<CodedArray> coded{
          {0.25F, one.bits()}, {0.75F, one.bits()}, {0.3F, one.bits()}};
      golden.record(LACONIC_BOTH(serve, "coded", "codes", "factor", "e", "live", "count", "norm",
                                 "q", "lanes"),
                    coded, 3, 1.0F / 3.0F, e, mask, one.count(), norm, out, one.lanes());
    };
    masked ? go(live) : go(nullptr);
  }
  golden.record(LACONIC_BOTH(decode, "coded", "count", "out"), CodedArray{0.37F, bits}, one.count(),
                out);
  golden.record(LACONIC_BOTH(count_live, "live", "count"), live, one.count());
}

void record_integers(Golden& golden, Case& one, int bits) {
  const auto a = one.floats(), e = one.floats(), live = one.live(), out = one.floats();
  const auto p = one.finite();
  const std::size_t n = one.count(), bytes = one.words() * 8 * static_cast<std::size_t>(bits);
  const Array<Lanes> none{{Lanes{}}};
  Lanes lanes;
  std::vector<float> same(n);
  reference::measure_largest(p.values.data(), nullptr, nullptr, n, same.data(), lanes);
  golden.record(LACONIC_BOTH(largest_of, "lanes"), Array<Lanes>{{lanes}});
  const float scale = integer_scale(reference::largest_of(lanes), bits);
  const float smaller = integer_scale(reference::largest_of(lanes) / 2, bits);
  const auto codes = one.bytes(bytes);
  golden.record(
      LACONIC_BOTH(to_integers, "p", "live", "count", "bits", "scale", "gain", "e", "codes"), p,
      nullptr, n, bits, scale, 1.0F, out, codes);
  golden.record(
      LACONIC_BOTH(to_integers, "p", "live", "count", "bits", "scale", "gain", "e", "codes"), p,
      live, n, bits, smaller, 3.0F, out, codes);
  std::vector<IntegersArray> from;
  for (const float s : {0.25F, 0.75F, 0.3F}) from.push_back({s, one.bytes(bytes)});
  const auto go = [&](const auto& residual, const auto& mask) {
    golden.record(LACONIC_BOTH(measure_largest, "a", "e", "live", "count", "p", "lanes"), a,
                  residual, mask, n, out, none);
    golden.record(LACONIC_BOTH(sum_integers, "from_", "ranks", "bits", "factor", "e", "live",
                               "count", "q", "lanes"),
                  from, 3, bits, 1.0F / 3.0F, residual, mask, n, out, none);
  };
  go(e, live);
  go(nullptr, nullptr);
  golden.record(LACONIC_BOTH(from_integers, "from_", "bits", "count", "out"), from[0], bits, n,
                out);
}

void record_top_k(Golden& golden, Case& one, std::size_t slots) {
  const auto p = one.finite(), live = one.live(), e = one.floats(), out = one.floats();
  const std::size_t n = one.count();
  const Array<Lanes> none{{Lanes{}}};
  std::vector<IntegersArray> from;
  const auto encode = [&](const auto& mask, const float* mask_values, float gain) {
    Lanes lanes;
    std::vector<float> same(n), left(n);
    reference::measure_largest(p.values.data(), nullptr, mask_values, n, same.data(), lanes);
    const float largest = reference::largest_of(lanes);
    auto places = one.bytes(top_k_bytes(slots));
    golden.record(
        LACONIC_BOTH(to_top_k, "p", "live", "count", "slots", "largest", "gain", "e", "places"), p,
        mask, n, slots, largest, gain, out, places);
    reference::to_top_k(p.values.data(), mask_values, n, slots, largest, gain, left.data(),
                        places.values.data());
    from.push_back({0.25F * gain, places});
  };
  encode(nullptr, nullptr, 1.0F);
  encode(live, live.values.data(), 3.0F);
  golden.record(LACONIC_BOTH(sum_top_k, "from_", "ranks", "slots", "factor", "e", "live", "begin",
                             "count", "q", "lanes"),
                from, 2, slots, 0.5F, e, live, 0, n, out, none);
  golden.record(LACONIC_BOTH(from_top_k, "from_", "slots", "begin", "count", "out"), from[1], slots,
                0, n, out);
}

void record_dense(Golden& golden, Case& one) {
  const auto a = one.floats(), out = one.floats();
  golden.record(LACONIC_BOTH(add, "a", "count", "acc"), a, one.count(), out);
  golden.record(LACONIC_BOTH(blend, "keep", "r", "live", "count", "e"), 0.8F, a, nullptr,
                one.count(), out);
  golden.record(LACONIC_BOTH(blend, "keep", "r", "live", "count", "e"), 0.8F, a, one.live(),
                one.count(), out);
  golden.record(LACONIC_BOTH(scale, "a", "count", "factor"), a, one.count(), 1.0F / 3.0F);
  Arrays<float> wide;
  Arrays<std::uint16_t> narrow;
  for (int inputs = 1; inputs <= 3; ++inputs) {
    wide.push_back(one.floats());
    narrow.push_back(one.bf16());
    const float factor = 1.0F / static_cast<float>(inputs);
    golden.record(LACONIC_BOTH(sum, "in", "inputs", "count", "factor", "out"), wide, inputs,
                  one.count(), factor, out);
    golden.record(LACONIC_BOTH(sum_bf16, "in", "inputs", "count", "factor", "out"), narrow, inputs,
                  one.count(), factor, out);
  }
  golden.record(LACONIC_BOTH(to_bf16, "in", "count", "out"), a, one.count(), one.bf16());
  golden.record(LACONIC_BOTH(from_bf16, "in", "count", "out"), narrow[0], one.count(), out);
  golden.record(LACONIC_BOTH(all_finite, "g", "count"), a, one.count());
  golden.record(LACONIC_BOTH(all_finite, "g", "count"), one.finite(), one.count());
  golden.record(LACONIC_BOTH(sum_of_squares, "a", "count"), a, one.count());
}

void record_update(Golden& golden, Case& one, float floor) {
  const AdamStep step{0.9F, 0.1F, 0.999F, 0.001F, 3.1e-3F, 0.9999F, 1.37F, 1e-8F, floor};
  const auto g = one.floats(), m = one.floats(), v = one.positive(), x = one.floats();
  const auto other = one.floats(), out = one.floats();
  const std::size_t n = one.count();
  golden.record(LACONIC_BOTH(sgdm, "step", "g", "m", "x", "count"), SgdmStep{0.9F, 0.013F, 0.9997F},
                g, m, x, n);
  golden.record(LACONIC_BOTH(adamw, "step", "g", "m", "v", "x", "count"), step, g, m, v, x, n);
  golden.record(LACONIC_BOTH(adam_moments, "step", "g", "m", "v", "count", "lanes"), step, g, m, v,
                n, one.lanes());
  golden.record(LACONIC_BOTH(adam_apply, "step", "m", "v", "x", "copy", "count"), step, m, v, x,
                out, n);
  golden.record(LACONIC_BOTH(one_bit_apply, "step", "mean", "m", "v", "x", "count"), step, other, m,
                v, x, n);
  golden.record(
      LACONIC_BOTH(zero_one_sync, "step", "inverse_gain", "mean", "m", "v", "x_sync", "x", "count"),
      step, 47.3F, other, m, v, x, out, n);
  golden.record(
      LACONIC_BOTH(zero_one_sync, "step", "inverse_gain", "mean", "m", "v", "x_sync", "x", "count"),
      step, 47.3F, other, nullptr, v, x, out, n);
  const auto with_gradient = [&](const auto& gradient) {
    golden.record(LACONIC_BOTH(momentum, "step", "g", "m", "out", "count"), step, gradient, m, out,
                  n);
    golden.record(
        LACONIC_BOTH(zero_one_message, "step", "shrink", "g", "m", "pending", "out", "count"), step,
        0.71F, gradient, m, other, out, n);
    golden.record(
        LACONIC_BOTH(zero_one_local, "step", "shrink", "g", "m", "v", "pending", "x", "count"),
        step, 0.71F, gradient, m, v, other, x, n);
  };
  with_gradient(g);
  with_gradient(nullptr);
  const TrustStep trust{1.9F, 1.37F, 1e-8F, 0.013F, floor};
  const auto of_u = one.lanes(), of_x = one.lanes();  // one by one: arguments come in any order
  golden.record(LACONIC_BOTH(trust_squares, "step", "m", "v", "x", "count", "at", "of_u", "of_x"),
                trust, m, v, x, n, std::size_t{5}, of_u, of_x);
  golden.record(LACONIC_BOTH(trust_apply, "step", "rate", "m", "v", "x", "count"), trust, 0.0031F,
                m, v, x, n);
  golden.record(LACONIC_BOTH(birder_update, "lr", "decay", "r", "x", "count"), 0.008F, 0.9998F, g,
                x, n);
}

void record_outer(Golden& golden, Case& one) {
  const auto mean = one.floats(), m = one.floats(), snapshot = one.floats(), x_sync = one.floats(),
             x = one.floats(), out = one.floats();
  const std::size_t n = one.count();
  golden.record(LACONIC_BOTH(displacement, "x_sync", "x", "count", "out"), x_sync, x, n, out);
  OuterStep step{.penalty = 3,
                 .rate = 0.7F,
                 .momentum = 0.9F,
                 .clip = 0.25F,
                 .inverse_gamma = 330,
                 .beta1 = 0.95F,
                 .one_minus_beta1 = 0.05F,
                 .beta2 = 0.98F,
                 .one_minus_beta2 = 0.02F,
                 .decay = 0.9997F,
                 .own = 0.3F,
                 .shared = 0.7F};
  for (const OuterRule rule :
       {OuterRule::kAverage, OuterRule::kNesterov, OuterRule::kMomentum, OuterRule::kSign})
    for (const Follow follow : {Follow::kEqual, Follow::kKeep, Follow::kBlend}) {
      step.rule = rule;
      step.follow = follow;
      golden.record(LACONIC_BOTH(outer_update, "step", "mean", "momentum", "snapshot", "x_sync",
                                 "x", "count"),
                    step, mean, m, snapshot, x_sync, x, n);
    }
}

void record_random_sign(Golden& golden, Case& one) {
  const Draw how{{17, 400}, Stream::kOwnerDraw, 3, 2};
  const auto m = one.finite(), b = one.positive();
  const auto bits = one.bits();
  const std::size_t n = one.count(), words = one.words();
  golden.record(LACONIC_BOTH(draw, "draw", "begin", "m", "b", "count", "bits"), how, 64, m, b, n,
                bits);
  golden.record(LACONIC_BOTH(draw, "draw", "begin", "m", "b", "count", "bits"), how, 640, m,
                nullptr, n, bits);
  const auto g = one.finite();
  auto bad = g;
  if (n > 0) bad.values[n - 1] = -1.1e16F;
  for (const auto& gradient : {g, bad})
    golden.record(LACONIC_BOTH(birder_moments, "step", "g", "m", "b", "count", "draw", "begin",
                               "wanted", "bits", "active"),
                  BirderMoments{0.9F, 0.1F}, gradient, m, b, n, how, 128,
                  std::uint64_t{0xA5A5F00F12345679}, bits, Array<std::uint64_t>{{0}});
  golden.record(LACONIC_BOTH(ratio_to_bf16, "m", "b", "count", "out"), m, b, n, one.bf16());
  golden.record(LACONIC_BOTH(activity, "values", "count"), one.live(), n);
  const auto signs = one.floats();  // one by one: arguments are evaluated in any order
  const auto some_active = one.bytes((words + 7) / 8);
  golden.record(LACONIC_BOTH(signs_to_floats, "bits", "active", "count", "out"), bits, some_active,
                n, signs);
  golden.record(LACONIC_BOTH(sign_update, "lr", "decay", "bits", "active", "x", "count"), 0.008F,
                0.9998F, bits, some_active, signs, n);
  for (int ranks : {1, 3, 8}) {
    Arrays<std::uint8_t> votes, active;
    std::vector<const std::uint8_t*> vote_pointers, active_pointers;
    for (int i = 0; i < ranks; ++i) {
      votes.push_back(one.bits());
      active.push_back(one.bytes((words + 7) / 8));
    }
    for (const auto& array : votes) vote_pointers.push_back(array.values.data());
    for (const auto& array : active) active_pointers.push_back(array.values.data());
    const int planes = planes_of(ranks);
    auto counts = one.bytes(words * static_cast<std::size_t>(planes) * 8);
    auto voters = one.array(std::vector<std::uint16_t>(words));
    golden.record(LACONIC_BOTH(count_signs, "bits", "active", "ranks", "words", "counts", "voters"),
                  votes, active, ranks, words, counts, voters);
    reference::count_signs(vote_pointers.data(), active_pointers.data(), ranks, words,
                           counts.values.data(), voters.values.data());
    golden.record(
        LACONIC_BOTH(redraw, "draw", "begin", "counts", "voters", "planes", "count", "bits"), how,
        4096, counts, voters, planes, n, bits);
    golden.record(LACONIC_BOTH(counts_to_floats, "counts", "voters", "planes", "count", "out"),
                  counts, voters, planes, n, one.floats());
  }
}

void record_vote(Golden& golden, Case& one, Ties ties) {
  const LionMoments moments{0.9F, 0.1F, 0.99F, 0.01F};
  const std::size_t n = one.count(), words = one.words();
  auto g = one.finite(), m = one.finite();
  for (std::size_t k = 3; k < n; k += 7) g.values[k] = m.values[k] = k % 2 == 0 ? 0.0F : -0.0F;
  const auto x = one.floats();
  const auto bits = one.bits();
  golden.record(LACONIC_BOTH(lion_step, "step", "g", "m", "x", "count"),
                LionStep{moments, 0.013F, 0.9997F}, g, m, x, n);
  auto bad = g;
  if (n > 0) bad.values[n / 2] = 1.1e16F;
  for (const auto& gradient : {g, bad})
    golden.record(LACONIC_BOTH(lion_votes, "step", "ties", "g", "m", "count", "bits", "active"),
                  moments, ties, gradient, m, n, bits, Array<std::uint64_t>{{0}});
  golden.record(LACONIC_BOTH(vote, "ties", "c", "count", "bits"), ties, g, n, bits);
  for (int ranks : {1, 3, 8, 20}) {
    Arrays<std::uint8_t> votes, active, counts, voters;
    const int planes = planes_of(ranks), sum = planes_of(3 * ranks);
    for (int i = 0; i < ranks; ++i) {
      votes.push_back(one.bits());
      active.push_back(one.bytes((words + 7) / 8));
    }
    golden.record(LACONIC_BOTH(majority, "ties", "bits", "active", "ranks", "words", "out"), ties,
                  votes, active, ranks, words, bits);
    for (int i = 0; i < 3; ++i) {
      counts.push_back(one.bytes(words * static_cast<std::size_t>(planes) * 8));
      std::vector<std::uint8_t> number(2 * words);
      for (std::size_t w = 0; w < words; w += 2) number[2 * w] = static_cast<std::uint8_t>(ranks);
      voters.push_back(one.array(number));
    }
    const auto total = one.bytes(words * static_cast<std::size_t>(sum) * 8);
    const auto all = one.array(std::vector<std::uint16_t>(words, static_cast<std::uint16_t>(2)));
    golden.record(LACONIC_BOTH(add_counts, "counts", "voters", "messages", "planes", "words",
                               "planes_out", "out", "voters_out"),
                  counts, voters, 3, planes, words, sum, total, all);
    golden.record(LACONIC_BOTH(majority_of, "ties", "counts", "voters", "planes", "words", "out"),
                  ties, total, all, sum, words, bits);
  }
}

bool record_all(const std::filesystem::path& directory) {
  Golden golden(directory);
  for (Kind kind : {Kind::kOrdinary, Kind::kMixed, Kind::kHuge, Kind::kTiny, Kind::kSpecial}) {
    Case one(kind == Kind::kOrdinary ? 4096 : 1003, 1, kind);
    record_sign(golden, one, Norm::kL2);
    record_sign(golden, one, Norm::kL1);
    for (const int bits : {8, 4, 2}) record_integers(golden, one, bits);
    for (const std::size_t slots : {77, 128, 4096}) record_top_k(golden, one, slots);
    record_dense(golden, one);
    record_update(golden, one, 0);
    record_update(golden, one, 0.01F);
    record_outer(golden, one);
    record_random_sign(golden, one);
    record_vote(golden, one, {.odd = false});
    record_vote(golden, one, {.odd = true});
  }
  return golden.finish();
}

}  // namespace
}  // namespace laconic::kernels

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: golden DIRECTORY\n");
    return 2;
  }
  std::filesystem::create_directories(argv[1]);
  return laconic::kernels::record_all(argv[1]) ? 0 : 1;
}
