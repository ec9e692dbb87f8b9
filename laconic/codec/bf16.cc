#include <cstring>

#include "laconic/codec/codec.h"
#include "laconic/kernels/dense.h"

namespace laconic::inline codec {
namespace {

// Rounded to bf16 on the wire, added in fp32.
class Bf16 final : public Codec {
 public:
  std::string_view name() const noexcept override { return "bf16"; }
  std::string describe() const override { return "dense mean, bf16"; }
  bool exact() const noexcept override { return true; }
  std::optional<wire::Form> form() const noexcept override { return {}; }
  std::size_t block() const noexcept override { return 0; }
  std::size_t message_size(std::size_t capacity) const noexcept override { return 2 * capacity; }

  void measure(const float* a, const float*, const float*, std::size_t count, float* p,
               Block&) const noexcept override {
    if (a != p) std::memcpy(p, a, 4 * count);
  }

  std::size_t workspace_size(std::size_t messages) const noexcept override {
    return sizeof(const std::uint16_t*) * messages;
  }
  void combine(std::span<const std::byte* const> messages, const Part& part, float factor,
               const float*, const float*, float* q, Block&,
               std::byte* workspace) const noexcept override {
    kernels::sum_bf16(read(messages, part, workspace), static_cast<int>(messages.size()),
                      part.count, factor, q);
  }
  bool combines_own() const noexcept override { return true; }
  void combine_own(std::span<const std::byte* const> messages, const Part& part, float factor,
                   float* values, std::byte* message,
                   std::byte* workspace) const noexcept override {
    kernels::mean_bf16(read(messages, part, workspace), static_cast<int>(messages.size()),
                       part.count, factor, values,
                       reinterpret_cast<std::uint16_t*>(message) + part.begin);
  }

  bool settle(std::size_t, Block&) const noexcept override { return true; }
  void encode(const float* p, const float*, const Part& part, Block&, float, float*,
              std::byte* message) const noexcept override {
    kernels::to_bf16(p, part.count, reinterpret_cast<std::uint16_t*>(message) + part.begin);
  }
  void clear(const Part& part, std::byte* message) const noexcept override {
    std::memset(message + 2 * part.begin, 0, 2 * part.count);
  }
  const float* decode(const std::byte* message, const Part& part,
                      float* out) const noexcept override {
    kernels::from_bf16(reinterpret_cast<const std::uint16_t*>(message) + part.begin, part.count,
                       out);
    return out;
  }

 private:
  static const std::uint16_t** read(std::span<const std::byte* const> messages, const Part& part,
                                    std::byte* workspace) noexcept {
    auto* from = reinterpret_cast<const std::uint16_t**>(workspace);
    for (std::size_t r = 0; r < messages.size(); ++r)
      from[r] =
          messages[r] ? reinterpret_cast<const std::uint16_t*>(messages[r]) + part.begin : nullptr;
    return from;
  }
};

}  // namespace

std::unique_ptr<Codec> make_bf16_codec() { return std::make_unique<Bf16>(); }

}  // namespace laconic::inline codec
