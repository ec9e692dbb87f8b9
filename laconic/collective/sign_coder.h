#pragma once

#include "laconic/collective/coder.h"

namespace laconic::inline collective {

inline const std::uint8_t* as_bits(const std::byte* p) {
  return reinterpret_cast<const std::uint8_t*>(p);
}
inline std::uint8_t* as_bits(std::byte* p) { return reinterpret_cast<std::uint8_t*>(p); }

// One bit per element, in two rounds: every node sends signs with their activity, or counts of its
// ranks' signs; the owner adds them up and sends signs, or the counts themselves.
class SignCoder : public Coder {
 public:
  Sizes sizes(std::size_t capacity) const override;
  void combine(const Range& range, std::span<const std::byte* const> messages,
               std::span<std::byte> out) override;
  void decode(std::span<const Range> ranges, std::span<const std::byte* const> messages,
              std::span<const int> owners, const Sink& sink) override;

 protected:
  // `of_node`: planes of what a node sends, 0 for signs; `voters`: the most per word of it.
  // `all`: the most voters per word of the sum.
  SignCoder(const MeanConfig& config, const Place& place, Device& device, int of_node, int voters,
            int all);

  bool counts() const { return config_.form == RandomForm::kCount; }
  // Sets how a sum becomes signs.
  virtual void decide(CountSigns& job) const = 0;
  // A message of zeros, whose parts are filled in and which is then sealed.
  wire::Parts<std::byte> open(const Range& range, std::span<std::byte> out, int planes) const;
  void seal(const Range& range, std::span<std::byte> out, int planes) const;
  // The same for the signs of several ranges; the parts are the first one's.
  wire::Parts<std::byte> open(std::span<const Range> ranges, std::span<std::byte> out) const;
  void seal(std::span<const Range> ranges, std::span<std::byte> out) const;

  MeanConfig config_;
  Place place_;
  int planes_up_, voters_up_, planes_sum_, voters_sum_;
  std::vector<const std::uint8_t*> bits_, extras_;  // of the messages of a range

 private:
  int planes_down() const { return counts() ? planes_sum_ : 0; }
  wire::Parts<const std::byte> checked(const Range& range, std::span<const std::byte> message,
                                       std::size_t size, int planes, int voters, int from) const;
};

}  // namespace laconic::inline collective
