#include "app/sweeps.h"

#include <algorithm>

#include "laconic/collective/mean.h"
#include "laconic/core/error.h"
#include "laconic/core/random.h"
#include "laconic/kernels/dense.h"
#include "laconic/kernels/integer.h"
#include "laconic/kernels/outer.h"
#include "laconic/kernels/random_sign.h"
#include "laconic/kernels/sign.h"
#include "laconic/kernels/update.h"
#include "laconic/kernels/vote.h"

namespace laconic::app {
namespace {

namespace k = kernels;

constexpr std::size_t kTile = laconic::kTile, kRun = laconic::kRun, kQuantBlock = 256;
constexpr k::AdamStep kStep{0.9F, 0.1F, 0.999F, 0.001F, 1e-4F, 1.0F, 1.0F, 1e-8F, 1e-5F};

thread_local float tile[kTile];

Buffer<float> random_floats(std::size_t n, float size) {
  Buffer<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto r =
        philox({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), 0, 0}, {1, 2});
    values[i] = static_cast<float>(static_cast<std::int32_t>(r[0])) * 0x1p-31F * size;
  }
  return values;
}

template <typename Work>
void for_each_tile(const Arrays& a, const Work& work) {
  for (std::size_t i = 0; i < a.size(); i += kTile) work(i, std::min(kTile, a.size() - i));
}

// What is decoded, in pieces as HostDevice has them.
template <typename Work>
void for_each_run(const Arrays& a, const Work& work) {
  for_each_tile(a, [&](std::size_t i, std::size_t count) {
    for (std::size_t k = 0; k < count; k += kRun) work(i + k, std::min(kRun, count - k));
  });
}

const float* finite_gradient(const Arrays& a, std::size_t i, std::size_t count) {
  return k::all_finite(a.g.data() + i, count) ? a.g.data() + i : nullptr;
}

// As HostDevice does it.
void code_terms(Arrays& a, std::size_t i, std::size_t count, const k::Terms& terms) {
  k::encode_signs(terms, a.e.data() + i, nullptr, count, kTile, k::Norm::kL2, 1.0F, a.e.data() + i,
                  &a.scales[i / kTile], a.bits.data() + i / 8);
}

// Of a tile that holds the residual already.
void code_tile(Arrays& a, std::size_t i, std::size_t count) {
  k::Lanes lanes;
  k::measure(tile, nullptr, nullptr, count, k::Norm::kL2, tile, lanes);
  const float scale = a.scales[i / kTile] = k::scale_of(k::fold(lanes), count, k::Norm::kL2);
  k::code(tile, nullptr, count, scale, 1.0F, a.e.data() + i, a.bits.data() + i / 8);
}

void encode_momentum(Arrays& a) {
  for_each_tile(a, [&](std::size_t i, std::size_t count) {
    code_terms(
        a, i, count,
        {a.m.data() + i, kStep.beta1, a.g.data() + i, kStep.one_minus_beta1, k::Bounded::kSecond});
  });
}

void decode_momentum(Arrays& a) {
  for_each_run(a, [&](std::size_t i, std::size_t count) {
    k::decode({a.scales[i / kTile], a.bits.data() + i / 8}, count, tile);
    k::one_bit_apply(kStep, tile, a.m.data() + i, a.v.data() + i, a.x.data() + i, count);
  });
}

void encode_pending(Arrays& a) {
  for_each_tile(a, [&](std::size_t i, std::size_t count) {
    k::zero_one_message(kStep, 1.0F, finite_gradient(a, i, count), a.m.data() + i, a.e.data() + i,
                        tile, count);
    code_tile(a, i, count);
  });
}

// The gradient's memory stands for the weights of the last sync.
void decode_pending(Arrays& a) {
  for_each_run(a, [&](std::size_t i, std::size_t count) {
    k::decode({a.scales[i / kTile], a.bits.data() + i / 8}, count, tile);
    k::zero_one_sync(kStep, 1.0F, tile, a.m.data() + i, a.v.data() + i, a.g.data() + i,
                     a.x.data() + i, count);
  });
}

void local_pending(Arrays& a) {
  for_each_tile(a, [&](std::size_t i, std::size_t count) {
    k::zero_one_local(kStep, 0.5F, a.g.data() + i, a.m.data() + i, a.v.data() + i, a.e.data() + i,
                      a.x.data() + i, count);
  });
}

k::Terms displacement(const Arrays& a, std::size_t i) {
  return {a.g.data() + i, 1, a.x.data() + i, -1, k::Bounded::kSum};
}

void outer_step(Arrays& a, std::size_t i, std::size_t count) {
  constexpr k::OuterStep kOuter{
      .rule = k::OuterRule::kNesterov, .rate = 0.7F, .momentum = 0.9F, .clip = 1e30F};
  k::outer_update(kOuter, tile, a.m.data() + i, nullptr, a.g.data() + i, a.x.data() + i, count);
}

