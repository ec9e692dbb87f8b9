#include "laconic/codec/codec.h"
#include "laconic/device/host.h"
#include "tests/device/cuda_encode_case.h"

namespace laconic::testing {

using cuda::SourceKind;

std::vector<float> with(std::vector<float> values,
                        const std::vector<std::pair<std::size_t, float>>& changes) {
  for (const auto& [at, value] : changes) values[at] = value;
  return values;
}

Given give(Case& c, const EncodeOptions& o, Both<float> pending) {
  const auto g = c.add("g", with(c.floats(o.elements, o.values), o.bad));
  const auto m = c.add("m", c.floats(o.elements, o.values));
  const kernels::AdamStep step = adam_step();
  cuda::Source device{.values = g.device,
                      .m = m.device,
                      .pending = pending.device,
                      .step = step,
                      .shrink = 0.83F,
                      .kind = SourceKind::kValues,
                      .checked = 0,
                      .zero = 0};
  if (o.source == "momentum") {
    device.kind = SourceKind::kMomentum;
    return {Momentum{step, g.host, m.host, nullptr}, device};
  }
  if (o.source == "pending" || o.source == "pending alone") {
    const bool alone = o.source == "pending alone";
    device.kind = SourceKind::kPendingMomentum;
    if (alone) device.values = nullptr;
    return {PendingMomentum{step, 0.83F, alone ? nullptr : g.host, m.host, pending.host, nullptr},
            device};
  }
  if (o.source == "displacement") {
    device.kind = SourceKind::kDisplacement;
    return {Displacement{g.host, m.host, {}}, device};
  }
  device.checked = device.zero = o.source == "values checked";
  return {Values{g.host, device.checked != 0}, device};
}

namespace {

void add_dense(Cases& cases, const std::string& name, const EncodeOptions& o, bool bf16,
               bool falls_back) {
  const auto codec = make_codec(bf16 ? "bf16" : "fp32");
  Case& c = cases.emplace_back("encode_dense", name);
  const Geometry at(o.elements, o.rows, o.slice, o.capacity);
  const std::size_t size = codec->message_size(at.capacity);
  const std::size_t stride = (size + kStride) / kStride * kStride;
  const auto e = c.add("e", c.floats(o.elements, o.values));
  const Given source = give(c, o, e);
  const auto spent = c.add("spent", c.floats(o.elements)),
             recorded = c.add("recorded", std::vector<float>(o.elements, 3));
  const auto out = c.add("out", std::vector<std::uint8_t>(at.rows * stride, 0xA5));
  const auto bad = c.counter("bad");
  HostDevice host;
  std::uint64_t found = 0;
  const RecordedSource recording{&source.host, recorded.host};
  for (unsigned row = 0; row < at.rows; ++row) {
    const Range range = at.range(row);
    std::vector<float> values(at.capacity);
    host.share(ShareValues{.range = range,
                           .source = o.recorded ? Source(recording) : source.host,
                           .block = o.scale_block,
                           .falls_back = falls_back,
                           .spent = o.spends ? spent.host : nullptr,
                           .out = values.data()},
               found);
    codec->encode(values.data(), nullptr, {at.capacity, 0, at.capacity},
                  *std::make_unique<Codec::Block>(), 1, values.data(),
                  reinterpret_cast<std::byte*>(out.host) + row * stride);
  }
  *bad.host += found;
  const cuda::Rows rows = at.device(o.scale_block == 0 ? at.capacity : o.scale_block);
  c.launch(cuda::encode_grid(rows, at.rows),
           cuda::DenseArguments{.rows = rows,
                                .out = {out.device, static_cast<std::int64_t>(stride)},
                                .spent = o.spends ? spent.device : nullptr,
                                .recorded = o.recorded ? recorded.device : nullptr,
                                .bad = bad.device,
                                .source = source.device,
                                .falls_back = falls_back,
                                .bf16 = bf16});
}

}  // namespace

void add_dense_cases(Cases& cases) {
  add_dense(cases, "values, counted", {}, false, false);
  add_dense(cases, "displacement, bf16, counted", {.source = "displacement"}, true, true);
  add_dense(cases, "values", {.elements = 200, .rows = 2, .recorded = true, .bad = {{3, kNaN}}},
            false, false);
  add_dense(cases, "bf16 of edges",
            {.values = "zeros",
             .elements = 300,
             .bad = {{3, kNaN}, {4, -kInf}, {5, 3.4e38F}, {6, 1e-41F}}},
            true, false);
  add_dense(cases, "momentum without what is bad",
            {.source = "momentum",
             .elements = 300,
             .scale_block = 128,
             .recorded = true,
             .bad = {{3, kNaN}, {290, 2e16F}}},
            false, true);
  add_dense(
      cases, "pending, bf16",
      {.source = "pending", .elements = 300, .scale_block = 64, .spends = true, .bad = {{3, kInf}}},
      true, true);
  add_dense(cases, "a displacement that is not finite",
            {.source = "displacement", .elements = 4300, .scale_block = 0, .bad = {{4200, kNaN}}},
            false, true);
  add_dense(cases, "checked values",
            {.source = "values checked", .elements = 100, .scale_block = 64, .bad = {{3, kNaN}}},
            false, true);
}

}  // namespace laconic::testing
