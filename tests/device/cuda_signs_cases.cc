#include <limits>

#include "laconic/device/host.h"
#include "laconic/wire/chunk.h"
#include "tests/device/cuda_case.h"

namespace laconic::testing {
namespace {

struct Options {
  std::string values = "normal", source = "moments";
  std::size_t elements = 4096, block = 4096;
  unsigned rows = 1;
  bool recorded = false, wanted = false;
  std::vector<std::pair<std::size_t, float>> bad = {};
};

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// The gradient of some words is 0 throughout.
std::vector<float> gradient(Case& c, const Options& o) {
  std::vector<float> g = c.floats(o.elements, o.values);
  for (std::size_t k = 0; k < g.size(); ++k)
    if (k / 64 % 5 == 3) g[k] = k % 2 == 0 ? 0.0F : -0.0F;
  for (const auto& [at, value] : o.bad) g[at] = value;
  return g;
}

void add(Cases& cases, const std::string& kernel, const std::string& name, const Options& o) {
  Case& c = cases.emplace_back(kernel, name);
  const Geometry at(o.elements, o.rows);
  const bool shares = kernel == "share_signs", votes = kernel == "cast_votes";
  const bool moments = o.source == "moments", checked = o.source == "values checked";
  const auto g = c.add("g", gradient(c, o)), m = c.add("m", c.floats(o.elements, o.values));
  auto bounds = c.floats(o.elements);
  for (std::size_t k = 0; k < bounds.size(); ++k)
    bounds[k] = k % 97 == 0 ? 0 : std::abs(m.host[k]) + std::abs(bounds[k]);
  const auto b = c.add("b", bounds);
  const auto recorded = c.add("recorded", std::vector<float>(o.elements, 3));
  const auto bad = c.counter("bad");
  std::vector<std::uint8_t> some(wire::words(at.capacity));
  for (std::size_t w = 0; w < some.size(); ++w) some[w] = w % 3 == 1;
  const auto wanted = c.add("wanted", some);
  const std::size_t bits = shares ? 2 * at.capacity : 8 * wire::words(at.capacity);
  const std::size_t size = bits + wire::activity_size(at.capacity);
  const std::size_t stride = (size + 256) / 256 * 256;
  const auto out = c.add("out", std::vector<std::uint8_t>(at.rows * stride, 0xA5));
  const kernels::Draw draw{.key = {7, 11}, .rank = 3, .bucket = 5};
  const kernels::BirderMoments birder{0.95F, 1 - 0.95F};
  const kernels::LionMoments lion{0.9F, 1 - 0.9F, 0.99F, 1 - 0.99F};
  const kernels::Ties ties{.odd = o.elements % 2 != 0};

  Counter found{0};
  const BadBlocks pieces{o.block, &found};
  const Source source = !moments ? Source(Values{g.host, checked})
                        : votes  ? Source(LionVotes{lion, ties, g.host, m.host, pieces})
                                 : Source(SignMoments{birder, g.host, m.host, b.host, pieces});
  const RecordedSource recording{&source, recorded.host};
  const Source given = o.recorded ? Source(recording) : source;
  HostDevice host;
  for (unsigned row = 0; row < at.rows; ++row) {
    std::uint8_t* to = out.host + row * stride;
    std::memset(to, 0, size);
    const Range range = at.range(row);
    if (shares)
      host.share(ShareSigns{range, given, reinterpret_cast<std::uint16_t*>(to), to + bits});
    else if (votes)
      host.vote({range, given, ties, to, to + bits});
    else
      host.draw({range, given, draw, o.wanted ? wanted.host : nullptr, to, to + bits});
    // What is not wanted is undefined on the host, and 0 here.
    for (std::size_t w = 0; o.wanted && w < some.size(); ++w)
      if (some[w] == 0) std::memset(to + 8 * w, 0, 8);
  }
  *bad.host += found.load();
  const std::size_t piece = o.block != 0 && cuda::kTile % o.block == 0 ? o.block : 0;
  c.launch(cuda::encode_grid(at.device(cuda::kTile), at.rows),
           cuda::SignsArguments{.rows = at.device(cuda::kTile),
                                .out = {out.device, static_cast<std::int64_t>(stride)},
                                .g = g.device,
                                .m = moments ? m.device : nullptr,
                                .b = moments ? b.device : nullptr,
                                .wanted = o.wanted ? wanted.device : nullptr,
                                .recorded = o.recorded ? recorded.device : nullptr,
                                .bad = {bad.device, static_cast<std::int64_t>(piece)},
                                .draw = draw,
                                .moments = birder,
                                .votes = lion,
                                .checked = checked,
                                .ties = ties});
}

}  // namespace

void add_signs_cases(Cases& cases) {
  for (const char* kernel : {"draw_signs", "cast_votes", "share_signs"}) {
    add(cases, kernel, "moments, counted", {});
    add(cases, kernel, "ragged rows, small numbers",
        {.values = "tiny", .elements = 333, .rows = 2, .recorded = true});
    add(cases, kernel, "bad blocks",
        {.elements = 600, .block = 128, .recorded = true, .bad = {{130, kNaN}, {599, 2e16F}}});
    add(cases, kernel, "bad blocks that do not divide a tile",
        {.elements = 300, .block = 192, .bad = {{130, kNaN}}});
    add(cases, kernel, "zeros", {.values = "zeros", .elements = 129, .block = 0});
    add(cases, kernel, "checked values",
        {.source = "values checked", .elements = 4163, .recorded = true, .bad = {{3, kNaN}}});
    add(cases, kernel, "values",
        {.values = "zeros", .source = "values", .elements = 200, .bad = {{3, kNaN}}});
  }
  add(cases, "draw_signs", "some words", {.elements = 700, .wanted = true});
}

}  // namespace laconic::testing