void encode_displacement(Arrays& a) {
  for_each_tile(
      a, [&](std::size_t i, std::size_t count) { code_terms(a, i, count, displacement(a, i)); });
}

void decode_outer(Arrays& a) {
  for_each_run(a, [&](std::size_t i, std::size_t count) {
    k::decode({a.scales[i / kTile], a.bits.data() + i / 8}, count, tile);
    outer_step(a, i, count);
  });
}

void encode_displacement_int4(Arrays& a) {
  for_each_tile(a, [&](std::size_t i, std::size_t count) {
    k::encode_integers(displacement(a, i), a.e.data() + i, nullptr, count, kQuantBlock, 4, 1e36F,
                       1.0F, a.e.data() + i, a.scales.data() + i / kQuantBlock,
                       a.bits.data() + i / 2);
  });
}

void decode_outer_int4(Arrays& a) {
  for_each_run(a, [&](std::size_t i, std::size_t count) {
    for (std::size_t at = 0; at < count; at += kQuantBlock)
      k::from_integers({a.scales[(i + at) / kQuantBlock], a.bits.data() + (i + at) / 2}, 4,
                       std::min(kQuantBlock, count - at), tile + at);
    outer_step(a, i, count);
  });
}

void draw_moments(Arrays& a) {
  const k::Draw draw{.key = {1, 1}};
  for_each_tile(a, [&](std::size_t i, std::size_t count) {
    std::uint64_t active;
    k::birder_moments({0.9F, 0.1F}, a.g.data() + i, a.m.data() + i, a.e.data() + i, count, draw, i,
                      ~0ULL, a.bits.data() + i / 8, &active);
  });
}

void sign_step(Arrays& a) {
  const std::uint8_t active[8] = {255, 255, 255, 255, 255, 255, 255, 255};
  for_each_tile(a, [&](std::size_t i, std::size_t count) {
    k::sign_update(1e-4F, 1.0F, a.bits.data() + i / 8, active, a.x.data() + i, count);
  });
}

void adam(Arrays& a) {
  for_each_tile(a, [&](std::size_t i, std::size_t count) {
    k::adamw(kStep, a.g.data() + i, a.m.data() + i, a.v.data() + i, a.x.data() + i, count);
  });
}

// Two more passes, each over the whole vector: norms, then the weights.
void move_by_tensor(Arrays& a) {
  constexpr k::TrustStep step{1.0F, 1.0F, 1e-8F, 0.01F, 1e-5F};
  double x = 0, u = 0;
  for_each_tile(a, [&](std::size_t i, std::size_t count) {
    k::Lanes of_u, of_x;
    k::trust_squares(step, a.m.data() + i, a.v.data() + i, a.x.data() + i, count, 0, of_u, of_x);
    u += static_cast<double>(k::fold(of_u));
    x += static_cast<double>(k::fold(of_x));
  });
  const auto rate = static_cast<float>(u > 0 ? std::min(1e-4, 1e-6 * x / u) : 1e-4);
  for_each_tile(a, [&](std::size_t i, std::size_t count) {
    k::trust_apply(step, rate, a.m.data() + i, a.v.data() + i, a.x.data() + i, count);
  });
}

void adam_by_tensor(Arrays& a) {
  for_each_tile(a, [&](std::size_t i, std::size_t count) {
    k::Lanes unused;
    k::adam_moments(kStep, a.g.data() + i, a.m.data() + i, a.v.data() + i, count, unused);
  });
  move_by_tensor(a);
}

void decode_momentum_by_tensor(Arrays& a) {
  for_each_run(a, [&](std::size_t i, std::size_t count) {
    k::Lanes unused;
    k::decode({a.scales[i / kTile], a.bits.data() + i / 8}, count, tile);
    k::measure(tile, nullptr, a.v.data() + i, count, k::Norm::kL1, a.m.data() + i, unused);
  });
  move_by_tensor(a);
}

void momentum_sgd(Arrays& a) {
  for_each_tile(a, [&](std::size_t i, std::size_t count) {
    k::sgdm({0.9F, 1e-4F, 1.0F}, a.g.data() + i, a.m.data() + i, a.x.data() + i, count);
  });
}

constexpr k::LionMoments kMoments{0.9F, 0.1F, 0.99F, 0.01F};

void signed_momentum(Arrays& a) {
  for_each_tile(a, [&](std::size_t i, std::size_t count) {
    k::lion_step({kMoments, 1e-4F, 1.0F}, a.g.data() + i, a.m.data() + i, a.x.data() + i, count);
  });
}

void vote_moments(Arrays& a) {
  for_each_tile(a, [&](std::size_t i, std::size_t count) {
    std::uint64_t active;
    k::lion_votes(kMoments, {}, a.g.data() + i, a.m.data() + i, count, a.bits.data() + i / 8,
                  &active);
  });
}

using Traffics = std::vector<k::Traffic>;

