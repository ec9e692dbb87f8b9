#include <limits>

#include "laconic/codec/codec.h"
#include "laconic/device/host.h"
#include "laconic/wire/chunk.h"
#include "tests/device/cuda_case.h"

namespace laconic::testing {
namespace {

using cuda::CodecKind;

struct Options {
  std::string codec = "fp32", values = "normal";
  std::size_t elements = 4096, block = 4096, top_k = 37;  // block: of scales, or exact ones
  unsigned rows = 1;
  std::size_t floor_block = 4096, piece = 4096;
  int planes = 3;
  bool recorded = false;
  std::vector<std::pair<std::size_t, float>> bad = {};  // fp32: of the mean
};

// A message of every row, on both sides, and how a host device reads it.
struct Received {
  Geometry at;
  std::unique_ptr<Codec> codec;  // null: signs or counts
  std::size_t stride, size;
  Both<std::uint8_t> bytes;
  Both<float> recorded;
  cuda::Decoding device;
};

float scale_at(Case& c, const std::string& values) { return std::abs(c.floats(1, values)[0]); }

// Any bits, scales that are numbers.
void fill_row(Case& c, const Options& o, const Geometry& at, const Codec* codec, std::uint8_t* to,
              std::size_t size, unsigned row) {
  for (std::size_t i = 0; i < size; ++i) to[i] = static_cast<std::uint8_t>(c.random());
  const Range range = at.range(row);
  if (codec == nullptr) return;
  if (codec->exact() || o.codec == "top-k") {
    std::vector<float> values = c.floats(at.capacity, o.values);
    for (const auto& [k, value] : o.bad)
      if (k >= range.begin && k < range.begin + range.count) values[k - range.begin] = value;
    std::vector<std::byte> message(codec->message_size(at.capacity));
    HostDevice host;
    host.encode({.to = {.codec = codec,
                        .block = codec->block(),
                        .range = {0, range.count, at.capacity},
                        .residual = {},
                        .out = message.data()},
                 .source = Values{values.data()}});
    std::memcpy(to, message.data() + (codec->exact() ? 0 : wire::kHeaderSize), size);
    return;
  }
  const std::size_t scales = wire::blocks(at.capacity, codec->block());
  for (std::size_t i = 0; i < scales; ++i) {
    const float scale = scale_at(c, o.values);
    std::memcpy(to + size - 4 * scales + 4 * i, &scale, 4);
  }
}

Received receive(Case& c, const Options& o) {
  const Geometry at(o.elements, o.rows);
  const bool signs = o.codec == "signs", counts = o.codec == "counts";
  std::unique_ptr<Codec> codec;
  std::size_t size = signs    ? wire::random_signs_size(at.capacity)
                     : counts ? wire::counts_size(at.capacity, o.planes)
                              : 0;
  if (!signs && !counts) {
    codec = make_codec(o.codec, {.scale_block = o.block, .quant_block = o.block, .top_k = o.top_k});
    size = codec->message_size(at.capacity);
  }
  const std::size_t header = codec && codec->exact() ? 0 : wire::kHeaderSize;
  const std::size_t stride = (size + 256) / 256 * 256;
  std::vector<std::uint8_t> bytes(at.rows * stride);
  for (unsigned row = 0; row < at.rows; ++row)
    fill_row(c, o, at, codec.get(), bytes.data() + row * stride, size - header, row);
  const auto message = c.add("messages", bytes);
  const auto recorded = c.add("recorded", std::vector<float>(o.elements, 3));
  const std::size_t block = o.block == 0 ? at.capacity : o.block;
  const std::size_t taken = signs || counts || o.codec == "top-k" ? cuda::kTile : block;
  const bool integers = o.codec.starts_with("int");
  return {
      at,
      std::move(codec),
      stride,
      size - header,
      message,
      recorded,
      {.rows = at.device(static_cast<std::size_t>(cuda::item_of(static_cast<std::int64_t>(taken)))),
       .from = {message.device, static_cast<std::int64_t>(stride)},
       .recorded = o.recorded ? recorded.device : nullptr,
       .block = static_cast<std::int64_t>(o.codec == "top-k" ? cuda::kTile : block),
       .codec = signs                ? CodecKind::kSigns
                : counts             ? CodecKind::kCounts
                : integers           ? CodecKind::kIntegers
                : o.codec == "top-k" ? CodecKind::kTopK
                : o.codec == "sign"  ? CodecKind::kSign
                : o.codec == "bf16"  ? CodecKind::kBf16
                                     : CodecKind::kFp32,
       .bits = integers ? o.codec[3] - '0'
               : counts ? o.planes
                        : 0,
       .slots = static_cast<std::int32_t>(o.top_k),
       .unused = 0}};
}

// The same on the host.
void decode(const Options& o, const Received& from, const Sink& sink) {
  HostDevice host;
  const RecordedSink recording{&sink, from.recorded.host};
  const Sink given = o.recorded ? Sink(recording) : sink;
  for (unsigned row = 0; row < from.at.rows; ++row) {
    const Range range = from.at.range(row);
    if (range.count == 0) continue;
    const std::uint8_t* message = from.bytes.host + row * from.stride;
    if (from.codec) {
      const std::size_t header = from.codec->exact() ? 0 : wire::kHeaderSize;
      std::vector<std::byte> whole(from.size + header);
      std::memcpy(whole.data() + header, message, from.size);
      const std::size_t block = o.codec == "top-k" ? from.codec->block() : o.block;
      host.decode({from.codec.get(), block, range, whole.data(), given});
      continue;
    }
    const int planes = o.codec == "counts" ? o.planes : 0;
    const std::size_t bits = 8 * static_cast<std::size_t>(std::max(planes, 1));
    host.read({range, message, message + bits * wire::words(range.capacity), planes, given});
  }
}

struct Table {
  std::vector<std::size_t> begins;
  std::vector<float> values;
  cuda::Floors device;
  FloorTable host() { return {begins, values, static_cast<std::size_t>(device.elements), nullptr}; }
};

Table floors(Case& c, const Options& o, const Geometry& at) {
  Table table;
  const std::size_t block = o.floor_block == 0 ? at.chunk : o.floor_block;
  for (std::size_t chunk = 0; chunk < o.elements; chunk += at.chunk)
    for (std::size_t k = chunk; k < std::min(chunk + at.chunk, o.elements); k += block)
      table.begins.push_back(k);
  for (float value : c.floats(table.begins.size())) table.values.push_back(std::abs(value) / 4);
  const std::vector<std::int64_t> begins(table.begins.begin(), table.begins.end());
  table.device = {c.add("begins", begins).device, c.add("floors", table.values).device,
                  static_cast<std::int64_t>(begins.size()), static_cast<std::int64_t>(o.elements)};
  return table;
}

// Magnitudes, some 0.
std::vector<float> variance(Case& c, std::size_t count, const std::string& values) {
  auto v = c.floats(count, values == "normal" ? "normal" : "denormal");
  for (float& one : v) one = c.random() % 5 == 0 ? 0 : std::abs(one);
  v[count / 2] = std::numeric_limits<float>::quiet_NaN();
  return v;
}

struct State {
  Both<float> m, v, x, y;
};
State state(Case& c, const Options& o) {
  return {c.add("m", c.floats(o.elements, o.values)), c.add("v", variance(c, o.elements, o.values)),
          c.add("x", c.floats(o.elements, o.values)), c.add("y", c.floats(o.elements, o.values))};
}

// launch(case, received, state) gives the sink of the host and launches the kernel.
template <typename Launch>
void add(Cases& cases, const std::string& kernel, const std::string& name, const Options& o,
         const Launch& launch) {
  Case& c = cases.emplace_back(kernel, o.codec + ", " + name);
  const Received from = receive(c, o);
  launch(c, from, state(c, o));
}

cuda::Grid grid_of(const Received& from) {
  return cuda::decode_grid(from.device.rows, from.at.rows);
}

void add_store(Cases& cases, const std::string& name, const Options& o) {
  add(cases, "decode_store", name, o, [&](Case& c, const Received& from, const State& s) {
    decode(o, from, Store{s.x.host});
    c.launch(grid_of(from), cuda::StoreArguments{from.device, s.x.device});
  });
}

std::int64_t piece_of(const Options& o) {
  return o.piece > cuda::kTile ? 0 : static_cast<std::int64_t>(o.piece);
}

void add_sgdm(Cases& cases, const std::string& name, const Options& o) {
  add(cases, "decode_sgdm", name, o, [&](Case& c, const Received& from, const State& s) {
    const auto bad = c.counter("bad");
    const kernels::SgdmStep step{0.9F, 0.01F, 0.9999F};
    Counter found{0};
    decode(o, from, SgdmUpdate{step, s.m.host, s.x.host, {o.piece, &found}});
    *bad.host += found.load();
    c.launch(
        grid_of(from),
        cuda::SgdmArguments{from.device, s.m.device, s.x.device, {bad.device, piece_of(o)}, step});
  });
}

void add_lion(Cases& cases, const std::string& name, const Options& o) {
  add(cases, "decode_lion", name, o, [&](Case& c, const Received& from, const State& s) {
    const auto bad = c.counter("bad");
    const kernels::LionStep step{{0.9F, 1 - 0.9F, 0.99F, 1 - 0.99F}, 0.01F, 0.9999F};
    Counter found{0};
    decode(o, from, LionUpdate{step, s.m.host, s.x.host, {o.piece, &found}});
    *bad.host += found.load();
    c.launch(
        grid_of(from),
        cuda::LionArguments{from.device, s.m.device, s.x.device, {bad.device, piece_of(o)}, step});
  });
}

void add_adamw(Cases& cases, const std::string& name, const Options& o, bool parted) {
  add(cases, "decode_adamw", name, o, [&](Case& c, const Received& from, const State& s) {
    const auto bad = c.counter("bad");
    kernels::AdamStep other = adam_step();
    other.rate = 0.3F;
    std::vector<AdamPart> parts{{0, o.elements, adam_step()}};
    if (parted) parts = {{10, 60, adam_step()}, {70, 1, other}, {100, o.elements - 107, other}};
    std::vector<cuda::AdamPart> same;
    for (const AdamPart& one : parts)
      same.push_back(
          {static_cast<std::int64_t>(one.begin), static_cast<std::int64_t>(one.count), one.step});
    const auto list = c.add("parts", same);
    Counter found{0};
    decode(o, from, AdamWUpdate{parts, s.m.host, s.v.host, s.x.host, {o.piece, &found}});
    *bad.host += found.load();
    c.launch(grid_of(from),
             cuda::AdamWArguments{from.device,
                                  s.m.device,
                                  s.v.device,
                                  s.x.device,
                                  parted ? list.device : nullptr,
                                  static_cast<std::int64_t>(parted ? same.size() : 0),
                                  {bad.device, piece_of(o)},
                                  adam_step()});
  });
}

void add_moments(Cases& cases, const std::string& name, const Options& o) {
  add(cases, "decode_moments", name, o, [&](Case& c, const Received& from, const State& s) {
    const auto bad = c.counter("bad");
    const auto left = c.add("left", std::vector<std::uint8_t>((o.elements + 63) / 64));
    Counter found{0};
    decode(o, from, MomentsUpdate{adam_step(), s.m.host, s.v.host, left.host, {o.piece, &found}});
    *bad.host += found.load();
    c.launch(grid_of(from), cuda::MomentsArguments{from.device,
                                                   s.m.device,
                                                   s.v.device,
                                                   left.device,
                                                   {bad.device, piece_of(o)},
                                                   adam_step()});
  });
}

void add_momentum(Cases& cases, const std::string& name, const Options& o) {
  add(cases, "decode_momentum_store", name, o, [&](Case& c, const Received& from, const State& s) {
    decode(o, from, MomentumStore{s.m.host, s.v.host});
    c.launch(grid_of(from), cuda::MomentumStoreArguments{from.device, s.m.device, s.v.device});
  });
  add(cases, "decode_momentum_apply", name, o, [&](Case& c, const Received& from, const State& s) {
    Table table = floors(c, o, from.at);
    decode(o, from, MomentumApply{adam_step(), table.host(), s.m.host, s.v.host, s.x.host});
    c.launch(grid_of(from), cuda::MomentumApplyArguments{from.device, s.m.device, s.v.device,
                                                         s.x.device, table.device, adam_step()});
  });
}

void add_pending(Cases& cases, const std::string& name, const Options& o, bool stays) {
  add(cases, "decode_pending_sync", name, o, [&](Case& c, const Received& from, const State& s) {
    Table table = floors(c, o, from.at);
    decode(o, from,
           PendingSync{adam_step(), 0.77F, table.host(), stays ? nullptr : s.m.host, s.v.host,
                       s.y.host, s.x.host});
    c.launch(grid_of(from),
             cuda::PendingSyncArguments{from.device, stays ? nullptr : s.m.device, s.v.device,
                                        s.y.device, s.x.device, table.device, adam_step(), 0.77F});
  });
}

void add_sign_update(Cases& cases, const std::string& name, const Options& o) {
  add(cases, "decode_sign_update", name, o, [&](Case& c, const Received& from, const State& s) {
    decode(o, from, SignUpdate{0.01F, 0.999F, s.x.host});
    c.launch(grid_of(from), cuda::SignUpdateArguments{from.device, s.x.device, 0.01F, 0.999F});
  });
}

void add_outer(Cases& cases, const std::string& name, const Options& o, kernels::OuterRule rule,
               kernels::Follow follow, float clip) {
  add(cases, "decode_outer", name, o, [&](Case& c, const Received& from, const State& s) {
    const auto snapshot = c.add("snapshot", c.floats(o.elements, o.values));
    s.x.host[3] = s.x.device[3] = 2e16F;
    std::memcpy(c.arrays[4].before.data(), s.x.device, 4 * o.elements);
    const kernels::OuterStep step{.rule = rule,
                                  .follow = follow,
                                  .penalty = 3,
                                  .rate = 0.7F,
                                  .momentum = 0.9F,
                                  .clip = clip,
                                  .inverse_gamma = 330,
                                  .beta1 = 0.95F,
                                  .one_minus_beta1 = 1 - 0.95F,
                                  .beta2 = 0.98F,
                                  .one_minus_beta2 = 1 - 0.98F,
                                  .decay = 0.9997F,
                                  .own = 0.3F,
                                  .shared = 0.7F};
    const bool none = rule == kernels::OuterRule::kAverage;
    const bool keeps = follow == kernels::Follow::kKeep;
    decode(o, from,
           OuterUpdate{step, none ? nullptr : s.m.host, keeps ? snapshot.host : nullptr, s.y.host,
                       s.x.host});
    c.launch(grid_of(from),
             cuda::OuterArguments{from.device, none ? nullptr : s.m.device,
                                  keeps ? snapshot.device : nullptr, s.y.device, s.x.device, step});
  });
}

}  // namespace

void add_decode_cases(Cases& cases) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const Options bad{.elements = 700, .piece = 128, .bad = {{3, kNaN}, {300, kInf}, {699, 2e16F}}};
  add_store(cases, "a tile", {.codec = "sign", .recorded = true});
  add_store(cases, "short blocks", {.codec = "sign", .elements = 1000, .block = 64, .rows = 3});
  add_store(cases, "a long block", {.codec = "sign", .elements = 4300, .block = 4160});
  add_store(cases, "one scale", {.codec = "sign", .elements = 4300, .block = 0});
  for (const char* codec : {"int8", "int4", "int2"}) {
    add_store(cases, "short blocks",
              {.codec = codec, .values = "large", .elements = 777, .block = 64, .rows = 2});
    add_store(cases, "long blocks", {.codec = codec, .elements = 500, .block = 320});
  }
  add_store(cases, "a ragged end", {.codec = "bf16", .values = "tiny", .elements = 77});
  add_store(cases, "rows", {.elements = 200, .rows = 3, .bad = {{3, kNaN}}});
  add_store(cases, "a tile and a rest", {.codec = "top-k", .elements = 4300});
  add_store(cases, "all of few", {.codec = "top-k", .elements = 100, .top_k = 4096, .rows = 2});
  add_store(cases, "rows", {.codec = "signs", .elements = 700, .rows = 2});
  add_store(cases, "rows", {.codec = "counts", .elements = 700, .rows = 2, .planes = 5});
  add_sgdm(cases, "bad pieces", bad);
  add_sgdm(cases, "counted", {.codec = "int8", .block = 256});
  add_lion(cases, "bad pieces", bad);
  add_lion(cases, "zeros", {.codec = "top-k", .elements = 500, .piece = 8192});
  add_adamw(cases, "a tile, recorded", {.recorded = true}, false);
  add_adamw(cases, "counted", {}, false);
  add_adamw(cases, "counted", {.codec = "int8", .block = 256}, false);
  add_moments(cases, "counted", {});
  add_outer(cases, "Nesterov, counted", {.codec = "int4", .block = 256},
            kernels::OuterRule::kNesterov, kernels::Follow::kEqual, kInf);
  add_momentum(cases, "counted", {.codec = "sign"});
  add_adamw(cases, "bad pieces, parts", bad, true);
  add_adamw(cases, "denormals", {.codec = "bf16", .values = "denormal", .elements = 300}, false);
  add_moments(cases, "bad pieces", bad);
  add_moments(cases, "bad long pieces",
              {.elements = 4300, .block = 4032, .piece = 4032, .bad = {{4200, kNaN}}});
  add_momentum(cases, "dead elements", {.codec = "sign", .elements = 700, .rows = 2});
  add_momentum(cases, "denormals", {.values = "denormal", .elements = 300, .floor_block = 64});
  add_pending(cases, "counted", {.codec = "sign"}, false);
  add_pending(cases, "m stays, short blocks",
              {.codec = "sign", .elements = 900, .block = 64, .rows = 2, .floor_block = 64}, true);
  add_pending(cases, "one floor", {.elements = 4300, .floor_block = 0}, false);
  add_sign_update(cases, "counted", {.codec = "signs"});
  add_sign_update(cases, "counts", {.codec = "counts", .elements = 300, .planes = 2});
  const Options sparse{.codec = "top-k", .elements = 300, .top_k = 90, .piece = 64};
  add_sgdm(cases, "few elements", sparse);
  add_adamw(cases, "few elements", sparse, false);
  add_moments(cases, "few elements", sparse);
  add_momentum(cases, "few elements", sparse);
  add_pending(cases, "few elements", sparse, false);
  add_sign_update(cases, "few elements", sparse);
  add_outer(cases, "few elements", sparse, kernels::OuterRule::kAverage, kernels::Follow::kEqual,
            kInf);
  for (const auto rule : {kernels::OuterRule::kAverage, kernels::OuterRule::kNesterov,
                          kernels::OuterRule::kMomentum, kernels::OuterRule::kSign})
    for (const auto follow :
         {kernels::Follow::kEqual, kernels::Follow::kKeep, kernels::Follow::kBlend})
      add_outer(cases,
                "rule " + std::to_string(static_cast<int>(rule)) + ", follow " +
                    std::to_string(static_cast<int>(follow)),
                {.codec = "int4", .elements = 130, .block = 64}, rule, follow,
                follow == kernels::Follow::kKeep ? 0.05F : kInf);
}

}  // namespace laconic::testing
