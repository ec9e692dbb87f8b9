#include "laconic/kernels/dense.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/dense.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "laconic/kernels/bf16-inl.h"
#include "laconic/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

void Add(const float* a, std::size_t count, float* acc) {
  for_each(count, [=](auto d, std::size_t i) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, acc + i), hn::LoadU(d, a + i)), d, acc + i);
  });
}

void Scale(float* a, std::size_t count, float factor) {
  for_each(count, [=](auto d, std::size_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, a + i), hn::Set(d, factor)), d, a + i);
  });
}

template <bool kMasked>
HWY_INLINE void blend_as(float keep, const float* r, const float* live, std::size_t count,
                         float* e) {
  for_each(count, [=](auto d, std::size_t i) HWY_ATTR {
    const auto kept = hn::Mul(hn::Set(d, keep), hn::LoadU(d, e + i));
    hn::StoreU(only_live<kMasked>(d, live, i, hn::Add(kept, hn::LoadU(d, r + i))), d, e + i);
  });
}

void Blend(float keep, const float* r, const float* live, std::size_t count, float* e) {
  live ? blend_as<true>(keep, r, live, count, e) : blend_as<false>(keep, r, live, count, e);
}

template <class T, class Load>
HWY_INLINE void sum_as(const T* const* in, int inputs, std::size_t count, float factor, float* out,
                       const Load& load) {
  for_each(count, [=](auto d, std::size_t i) HWY_ATTR {
    auto total = load(d, in[0] + i);
    for (int r = 1; r < inputs; ++r) total = hn::Add(total, load(d, in[r] + i));
    hn::StoreU(hn::Mul(total, hn::Set(d, factor)), d, out + i);
  });
}

void Sum(const float* const* in, int inputs, std::size_t count, float factor, float* out) {
  sum_as(in, inputs, count, factor, out,
         [](auto d, const float* p) HWY_ATTR { return hn::LoadU(d, p); });
}

void SumBf16(const std::uint16_t* const* in, int inputs, std::size_t count, float factor,
             float* out) {
  sum_as(in, inputs, count, factor, out,
         [](auto d, const std::uint16_t* p) HWY_ATTR { return load_bf16(d, p); });
}

void MeanBf16(const std::uint16_t* const* in, int inputs, std::size_t count, float factor,
              float* values, std::uint16_t* out) {
  for_each(count, [=](auto d, std::size_t i) HWY_ATTR {
    const hn::Rebind<std::uint16_t, decltype(d)> dh;
    const auto input = [=](int r) HWY_ATTR {
      return in[r] ? load_bf16(d, in[r] + i)
                   : widened(d, rounded_bf16(d, hn::LoadU(d, values + i)));
    };
    auto total = input(0);
    for (int r = 1; r < inputs; ++r) total = hn::Add(total, input(r));
    const auto mean = rounded_bf16(d, hn::Mul(total, hn::Set(d, factor)));
    hn::StoreU(widened(d, mean), d, values + i);
    hn::StoreU(hn::TruncateTo(dh, hn::ShiftRight<16>(mean)), dh, out + i);
  });
}

void ToBf16(const float* in, std::size_t count, std::uint16_t* out) {
  std::size_t done = 0;
#if HWY_TARGET == HWY_AVX2
  // Two vectors fill one; its four parts of 64 bits come as 0, 2, 1, 3.
  const hn::Full256<std::int32_t> d32;
  const hn::Full256<std::int16_t> d16;
  const hn::Full256<std::int64_t> d64;
  static constexpr std::int64_t kParts[4] = {0, 2, 1, 3};
  const auto parts = hn::SetTableIndices(d64, kParts);
  const auto upper = [=](std::size_t i) HWY_ATTR {
    const auto rounded = rounded_bf16(Full(), hn::LoadU(Full(), in + i));
    return hn::ShiftRight<16>(hn::BitCast(d32, rounded));
  };
  for (; done + 16 <= count; done += 16) {
    const auto both = hn::ReorderDemote2To(d16, upper(done), upper(done + 8));
    const auto ordered = hn::TableLookupLanes(hn::BitCast(d64, both), parts);
    hn::StoreU(hn::BitCast(d16, ordered), d16, reinterpret_cast<std::int16_t*>(out + done));
  }
#endif
  for_each(count - done, [=](auto d, std::size_t i) HWY_ATTR {
    store_bf16(d, hn::LoadU(d, in + done + i), out + done + i);
  });
}

