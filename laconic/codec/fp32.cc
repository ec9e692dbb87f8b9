#include <cstring>

#include "laconic/codec/codec.h"
#include "laconic/kernels/dense.h"

namespace laconic::inline codec {
namespace {

// The numbers themselves, which are written, added and read in the messages.
class Fp32 final : public Codec {
 public:
  std::string_view name() const noexcept override { return "fp32"; }
  std::string describe() const override { return "dense mean, fp32"; }
  bool exact() const noexcept override { return true; }
  std::optional<wire::Form> form() const noexcept override { return {}; }
  std::size_t block() const noexcept override { return 0; }
  std::size_t message_size(std::size_t capacity) const noexcept override { return 4 * capacity; }

  float* in_place(std::byte* message, const Part& part) const noexcept override {
    return reinterpret_cast<float*>(message) + part.begin;
  }
  void measure(const float* a, const float*, const float*, std::size_t count, float* p,
               Block&) const noexcept override {
    if (a != p) std::memcpy(p, a, 4 * count);
  }

  std::size_t workspace_size(std::size_t messages) const noexcept override {
    return sizeof(const float*) * messages;
  }
  void combine(std::span<const std::byte* const> messages, const Part& part, float factor,
               const float*, const float*, float* q, Block&,
               std::byte* workspace) const noexcept override {
    auto* from = reinterpret_cast<const float**>(workspace);
    for (std::size_t r = 0; r < messages.size(); ++r)
      from[r] = reinterpret_cast<const float*>(messages[r]) + part.begin;
    kernels::sum(from, static_cast<int>(messages.size()), part.count, factor, q);
  }

  bool settle(std::size_t, Block&) const noexcept override { return true; }
  void encode(const float* p, const float*, const Part& part, Block&, float, float*,
              std::byte* message) const noexcept override {
    float* to = in_place(message, part);
    if (p != to) std::memcpy(to, p, 4 * part.count);
  }
  void clear(const Part& part, std::byte* message) const noexcept override {
    std::memset(message + 4 * part.begin, 0, 4 * part.count);
  }
  const float* decode(const std::byte* message, const Part& part, float*) const noexcept override {
    return reinterpret_cast<const float*>(message) + part.begin;
  }
};

}  // namespace

std::unique_ptr<Codec> make_fp32_codec() { return std::make_unique<Fp32>(); }

}  // namespace laconic::inline codec
