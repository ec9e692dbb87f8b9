#include "laconic/codec/codec.h"

#include "laconic/core/error.h"

namespace laconic {
namespace {

constexpr std::string_view kNames[] = {"sign", "fp32", "bf16"};

}  // namespace

double Codec::bits_per_element() const noexcept {
  const std::size_t elements = (std::size_t{1} << 20) * (block() == 0 ? 1 : block());
  return 8.0 * static_cast<double>(message_size(elements) - message_size(0)) /
         static_cast<double>(elements);
}

std::span<const std::string_view> codec_names() noexcept { return kNames; }

std::unique_ptr<Codec> make_codec(std::string_view name, const CodecOptions& options) {
  if (name == "sign") return make_sign_codec(options);
  if (name == "fp32") return make_fp32_codec();
  if (name == "bf16") return make_bf16_codec();
  fail(Code::kInvalidArgument, "no codec `{}`: {}", name, fmt::join(kNames, ", "));
}

}  // namespace laconic
