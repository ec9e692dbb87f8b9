#include "tests/support/cases.h"

#include <algorithm>
#include <cfloat>
#include <limits>
#include <span>

namespace laconic::testing {
namespace {

constexpr std::size_t kSizes[] = {0, 1, 63, 64, 65, 4095, 4096, 4097};
constexpr Kind kKinds[] = {Kind::kOrdinary, Kind::kMixed, Kind::kHuge, Kind::kTiny, Kind::kSpecial};
constexpr const char* kNames[] = {"ordinary", "mixed", "huge", "tiny", "special"};

float ordinary(std::mt19937& random) {
  float sum = -2;
  for (int i = 0; i < 4; ++i) sum += static_cast<float>(random() >> 8) * 0x1p-24F;
  return sum;
}

// `exponent` is drawn before the value, whatever the order in which a compiler evaluates arguments.
float with_exponent(int exponent, std::mt19937& random) {
  return std::ldexp(ordinary(random), exponent);
}

float edge(std::mt19937& random) {
  using Limits = std::numeric_limits<float>;
  static constexpr float kEdges[] = {0.0F,
                                     Limits::quiet_NaN(),
                                     Limits::signaling_NaN(),
                                     Limits::infinity(),
                                     FLT_MAX,
                                     FLT_MIN,
                                     FLT_MIN / 2,
                                     Limits::denorm_min(),
                                     1e16F,
                                     1.0000001e16F,
                                     0x1p-100F,
                                     0x1.fffffep-101F,
                                     1.0F,
                                     0x1.01p0F,
                                     0x1.03p0F,
                                     0x1.018p0F,
                                     std::numeric_limits<float>::epsilon()};
  const float value = kEdges[random() % std::size(kEdges)];
  return random() % 2 == 0 ? value : -value;
}

float with_sign(float magnitude, std::mt19937& random) {
  return random() % 2 == 0 ? magnitude : -magnitude;
}

void for_each(std::span<const Kind> kinds, FunctionRef<void(Case&)> check, std::size_t largest) {
  for (std::size_t count : kSizes) {
    if (count > largest) continue;
    for (std::size_t offset = 0; offset < 4; ++offset) {
      for (Kind kind : kinds) {
        Case one(count, offset, kind);
        SCOPED_TRACE(one.name());
        check(one);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

}  // namespace

float random_value(Kind kind, std::mt19937& random) {
  switch (kind) {
    case Kind::kOrdinary: break;
    case Kind::kMixed: return with_exponent(static_cast<int>(random() % 81) - 40, random);
    case Kind::kHuge: return with_exponent(static_cast<int>(random() % 90) + 36, random);
    case Kind::kTiny:
      return with_sign(random() % 4 == 0 ? 0.0F
                                         : std::bit_cast<float>(
                                               static_cast<std::uint32_t>(random() & 0x00FFFFFF)),
                       random);
    case Kind::kSpecial:
      if (random() % 4 == 0) return edge(random);
      break;
  }
  return ordinary(random);
}

Case::Case(std::size_t count, std::size_t offset, Kind kind)
    : count_(count),
      offset_(offset),
      kind_(kind),
      random_(
          static_cast<std::uint32_t>(count * 64 + offset * 8 + static_cast<std::size_t>(kind))) {}

std::string Case::name() const {
  return fmt::format("{} {} values, first offset {}", count_, kNames[static_cast<int>(kind_)],
                     offset_ % 4);
}

Array<float> Case::floats() {
  std::vector<float> values(count_);
  for (float& value : values) value = random_value(kind_, random_);
  return array(std::move(values));
}

Array<float> Case::finite() {
  Array<float> result = floats();
  for (float& value : result.values)
    if (!(std::fabs(value) <= 1e16F)) value = ordinary(random_);
  return result;
}

Array<float> Case::positive() {
  Array<float> result = floats();
  for (float& value : result.values) value = random_() % 8 == 0 ? 0.0F : std::fabs(value);
  return result;
}

Array<float> Case::live() {
  Array<float> result = floats();
  for (float& value : result.values)
    if (random_() % 3 == 0) value = with_sign(0, random_);
  return result;
}

Array<kernels::Lanes> Case::lanes() {
  kernels::Lanes lanes;
  for (float& lane : lanes.lane) lane = std::fabs(ordinary(random_));
  return {{lanes}};
}

Array<std::uint16_t> Case::bf16() {
  std::vector<std::uint16_t> values(count_);
  for (std::uint16_t& value : values) {
    const float wide = random_value(kind_, random_);
    value = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(wide) >> 16);
  }
  return array(std::move(values));
}

Array<std::uint8_t> Case::bits() { return bytes(words() * 8); }

Array<std::uint8_t> Case::bytes(std::size_t size) {
  std::vector<std::uint8_t> values(size);
  for (std::uint8_t& value : values) value = static_cast<std::uint8_t>(random_());
  return array(std::move(values));
}

void for_each_case(FunctionRef<void(Case&)> check, std::size_t largest) {
  for_each(kKinds, check, largest);
}

void for_each_size(FunctionRef<void(Case&)> check, std::size_t largest) {
  for_each(std::span(kKinds).first(1), check, largest);
}

void OnEveryTarget::SetUp() {
  kernels::set_target(GetParam());
  ASSERT_EQ(kernels::target(), GetParam());
}

}  // namespace laconic::testing