void FromBf16(const std::uint16_t* in, std::size_t count, float* out) {
  for_each(count,
           [=](auto d, std::size_t i) HWY_ATTR { hn::StoreU(load_bf16(d, in + i), d, out + i); });
}

// As integers, |g| orders like the floats, and NaN and Inf lie above all others.
bool AllFinite(const float* g, std::size_t count) {
  const hn::RebindToSigned<Full> di;
  const auto size = [=](std::size_t i)
                        HWY_ATTR { return hn::BitCast(di, hn::Abs(hn::LoadU(Full(), g + i))); };
  auto largest = hn::Zero(di), other = largest;  // two, so that they need not wait for each other
  std::int32_t largest_in_tail = 0;
  std::size_t i = 0;
  for (; i + 4 * kWidth <= count; i += 4 * kWidth) {
    largest = hn::Max(largest, hn::Max(size(i), size(i + kWidth)));
    other = hn::Max(other, hn::Max(size(i + 2 * kWidth), size(i + 3 * kWidth)));
  }
  for (; i + kWidth <= count; i += kWidth) largest = hn::Max(largest, size(i));
  largest = hn::Max(largest, other);
  for (; i < count; ++i) {
    const hn::RebindToSigned<One> d1;
    const std::int32_t bits = hn::GetLane(hn::BitCast(d1, hn::Abs(hn::LoadU(One(), g + i))));
    if (bits > largest_in_tail) largest_in_tail = bits;
  }
  std::int32_t limit;
  std::memcpy(&limit, &kLargestGradient, sizeof limit);
  return largest_in_tail <= limit && hn::AllFalse(di, hn::Gt(largest, hn::Set(di, limit)));
}

float SumOfSquares(const float* a, std::size_t count) {
  Lanes lanes;
  accumulate(count, lanes, [=](auto d, std::size_t i) HWY_ATTR {
    const auto value = hn::LoadU(d, a + i);
    return hn::Mul(value, value);
  });
  return fold(lanes);
}

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {

HWY_EXPORT(Add);
HWY_EXPORT(Scale);
HWY_EXPORT(Blend);
HWY_EXPORT(Sum);
HWY_EXPORT(SumBf16);
HWY_EXPORT(MeanBf16);
HWY_EXPORT(ToBf16);
HWY_EXPORT(FromBf16);
HWY_EXPORT(AllFinite);
HWY_EXPORT(SumOfSquares);

void add(const float* a, std::size_t count, float* acc) noexcept {
  HWY_DYNAMIC_DISPATCH(Add)(a, count, acc);
}
void scale(float* a, std::size_t count, float factor) noexcept {
  HWY_DYNAMIC_DISPATCH(Scale)(a, count, factor);
}
void blend(float keep, const float* r, const float* live, std::size_t count, float* e) noexcept {
  HWY_DYNAMIC_DISPATCH(Blend)(keep, r, live, count, e);
}
void sum(const float* const* in, int inputs, std::size_t count, float factor, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(Sum)(in, inputs, count, factor, out);
}
void sum_bf16(const std::uint16_t* const* in, int inputs, std::size_t count, float factor,
              float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(SumBf16)(in, inputs, count, factor, out);
}
void mean_bf16(const std::uint16_t* const* in, int inputs, std::size_t count, float factor,
               float* values, std::uint16_t* out) noexcept {
  HWY_DYNAMIC_DISPATCH(MeanBf16)(in, inputs, count, factor, values, out);
}
void to_bf16(const float* in, std::size_t count, std::uint16_t* out) noexcept {
  HWY_DYNAMIC_DISPATCH(ToBf16)(in, count, out);
}
void from_bf16(const std::uint16_t* in, std::size_t count, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(FromBf16)(in, count, out);
}
bool all_finite(const float* g, std::size_t count) noexcept {
  return HWY_DYNAMIC_DISPATCH(AllFinite)(g, count);
}
float sum_of_squares(const float* a, std::size_t count) noexcept {
  return HWY_DYNAMIC_DISPATCH(SumOfSquares)(a, count);
}

}  // namespace laconic::kernels
#endif