constexpr Sweep kSweeps[] = {
    {"momentum-sgd", momentum_sgd,
     [](Arrays& a) -> Traffics {
       return {{.reads = {a.g.data()}, .updates = {a.m.data(), a.x.data()}}};
     }},
    {"adam", adam,
     [](Arrays& a) -> Traffics {
       return {{.reads = {a.g.data()}, .updates = {a.m.data(), a.v.data(), a.x.data()}}};
     }},
    {"adam-by-tensor", adam_by_tensor,
     [](Arrays& a) -> Traffics {
       return {{.reads = {a.g.data()}, .updates = {a.m.data(), a.v.data()}},
               {.reads = {a.m.data(), a.v.data(), a.x.data()}},
               {.reads = {a.m.data(), a.v.data()}, .updates = {a.x.data()}}};
     }},
    {"decode-momentum-by-tensor", decode_momentum_by_tensor,
     [](Arrays& a) -> Traffics {
       return {{.reads = {a.v.data()}, .writes = {a.m.data()}, .bits_in = a.bits.data()},
               {.reads = {a.m.data(), a.v.data(), a.x.data()}},
               {.reads = {a.m.data(), a.v.data()}, .updates = {a.x.data()}}};
     }},
    {"encode-momentum", encode_momentum,
     [](Arrays& a) -> Traffics {
       return {
           {.reads = {a.g.data(), a.m.data()}, .updates = {a.e.data()}, .bits_out = a.bits.data()}};
     }},
    {"decode-momentum", decode_momentum,
     [](Arrays& a) -> Traffics {
       return {{.reads = {a.v.data()},
                .updates = {a.x.data()},
                .writes = {a.m.data()},
                .bits_in = a.bits.data()}};
     }},
    {"encode-pending", encode_pending,
     [](Arrays& a) -> Traffics {
       return {
           {.reads = {a.g.data(), a.m.data()}, .updates = {a.e.data()}, .bits_out = a.bits.data()}};
     }},
    {"decode-pending", decode_pending,
     [](Arrays& a) -> Traffics {
       return {{.reads = {a.v.data()},
                .updates = {a.g.data()},
                .writes = {a.m.data(), a.x.data()},
                .bits_in = a.bits.data()}};
     }},
    {"local-pending", local_pending,
     [](Arrays& a) -> Traffics {
       return {
           {.reads = {a.g.data(), a.v.data()}, .updates = {a.m.data(), a.e.data(), a.x.data()}}};
     }},
    {"encode-displacement", encode_displacement,
     [](Arrays& a) -> Traffics {
       return {
           {.reads = {a.g.data(), a.x.data()}, .updates = {a.e.data()}, .bits_out = a.bits.data()}};
     }},
    {"decode-outer", decode_outer,
     [](Arrays& a) -> Traffics {
       return {
           {.updates = {a.m.data(), a.g.data()}, .writes = {a.x.data()}, .bits_in = a.bits.data()}};
     }},
    {"encode-displacement-int4", encode_displacement_int4,
     [](Arrays& a) -> Traffics {
       return {{.reads = {a.g.data(), a.x.data()},
                .updates = {a.e.data()},
                .bits_out = a.bits.data(),
                .bits_per_element = 4}};
     }},
    {"decode-outer-int4", decode_outer_int4,
     [](Arrays& a) -> Traffics {
       return {{.updates = {a.m.data(), a.g.data()},
                .writes = {a.x.data()},
                .bits_in = a.bits.data(),
                .bits_per_element = 4}};
     }},
    {"draw-moments", draw_moments,
     [](Arrays& a) -> Traffics {
       return {
           {.reads = {a.g.data()}, .updates = {a.m.data(), a.e.data()}, .bits_out = a.bits.data()}};
     }},
    {"signed-momentum", signed_momentum,
     [](Arrays& a) -> Traffics {
       return {{.reads = {a.g.data()}, .updates = {a.m.data(), a.x.data()}}};
     }},
    {"vote-moments", vote_moments,
     [](Arrays& a) -> Traffics {
       return {{.reads = {a.g.data()}, .updates = {a.m.data()}, .bits_out = a.bits.data()}};
     }},
    {"sign-step", sign_step,
     [](Arrays& a) -> Traffics { return {{.updates = {a.x.data()}, .bits_in = a.bits.data()}}; }},
};

}  // namespace

Arrays::Arrays(std::size_t n)
    : g(random_floats(n, 0.1F)),
      x(random_floats(n, 1.0F)),
      m(n),
      v(n),
      e(n),
      scales(n / kQuantBlock + 1),
      bits(n / 2 + 512) {
  std::fill_n(v.data(), n, 0.01F);
}

const Sweep* sweep_named(std::string_view name) {
  if (name.empty()) return nullptr;
  for (const Sweep& one : kSweeps)
    if (name == one.name) return &one;
  fail(Code::kInvalidArgument, "there is no sweep \"{}\": app/sweeps.cc has all", name);
}

}  // namespace laconic::app
