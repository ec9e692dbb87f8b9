#include <algorithm>

#include "tests/device/cuda_case.h"

namespace laconic::testing {

std::vector<float> Case::floats(std::size_t count, const std::string& kind) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  const float scale = kind == "denormal" ? 1e-39F
                      : kind == "tiny"   ? 1e-41F
                      : kind == "large"  ? 1e15F
                                         : 1.0F;
  for (float& value : values) {
    value = normal(random) * scale;
    if (kind == "few") value = static_cast<float>(static_cast<int>(value * 3));
    if (kind == "zeros" && random() % 10 != 0) value = random() % 3 == 0 ? -0.0F : 0.0F;
  }
  return values;
}

Geometry::Geometry(std::size_t elements, unsigned rows, std::size_t slice, std::size_t capacity)
    : elements(elements),
      chunk((elements + 64 * rows - 1) / (64 * rows) * 64),
      begin(slice),
      capacity(capacity == 0 ? chunk - slice : capacity),
      rows(rows) {}

Range Geometry::range(unsigned row) const {
  const std::size_t first = std::min(row * chunk, elements);
  const std::size_t end = std::min(first + chunk, elements);
  const std::size_t from = std::min(first + begin, end);
  return {from, std::min(capacity, end - from), capacity};
}

cuda::Rows Geometry::device(std::size_t item) const {
  return {.begin = static_cast<std::int64_t>(begin),
          .stride = static_cast<std::int64_t>(chunk),
          .end = static_cast<std::int64_t>(elements),
          .length = static_cast<std::int64_t>(std::min(capacity, chunk - begin)),
          .capacity = static_cast<std::int64_t>(capacity),
          .item = static_cast<std::int64_t>(item)};
}

Cases all_cases() {
  Cases cases;
  add_encode_cases(cases);
  add_dense_cases(cases);
  add_signs_cases(cases);
  add_decode_cases(cases);
  add_pass_cases(cases);
  return cases;
}

kernels::AdamStep adam_step() {
  return {.beta1 = 0.9F,
          .one_minus_beta1 = 1 - 0.9F,
          .beta2 = 0.999F,
          .one_minus_beta2 = 1 - 0.999F,
          .rate = 1.7e-3F,
          .decay = 0.9997F,
          .correction = 1.234F,
          .epsilon = 1e-8F};
}

}  // namespace laconic::testing
