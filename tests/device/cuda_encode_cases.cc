#include <algorithm>
#include <cmath>
#include <limits>

#include "laconic/codec/codec.h"
#include "laconic/device/host.h"
#include "laconic/kernels/dense.h"
#include "tests/device/cuda_encode_case.h"

namespace laconic::testing {
namespace {

Residual residual_of(const EncodeOptions& o, float* e, std::size_t begin, const float* zeros) {
  if (o.feedback == "zeros") return {nullptr, zeros};
  if (o.feedback == "none") return {};
  float* kept = e + begin;
  if (o.feedback == "pending") return {kept, nullptr, 2.0F};
  if (o.feedback == "ema") return {kept, kept, 1, 0.2F, 0.8F};
  if (o.feedback == "decay") return {kept, kept, 1, 0.95F, 0};
  if (o.feedback == "reset") return {kept, kept, 1, 0, 0};
  return {kept, kept};
}

// Squared norms of the blocks of a range that a host device samples, as it adds them up; 0 of those
// that cannot be encoded, whose residual is not finite in these cases. Returns their sums.
EncodeResult sample(const EncodeJob& job, double* all) {
  const std::size_t length = job.codec->block(), block = length == 0 ? job.range.count : length;
  std::vector<float> out(Codec::kTile);
  EncodeResult sums;
  for (std::size_t begin = 0; begin < job.range.count; begin += block) {
    const std::size_t n = (job.range.begin + begin) / std::max<std::size_t>(length, 1);
    if (n % 16 != 0) continue;
    double residual = 0, sent = 0;
    const std::size_t end = std::min(begin + block, job.range.count);
    for (std::size_t at = begin; at < end; at += Codec::kTile) {
      const std::size_t count = std::min(Codec::kTile, end - at);
      const float gain = job.residual.gain;
      residual += kernels::sum_of_squares(job.residual.kept + at, count) / (gain * gain);
      sent += kernels::sum_of_squares(
          job.codec->decode(job.out, {job.range.capacity, at, count}, out.data()), count);
    }
    const bool encoded = std::isfinite(residual);
    sums.residual += all[n / 16 * 2] = encoded ? residual : 0;
    sums.sent += all[n / 16 * 2 + 1] = encoded ? sent : 0;
  }
  return sums;
}

void add(Cases& cases, const std::string& name, const EncodeOptions& o) {
  const auto codec = make_codec(o.codec, {.scale_block = o.scale_block,
                                          .scale_norm = o.norm,
                                          .quant_block = o.quant_block,
                                          .top_k = o.top_k});
  const bool integers = o.codec.starts_with("int");
  Case& c = cases.emplace_back(o.codec == "sign" ? "encode_sign"
                               : integers        ? "encode_integers"
                                                 : "encode_top_k",
                               o.codec + " " + name);
  const Geometry at(o.elements, o.rows, o.slice, o.capacity);
  const std::size_t block = codec->block() == 0 ? at.capacity : codec->block();
  const std::size_t size = codec->message_size(at.capacity);
  const std::size_t stride = (size + kStride) / kStride * kStride;
  const auto e = c.add("e", with(c.floats(o.elements, o.values), o.residual));
  const Given source = give(c, o, e);
  const auto recorded = c.add("recorded", std::vector<float>(o.elements, 3));
  std::vector<float> mask(o.elements, 1);
  for (std::size_t k = 0; k < mask.size(); ++k)
    mask[k] = k % 100 < 40 || c.random() % 3 == 0 ? 0 : 2;
  const auto live = c.add("live", mask);
  const auto out = c.add("out", std::vector<std::uint8_t>(at.rows * stride, 0xA5));
  const auto bad = c.counter("bad");
  const std::size_t numbered = std::max<std::size_t>(codec->block(), 1);
  const std::size_t numbers = (o.elements / numbered / 16 + 1) * 2;
  const auto samples =
      c.add("samples", std::vector<double>(o.sampled ? at.rows * numbers : 0, 7.0));

  HostDevice host;
  const std::vector<float> zeros(Codec::kTile);
  const RecordedSource recording{&source.host, recorded.host};
  EncodeResult result;
  Residual residual;
  for (unsigned row = 0; row < at.rows; ++row) {
    const Range range = at.range(row);
    std::vector<std::byte> message(size, std::byte{0xA5});
    residual = residual_of(o, e.host, range.begin, zeros.data());
    const EncodeJob job{.codec = codec.get(),
                        .block = codec->block(),
                        .range = range,
                        .residual = residual,
                        .live = o.live ? live.host : nullptr,
                        .out = message.data()};
    codec->clear({range.capacity, range.count, range.capacity - range.count}, message.data());
    const EncodeResult one = host.encode(
        {.to = job, .source = o.recorded ? Source(recording) : source.host, .sampled_from = 0});
    result.bad += one.bad;
    std::memcpy(out.host + row * stride, message.data() + wire::kHeaderSize,
                size - wire::kHeaderSize);
    if (!o.sampled) continue;
    const EncodeResult sums = sample(job, samples.host + row * numbers);
    if (sums.residual != one.residual || sums.sent != one.sent) std::abort();
  }
  *bad.host += result.bad;
  const bool keeps = residual.kept != nullptr;
  c.launch(cuda::encode_grid(
               at.device(static_cast<std::size_t>(cuda::item_of(static_cast<std::int64_t>(block)))),
               at.rows),
           cuda::EncodeArguments{.rows = at.device(static_cast<std::size_t>(
                                     cuda::item_of(static_cast<std::int64_t>(block)))),
                                 .out = {out.device, static_cast<std::int64_t>(stride)},
                                 .kept = keeps ? e.device : nullptr,
                                 .added = keeps && residual.added ? e.device : nullptr,
                                 .live = o.live ? live.device : nullptr,
                                 .recorded = o.recorded ? recorded.device : nullptr,
                                 .bad = bad.device,
                                 .samples = o.sampled ? samples.device : nullptr,
                                 .sampled_from = 0,
                                 .samples_stride = static_cast<std::int64_t>(numbers),
                                 .block = static_cast<std::int64_t>(block),
                                 .source = source.device,
                                 .gain = residual.gain,
                                 .share = residual.share,
                                 .keep = residual.keep,
                                 .norm = o.norm,
                                 .in_parts = codec->block() == 0,
                                 .bits = static_cast<std::uint8_t>(integers ? o.codec[3] - '0' : 0),
                                 .adds_zero = !keeps && residual.added != nullptr,
                                 .slots = static_cast<std::int32_t>(o.top_k)});
}

void add_sign_cases(Cases& cases) {
  add(cases, "one element", {.elements = 1});
  add(cases, "a ragged end", {.values = "tiny", .source = "momentum", .elements = 63});
  add(cases, "three chunks", {.values = "denormal", .elements = 65, .rows = 3, .live = true});
  add(cases, "a tile", {.source = "pending", .sampled = true, .feedback = "pending"});
  add(cases, "pending, norms of magnitudes, dead elements",
      {.values = "large",
       .source = "pending",
       .elements = 4100,
       .norm = kernels::Norm::kL1,
       .live = true,
       .sampled = true,
       .feedback = "pending"});
  add(cases, "nothing new", {.source = "pending alone", .elements = 200, .feedback = "pending"});
  add(cases, "zeros of both signs",
      {.values = "zeros", .source = "values", .elements = 500, .feedback = "none"});
  add(cases, "a residual of zeros",
      {.values = "zeros", .source = "values", .elements = 500, .feedback = "zeros"});
  add(cases, "an empty row",
      {.source = "displacement", .elements = 128, .rows = 3, .capacity = 64});
  add(cases, "many blocks of a tile", {.scale_block = 64, .sampled = true});
  add(cases, "rows that share a number",
      {.elements = 3000, .scale_block = 128, .rows = 3, .sampled = true});
  add(cases, "a slice",
      {.elements = 1000, .scale_block = 64, .rows = 3, .slice = 128, .capacity = 128});
  add(cases, "NaN in a block of several",
      {.source = "momentum",
       .elements = 1000,
       .scale_block = 192,
       .live = true,
       .sampled = true,
       .recorded = true,
       .bad = {{200, kNaN}, {199, 2e16F}, {801, -kInf}}});
  add(cases, "a large displacement",
      {.source = "displacement",
       .elements = 300,
       .scale_block = 128,
       .recorded = true,
       .bad = {{130, 2e16F}}});
  add(cases, "checked values",
      {.source = "values checked",
       .elements = 300,
       .scale_block = 128,
       .sampled = true,
       .bad = {{0, kInf}}});
  add(cases, "values that are not checked",
      {.elements = 300, .scale_block = 128, .recorded = true, .bad = {{0, 2e16F}, {256, kInf}}});
  add(cases, "a residual that is NaN",
      {.source = "pending",
       .elements = 300,
       .scale_block = 128,
       .sampled = true,
       .recorded = true,
       .feedback = "pending",
       .bad = {{3, kNaN}},
       .residual = {{5, kNaN}, {290, kInf}}});
  add(cases, "a sum that overflows",
      {.elements = 300, .scale_block = 128, .bad = {{7, 9e15F}}, .residual = {{140, 3e38F}}});
  add(cases, "averaged feedback",
      {.source = "values checked",
       .elements = 300,
       .scale_block = 64,
       .live = true,
       .sampled = true,
       .feedback = "ema",
       .bad = {{70, kNaN}}});
  add(cases, "decayed feedback", {.elements = 200, .scale_block = 64, .feedback = "decay"});
  add(cases, "feedback that begins anew",
      {.elements = 200, .scale_block = 64, .live = true, .sampled = true, .feedback = "reset"});
  add(cases, "a long block",
      {.source = "momentum",
       .elements = 4500,
       .scale_block = 4160,
       .sampled = true,
       .bad = {{4170, kNaN}}});
  add(cases, "a long bad block, twice",
      {.source = "pending",
       .elements = 4200,
       .scale_block = 8192,
       .live = true,
       .recorded = true,
       .feedback = "pending",
       .bad = {{4150, kNaN}}});
  add(cases, "one scale for a chunk",
      {.source = "momentum",
       .elements = 4300,
       .scale_block = 0,
       .norm = kernels::Norm::kL1,
       .live = true,
       .sampled = true});
  add(cases, "one scale for a short chunk",
      {.elements = 500, .scale_block = 0, .rows = 2, .bad = {{400, kNaN}}});
}

// Whole tiles of the usual kind, for counts of bytes and instructions.
void add_counted_cases(Cases& cases) {
  add(cases, "pending, counted",
      {.source = "pending", .elements = 65536, .sampled = true, .feedback = "pending"});
  add(cases, "momentum, counted", {.source = "momentum"});
  add(cases, "values, counted", {});
  for (const char* codec : {"int8", "int4"})
    add(cases, "values checked, counted",
        {.codec = codec, .source = "values checked", .sampled = true});
  add(cases, "displacement, counted", {.codec = "top-k", .source = "displacement"});
}

void add_integer_cases(Cases& cases) {
  for (const char* codec : {"int8", "int4", "int2"}) {
    add(cases, "two blocks and a ragged end",
        {.codec = codec, .source = "values checked", .elements = 300, .sampled = true});
    add(cases, "bad blocks, dead elements, averaged feedback",
        {.codec = codec,
         .values = "zeros",
         .source = "displacement",
         .elements = 500,
         .quant_block = 64,
         .rows = 2,
         .live = true,
         .sampled = false,
         .feedback = "ema",
         .bad = {{70, kNaN}, {300, 2e16F}},
         .residual = {{10, kInf}, {200, 3e38F}}});
    add(cases, "denormals", {.codec = codec, .values = "tiny", .elements = 130, .quant_block = 64});
  }
  for (const std::size_t elements : {1500, 4096})
    add(cases, "many blocks, sampled, of " + std::to_string(elements),
        {.codec = "int4", .elements = elements, .quant_block = 64, .sampled = true});
  add(cases, "a tile, sampled",
      {.codec = "int8", .source = "values checked", .sampled = true, .bad = {{1000, kNaN}}});
  add(cases, "a long block",
      {.codec = "int4",
       .values = "large",
       .source = "values",
       .elements = 4200,
       .quant_block = 4160,
       .sampled = true});
  add(cases, "large numbers",
      {.codec = "int4",
       .elements = 130,
       .quant_block = 64,
       .residual = {{3, 3e38F}, {70, -1e37F}}});
}

void add_top_k_cases(Cases& cases) {
  add(cases, "a tile", {.codec = "top-k", .source = "displacement", .sampled = true});
  add(cases, "a ragged end, dead elements, ties",
      {.codec = "top-k",
       .values = "few",
       .elements = 4200,
       .top_k = 37,
       .live = true,
       .recorded = true,
       .feedback = "decay"});
  add(cases, "fewer elements than places",
      {.codec = "top-k", .values = "zeros", .elements = 70, .top_k = 128, .live = true});
  add(cases, "a bad block",
      {.codec = "top-k",
       .source = "values checked",
       .elements = 200,
       .top_k = 5,
       .recorded = true,
       .bad = {{3, kNaN}},
       .residual = {{150, kInf}}});
  add(cases, "all of few", {.codec = "top-k", .elements = 130, .top_k = 4096, .rows = 2});
}

}  // namespace

void add_encode_cases(Cases& cases) {
  add_sign_cases(cases);
  add_integer_cases(cases);
  add_top_k_cases(cases);
  add_counted_cases(cases);
}

}  // namespace laconic::testing
