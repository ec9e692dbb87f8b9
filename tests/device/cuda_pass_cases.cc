#include <cmath>
#include <limits>

#include "laconic/device/host.h"
#include "laconic/kernels/dense.h"
#include "laconic/kernels/sign.h"
#include "tests/device/cuda_case.h"

namespace laconic::testing {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Table {
  std::vector<std::size_t> begins;
  std::vector<float> values;
  Both<std::int64_t> begun;
  Both<float> floors;
  std::size_t elements;

  Table(Case& c, std::vector<std::size_t> from, std::size_t elements)
      : begins(std::move(from)), elements(elements) {
    for (const float value : c.floats(begins.size())) values.push_back(std::abs(value) / 4);
    begun = c.add("begins", std::vector<std::int64_t>(begins.begin(), begins.end()));
    floors = c.add("floors", values);
  }
  FloorTable host() { return {begins, values, elements, nullptr}; }
  cuda::Floors device() const {
    return {begun.device, floors.device, static_cast<std::int64_t>(begins.size()),
            static_cast<std::int64_t>(elements)};
  }
  cuda::Grid grid() const { return cuda::block_grid(static_cast<std::int64_t>(begins.size())); }
};

std::vector<float> variance(Case& c, std::size_t count, const std::string& values) {
  auto v = c.floats(count, values);
  for (float& one : v) one = c.random() % 5 == 0 ? 0 : std::abs(one);
  return v;
}

void add_local(Cases& cases, const std::string& name, const std::string& values,
               const std::vector<std::size_t>& begins, std::size_t elements) {
  Case& c = cases.emplace_back("local_step", name);
  auto gradient = c.floats(elements, values);
  if (begins.size() > 1) gradient[begins.back() + 37] = kNaN;
  const auto g = c.add("g", gradient), m = c.add("m", c.floats(elements, values)),
             v = c.add("v", variance(c, elements, values)),
             pending = c.add("pending", c.floats(elements, values)),
             x = c.add("x", c.floats(elements, values));
  const auto bad = c.counter("bad");
  Table table(c, begins, elements);
  Counter found{0};
  HostDevice().run(LocalStep{adam_step(), 0.83F, g.host, m.host, v.host, pending.host, x.host,
                             table.host(), &found});
  *bad.host += found.load();
  c.launch(table.grid(),
           cuda::LocalStepArguments{g.device, m.device, v.device, pending.device, x.device,
                                    bad.device, table.device(), adam_step(), 0.83F});
}

void add_apply(Cases& cases, const std::string& name, bool marked) {
  Case& c = cases.emplace_back("moments_apply", name);
  const std::size_t elements = 900;
  const auto m = c.add("m", c.floats(elements)), v = c.add("v", variance(c, elements, "denormal")),
             x = c.add("x", c.floats(elements)), copy = c.add("copy", c.floats(elements));
  std::vector<std::uint8_t> marks(15);
  if (marked) marks[7] = marks[14] = 1;
  const auto left = c.add("left", marks);
  Table table(c, {0, 256, 512, 768}, elements);
  HostDevice().run(
      MomentsApply{adam_step(), m.host, v.host, x.host, copy.host, left.host, table.host()});
  c.launch(table.grid(), cuda::MomentsApplyArguments{m.device, v.device, x.device, copy.device,
                                                     left.device, table.device(), adam_step()});
}

float mean_of(const float* v, std::size_t count, bool in_parts) {
  kernels::Lanes lanes;
  double total = 0;
  std::vector<float> unused(kTile);
  for (std::size_t at = 0; at < count; at += kTile) {
    kernels::measure(v + at, nullptr, nullptr, std::min(kTile, count - at), kernels::Norm::kL1,
                     unused.data(), lanes);
    if (!in_parts) continue;
    total += kernels::fold(lanes);
    lanes = {};
  }
  const float sum = in_parts ? static_cast<float>(total) : kernels::fold(lanes);
  return sum / static_cast<float>(count);
}

void add_floors(Cases& cases, const std::string& name, const std::vector<std::size_t>& begins,
                std::size_t elements, bool in_parts, bool freeze, bool on) {
  Case& c = cases.emplace_back("update_floors", name);
  auto values = variance(c, elements, "denormal");
  std::fill_n(values.begin(), 64, 0.0F);
  const auto v = c.add("v", values);
  const auto dead = c.counter("dead");
  Table table(c, begins, elements);
  for (std::size_t b = 0; b < begins.size(); ++b) {
    const std::size_t end = b + 1 < begins.size() ? begins[b + 1] : elements;
    const std::size_t count = end - begins[b];
    float* at = v.host + begins[b];
    float mean = mean_of(at, count, in_parts);
    if (freeze) {
      for (std::size_t k = 0; k < count; ++k)
        if (at[k] == 0) at[k] = mean;
      mean = mean_of(at, count, in_parts);
    }
    table.floors.host[b] = on ? mean * 0.01F : 0;
    if (mean == 0) ++*dead.host;
  }
  c.launch(table.grid(),
           cuda::FloorsArguments{v.device, table.floors.device, table.begun.device, dead.device,
                                 static_cast<std::int64_t>(begins.size()),
                                 static_cast<std::int64_t>(elements), 0.01F, on, in_parts, freeze});
}

void add_measure(Cases& cases, kernels::Norm norm) {
  Case& c = cases.emplace_back("measure", norm == kernels::Norm::kL1 ? "L1" : "L2");
  const std::size_t elements = 9000;
  auto values = c.floats(elements, norm == kernels::Norm::kL1 ? "denormal" : "normal");
  values[4300] = 2e16F;
  values[8500] = kNaN;
  const auto a = c.add("values", values);
  const auto sums = c.add("sums", std::vector<float>(3, 7));
  const auto finite = c.add("finite", std::vector<std::uint8_t>(3, 7));
  for (std::size_t tile = 0; tile < 3; ++tile) {
    const std::size_t count = std::min(kTile, elements - tile * kTile);
    const float* from = a.host + tile * kTile;
    sums.host[tile] = norm == kernels::Norm::kL2
                          ? kernels::sum_of_squares(from, count)
                          : mean_of(from, count, false) * static_cast<float>(count);
    if (norm == kernels::Norm::kL1) {
      kernels::Lanes lanes;
      std::vector<float> unused(kTile);
      kernels::measure(from, nullptr, nullptr, count, norm, unused.data(), lanes);
      sums.host[tile] = kernels::fold(lanes);
    }
    finite.host[tile] = kernels::all_finite(from, count);
  }
  c.launch(cuda::tile_grid(static_cast<std::int64_t>(elements)),
           cuda::MeasureArguments{a.device, sums.device, finite.device,
                                  static_cast<std::int64_t>(elements), norm});
}

void add_scale(Cases& cases) {
  Case& c = cases.emplace_back("scale", "a ragged end");
  const auto a = c.add("a", c.floats(300, "tiny"));
  kernels::scale(a.host, 300, 0.3F);
  c.launch(cuda::tile_grid(300), cuda::ScaleArguments{a.device, 300, 0.3F});
}

// A tensor that lies in two buckets of one memory, and one of several pieces.
void add_tensors(Cases& cases, bool applies) {
  Case& c = cases.emplace_back(applies ? "tensor_apply" : "tensor_norms", "parts and floors");
  const std::size_t first = 640, second = 5000;  // elements of the buckets
  const auto x = c.add("x", c.floats(first + second));
  const auto m0 = c.add("m0", c.floats(first)), m1 = c.add("m1", c.floats(second));
  const auto v0 = c.add("v0", variance(c, first, "normal")),
             v1 = c.add("v1", variance(c, second, "denormal"));
  std::vector<std::uint8_t> marks(80);
  marks[1] = marks[70] = 1;
  const auto left = c.add("left", marks), none = c.add("none", std::vector<std::uint8_t>(10));
  Table table(c, {0, 128, 4160, 4800}, second);
  const kernels::TrustStep step{1.3F, 1.234F, 1e-8F, 0.01F};
  std::vector<TensorPart> parts = {
      {100, 540, step, 0.01F, m0.host, v0.host, x.host, none.host, {}},
      {0, 90, step, 0.01F, m1.host, v1.host, x.host + first, left.host, table.host()},
      {90, 4910, step, 0.02F, m1.host, v1.host, x.host + first, left.host, table.host()},
      {0, 100, step, 0, m0.host, v0.host, x.host, none.host, {}}};
  const std::vector<TensorPiece> pieces = {
      {0, 100, 630}, {2, 90, 4096}, {2, 4186, 814}, {3, 0, 100}};
  std::vector<cuda::TensorPart> same;
  for (const TensorPart& part : parts) {
    const bool of_first = part.x == x.host;
    same.push_back({static_cast<std::int64_t>(part.begin), static_cast<std::int64_t>(part.count),
                    of_first ? m0.device : m1.device, of_first ? v0.device : v1.device,
                    of_first ? x.device : x.device + first, of_first ? none.device : left.device,
                    of_first ? cuda::Floors{} : table.device(), part.step, part.rate});
  }
  std::vector<cuda::TensorPiece> also;
  for (const TensorPiece& one : pieces)
    also.push_back({static_cast<std::int64_t>(one.part), static_cast<std::int64_t>(one.begin),
                    static_cast<std::int64_t>(one.count)});
  const auto list = c.add("parts", same);
  const auto cut = c.add("pieces", also);
  const auto norms = c.add("norms", std::vector<float>(8, 7));
  if (applies) {
    HostDevice().run(TensorApply{parts, pieces});
  } else {
    double of_x[4], of_u[4];
    HostDevice().run(TensorNorms{parts, pieces, of_x, of_u});
    for (int i = 0; i < 4; ++i) {
      norms.host[i] = static_cast<float>(of_x[i]);
      norms.host[4 + i] = static_cast<float>(of_u[i]);
    }
  }
  c.launch(cuda::block_grid(4),
           cuda::TensorArguments{list.device, cut.device, norms.device, norms.device + 4});
}

}  // namespace

void add_pass_cases(Cases& cases) {
  add_local(cases, "blocks", "normal", {0, 256, 320}, 400);
  add_local(cases, "a long block", "denormal", {0, 4800}, 5000);
  add_local(cases, "large numbers", "large", {0, 64}, 130);
  add_local(cases, "a block, counted", "normal", {0}, 4096);
  add_apply(cases, "all", false);
  add_apply(cases, "marked blocks stay", true);
  add_floors(cases, "blocks", {0, 64, 320}, 400, false, false, true);
  add_floors(cases, "frozen", {0, 64, 320}, 4500, false, true, true);
  add_floors(cases, "one for a chunk, off", {0, 4608}, 9000, true, true, false);
  add_floors(cases, "one for a chunk", {0}, 5000, true, false, true);
  add_measure(cases, kernels::Norm::kL1);
  add_measure(cases, kernels::Norm::kL2);
  add_scale(cases);
  add_tensors(cases, false);
  add_tensors(cases, true);
}

}  // namespace laconic::testing
