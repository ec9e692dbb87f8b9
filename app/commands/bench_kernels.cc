#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <functional>

#include "app/commands/bench_rows.h"
#include "app/commands/commands.h"
#include "app/commands/kernel_arrays.h"
#include "laconic/core/error.h"
#include "laconic/kernels/dense.h"
#include "laconic/kernels/integer.h"
#include "laconic/kernels/outer.h"
#include "laconic/kernels/plain.h"
#include "laconic/kernels/random_sign.h"
#include "laconic/kernels/sign.h"
#include "laconic/kernels/target.h"
#include "laconic/kernels/top_k.h"
#include "laconic/kernels/update.h"
#include "laconic/kernels/vote.h"

namespace laconic::app::commands {
namespace {

namespace k = kernels;

constexpr std::size_t kTopK = 128;  // elements of a block
constexpr float kLargestScale = 1e36F;

struct KernelsOptions {
  std::size_t elements = std::size_t{64} << 20;
  int repeats = 7;
  bool json = false;
  std::string target;
};

struct Case {
  const char* name;
  const char* limit;  // "streaming": memory bounds it; "compute": arithmetic does
  k::Traffic traffic;
  std::function<void(std::size_t at, std::size_t count)> run;  // one block
  k::Traffic more = {};                                        // of a second sweep, where any
};

std::vector<Case> cases(KernelArrays& a) {
  constexpr const char* kStreaming = "streaming";
  constexpr const char* kCompute = "compute";
  static const k::AdamStep step{0.9F, 0.1F, 0.999F, 0.001F, 1e-4F, 1.0F, 1.0F, 1e-8F, 0.0F};
  static const k::TrustStep trust{1.0F, 1.0F, 1e-8F, 0.01F, 0.0F};
  static const k::Draw draw{.key = {1, 2}};
  static const k::LionMoments moments{0.9F, 0.1F, 0.99F, 0.01F};
  static Buffer<float> tile(kBlock);
  float *g = a.g.data(), *m = a.m.data(), *v = a.v.data(), *x = a.x.data(), *e = a.e.data();
  float *t = tile.data(), *s = a.scales.data();
  std::uint8_t *bits = a.bits.data(), *coded = a.coded.data();
  const auto encode = [=](k::Norm norm) {
    return [=](std::size_t i, std::size_t n) {
      k::encode_signs(g + i, e + i, nullptr, n, kBlock, norm, 1.0F, e + i, s + i / kBlock,
                      coded + i / 8);
    };
  };
  const auto for_each_scale = [](std::size_t i, std::size_t n, const auto& work) {
    for (std::size_t at = i; at < i + n; at += kIntegers) work(at, std::min(kIntegers, i + n - at));
  };
  const auto encode_integers = [=](int width) {
    return [=](std::size_t i, std::size_t n) {
      k::encode_integers(g + i, e + i, nullptr, n, kIntegers, width, kLargestScale, 1.0F, e + i,
                         s + i / kIntegers, coded + i * static_cast<std::size_t>(width) / 8);
    };
  };
  const auto integers_at = [=](std::size_t at, int width) {
    return k::Integers{s[at / kIntegers], bits + at * static_cast<std::size_t>(width) / 8};
  };
  const auto decode_integers = [=](int width) {
    return [=](std::size_t i, std::size_t n) {
      for_each_scale(i, n, [=](std::size_t at, std::size_t count) {
        k::from_integers(integers_at(at, width), width, count, m + at);
      });
    };
  };
  const auto serve_integers = [=](int width) {
    return [=](std::size_t i, std::size_t n) {
      for_each_scale(i, n, [=](std::size_t at, std::size_t count) {
        k::Integers from[kVoices];
        for (auto& one : from) one = integers_at(at, width);
        k::Lanes lanes;
        k::sum_integers(from, kVoices, width, 1.0F / kVoices, e + at, nullptr, count, t, lanes);
        k::to_integers(t, nullptr, count, width, k::integer_scale(k::largest_of(lanes), width),
                       1.0F, e + at, coded + at * static_cast<std::size_t>(width) / 8);
      });
    };
  };
  // Places lie where `encode_top_k` put them; the two after it read them.
  const auto places_at = [=](std::size_t i) { return coded + i / kBlock * k::top_k_bytes(kTopK); };
  const auto slots = [](std::size_t n) { return std::min(n, kTopK); };
  return {
      {"encode_l2",
       kStreaming,
       {.reads = {g}, .updates = {e}, .bits_out = coded},
       encode(k::Norm::kL2)},
      {"encode_l1",
       kStreaming,
       {.reads = {g}, .updates = {e}, .bits_out = coded},
       encode(k::Norm::kL1)},
      {"decode",
       kStreaming,
       {.writes = {m}, .bits_in = bits},
       [=](std::size_t i, std::size_t n) {
         k::decode({s[i / kBlock], bits + i / 8}, n, m + i);
       }},
      {"serve_4",
       kCompute,
       {.updates = {e}, .bits_in = bits, .bits_out = coded},
       [=](std::size_t i, std::size_t n) {
         k::Coded from[kVoices];
         for (auto& one : from) one = {s[i / kBlock], bits + i / 8};
         k::Lanes lanes;
         k::serve(from, kVoices, 1.0F / kVoices, e + i, nullptr, n, k::Norm::kL2, t, lanes);
         const float scale = k::scale_of(k::fold(lanes), n, k::Norm::kL2);
         k::code(t, nullptr, n, scale, 1.0F, e + i, coded + i / 8);
       }},
      {"encode_int8",
       kStreaming,
       {.reads = {g}, .updates = {e}, .bits_out = coded, .bits_per_element = 8},
       encode_integers(8)},
      {"encode_int4",
       kStreaming,
       {.reads = {g}, .updates = {e}, .bits_out = coded, .bits_per_element = 4},
       encode_integers(4)},
      {"encode_int2",
       kStreaming,
       {.reads = {g}, .updates = {e}, .bits_out = coded, .bits_per_element = 2},
       encode_integers(2)},
      {"decode_int8",
       kStreaming,
       {.writes = {m}, .bits_in = bits, .bits_per_element = 8},
       decode_integers(8)},
      {"decode_int4",
       kStreaming,
       {.writes = {m}, .bits_in = bits, .bits_per_element = 4},
       decode_integers(4)},
      {"decode_int2",
       kStreaming,
       {.writes = {m}, .bits_in = bits, .bits_per_element = 2},
       decode_integers(2)},
      {"combine_int8_4",
       kCompute,
       {.updates = {e}, .bits_in = bits, .bits_out = coded, .bits_per_element = 8},
       serve_integers(8)},
      {"combine_int4_4",
       kCompute,
       {.updates = {e}, .bits_in = bits, .bits_out = coded, .bits_per_element = 4},
       serve_integers(4)},
      {"encode_top_k",
       kCompute,
       {.reads = {g}, .updates = {e}},
       [=](std::size_t i, std::size_t n) {
         k::Lanes lanes;
         k::measure_largest(g + i, e + i, nullptr, n, t, lanes);
         const float largest = k::largest_of(lanes);
         s[i / kBlock] = k::integer_scale(largest, k::kTopKBits);
         k::to_top_k(t, nullptr, n, slots(n), largest, 1.0F, e + i, places_at(i));
       }},
      {"decode_top_k",
       kStreaming,
       {.writes = {m}},
       [=](std::size_t i, std::size_t n) {
         k::from_top_k({s[i / kBlock], places_at(i)}, slots(n), 0, n, m + i);
       }},
      {"sum_top_k_4",
       kCompute,
       {.reads = {e}},
       [=](std::size_t i, std::size_t n) {
         k::Integers from[kVoices];
         for (auto& one : from) one = {s[i / kBlock], places_at(i)};
         k::Lanes lanes;
         k::sum_top_k(from, kVoices, slots(n), 1.0F / kVoices, e + i, nullptr, 0, n, t, lanes);
       }},
      {"sgdm",
       kStreaming,
       {.reads = {g}, .updates = {m, x}},
       [=](std::size_t i, std::size_t n) {
         k::sgdm({0.9F, 1e-4F, 1.0F}, g + i, m + i, x + i, n);
       }},
      {"lion_step",
       kStreaming,
       {.reads = {g}, .updates = {m, x}},
       [=](std::size_t i, std::size_t n) {
         k::lion_step({moments, 1e-4F, 1.0F}, g + i, m + i, x + i, n);
       }},
      {"adamw",
       kStreaming,
       {.reads = {g}, .updates = {m, v, x}},
       [=](std::size_t i, std::size_t n) { k::adamw(step, g + i, m + i, v + i, x + i, n); }},
      {"displacement",
       kStreaming,
       {.reads = {g, x}, .writes = {e}},
       [=](std::size_t i, std::size_t n) { k::displacement(g + i, x + i, n, e + i); }},
      {"outer_update",
       kStreaming,
       {.reads = {g}, .updates = {m, v}, .writes = {x}},
       [=](std::size_t i, std::size_t n) {
         const k::OuterStep outer{
             .rule = k::OuterRule::kNesterov, .rate = 0, .momentum = 0.9F, .clip = 1e30F};
         k::outer_update(outer, g + i, m + i, nullptr, v + i, x + i, n);
       }},
      {"momentum",
       kStreaming,
       {.reads = {g, m}, .writes = {e}},
       [=](std::size_t i, std::size_t n) { k::momentum(step, g + i, m + i, e + i, n); }},
      {"one_bit_apply",
       kStreaming,
       {.reads = {g, v}, .updates = {x}, .writes = {m}},
       [=](std::size_t i, std::size_t n) {
         k::one_bit_apply(step, g + i, m + i, v + i, x + i, n);
       }},
      {"trust_squares",
       kStreaming,
       {.reads = {m, v, x}},
       [=](std::size_t i, std::size_t n) {
         k::Lanes of_u, of_x;
         k::trust_squares(trust, m + i, v + i, x + i, n, 0, of_u, of_x);
       }},
      {"trust_apply",
       kStreaming,
       {.reads = {m, v}, .updates = {x}},
       [=](std::size_t i, std::size_t n) { k::trust_apply(trust, 1e-4F, m + i, v + i, x + i, n); }},
      {"zero_one_message",
       kStreaming,
       {.reads = {g, m, e}, .writes = {x}},
       [=](std::size_t i, std::size_t n) {
         k::zero_one_message(step, 1.0F, g + i, m + i, e + i, x + i, n);
       }},
      {"zero_one_local",
       kStreaming,
       {.reads = {g, v}, .updates = {m, e, x}},
       [=](std::size_t i, std::size_t n) {
         k::zero_one_local(step, 0.5F, g + i, m + i, v + i, e + i, x + i, n);
       }},
      {"zero_one_sync",
       kStreaming,
       {.reads = {g, v}, .updates = {x}, .writes = {m, e}},
       [=](std::size_t i, std::size_t n) {
         k::zero_one_sync(step, 1.0F, g + i, m + i, v + i, x + i, e + i, n);
       }},
      {"birder_moments_draw",
       kStreaming,
       {.reads = {g}, .updates = {m, e}, .bits_out = coded},
       [=](std::size_t i, std::size_t n) {
         std::uint64_t active;
         k::birder_moments({0.9F, 0.1F}, g + i, m + i, e + i, n, draw, i, ~0ULL, coded + i / 8,
                           &active);
       }},
      {"birder_update",
       kStreaming,
       {.reads = {g}, .updates = {x}},
       [=](std::size_t i, std::size_t n) { k::birder_update(1e-4F, 1.0F, g + i, x + i, n); }},
      {"sign_update",
       kStreaming,
       {.updates = {x}, .bits_in = bits},
       [=, &a](std::size_t i, std::size_t n) {
         k::sign_update(1e-4F, 1.0F, bits + i / 8, a.active.data() + i / 64 / 8, x + i, n);
       }},
      {"draw",
       kCompute,
       {.reads = {m, v}, .bits_out = coded},
       [=](std::size_t i, std::size_t n) { k::draw(draw, i, m + i, v + i, n, coded + i / 8); }},
      {"count_redraw_4",
       kCompute,
       {.bits_in = bits, .bits_out = coded},
       [=, &a](std::size_t i, std::size_t n) {
         const std::uint8_t *from[kVoices], *active[kVoices];
         for (int r = 0; r < kVoices; ++r) {
           from[r] = bits + i / 8;
           active[r] = a.active.data() + i / 64 / 8;
         }
         std::uint8_t* counts = a.counts.data();
         k::count_signs(from, active, kVoices, (n + 63) / 64, counts, a.voters.data());
         k::redraw(draw, i, counts, a.voters.data(), k::planes_of(kVoices), n, coded + i / 8);
       }},
      {"lion_votes",
       kStreaming,
       {.reads = {g}, .updates = {m}, .bits_out = coded},
       [=](std::size_t i, std::size_t n) {
         std::uint64_t active;
         k::lion_votes(moments, {}, g + i, m + i, n, coded + i / 8, &active);
       }},
      {"vote_4",
       kStreaming,
       {.bits_in = bits, .bits_per_element = kVoices},
       [=, &a](std::size_t i, std::size_t n) {
         const std::size_t bytes = a.x.size() / 64 * 8;
         const std::uint8_t *from[kVoices], *active[kVoices];
         for (int r = 0; r < kVoices; ++r) {
           from[r] = bits + static_cast<std::size_t>(r) * bytes + i / 8;
           active[r] = a.active.data() + i / 64 / 8;
         }
         k::majority({}, from, active, kVoices, (n + 63) / 64, coded + i / 8);
       },
       {.bits_out = coded}},
      {"add",
       kStreaming,
       {.reads = {g}, .updates = {x}},
       [=](std::size_t i, std::size_t n) { k::add(g + i, n, x + i); }},
      {"sum_2",
       kStreaming,
       {.reads = {g, v}, .writes = {m}},
       [=](std::size_t i, std::size_t n) {
         const float* from[] = {g + i, v + i};
         k::sum(from, 2, n, 0.5F, m + i);
       }},
      {"to_bf16",
       kCompute,
       {.reads = {g}},
       [=, &a](std::size_t i, std::size_t n) { k::to_bf16(g + i, n, a.half.data()); }},
  };
}

// Every target must give the bytes that the best one gives, on the first blocks of fresh arrays.
void verify() {
  constexpr std::size_t kSize = 3 * kBlock;
  std::vector<std::uint64_t> expected;
  const std::string best = k::targets().front();
  for (const std::string& target : k::targets()) {
    k::set_target(target);
    KernelArrays arrays(kSize);
    std::size_t number = 0;
    for (const Case& one : cases(arrays)) {
      for (std::size_t at = 0; at < kSize; at += kBlock) one.run(at, kBlock);
      std::uint64_t sum = 0;
      for (const auto* floats : {&arrays.m, &arrays.v, &arrays.x, &arrays.e})
        for (const float value : floats->span()) {
          std::uint32_t word;
          std::memcpy(&word, &value, 4);
          sum = sum * 31 + word;
        }
      for (const std::uint8_t byte : arrays.coded.span()) sum = sum * 31 + byte;
      if (target == best)
        expected.push_back(sum);
      else if (expected[number] != sum)
        fail(Code::kCorrupt, "kernel {} differs between {} and {}", one.name, best, target);
      ++number;
    }
  }
  k::set_target("");
}

void run(const KernelsOptions& options) {
  run_on(options.target);  // an error before anything is measured
  const std::string target = k::target();
  verify();
  k::set_target(target);
  KernelArrays arrays(options.elements);
  Rows rows(options.elements, options.repeats, options.json);
  for (const Case& one : cases(arrays)) {
    std::vector<k::Traffic> sweeps{one.traffic};
    if (one.more.bytes_per_element() > 0) sweeps.push_back(one.more);
    rows.measure(one.name, one.limit, sweeps, [&] {
      for (std::size_t at = 0; at < options.elements; at += kBlock)
        one.run(at, std::min(kBlock, options.elements - at));
    });
  }
}

}  // namespace

void add_bench_kernels(CLI::App& bench) {
  auto options = std::make_shared<KernelsOptions>();
  CLI::App* command = bench.add_subcommand("kernels", "Each kernel against the speed of memory");
  command->footer("Example: laconic bench kernels --elements 67108864 --json");
  command->add_option("--elements", options->elements, "Length of the arrays")
      ->check(CLI::Range(std::size_t{kBlock}, std::size_t{1} << 32))
      ->capture_default_str();
  command->add_option("--repeats", options->repeats, "Timed runs of each")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add_target(*command, options->target);
  command->add_flag("--json", options->json, "An array of objects instead of a table");
  command->callback([options] { run(*options); });
}

}  // namespace laconic::app::commands
