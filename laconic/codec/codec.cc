#include "laconic/codec/codec.h"

#include "laconic/core/error.h"

namespace laconic::inline codec {
namespace {

constexpr std::string_view kNames[] = {"fp32", "bf16", "int8", "int4", "int2", "sign", "top-k"};

}  // namespace

double Codec::bits_per_element() const noexcept {
  const std::size_t elements = (std::size_t{1} << 20) * (block() == 0 ? 1 : block());
  return 8.0 * static_cast<double>(message_size(elements) - message_size(0)) /
         static_cast<double>(elements);
}

std::span<const std::string_view> codec_names() noexcept { return kNames; }

std::unique_ptr<Codec> make_codec(std::string_view name, const CodecOptions& options) {
  if (name == "fp32") return make_fp32_codec();
  if (name == "bf16") return make_bf16_codec();
  if (name == "int8") return make_int8_codec(options);
  if (name == "int4") return make_int4_codec(options);
  if (name == "int2") return make_int2_codec(options);
  if (name == "sign") return make_sign_codec(options);
  if (name == "top-k") return make_top_k_codec(options);
  fail(Code::kInvalidArgument, "no codec `{}`: {}", name, fmt::join(kNames, ", "));
}

}  // namespace laconic::inline codec
