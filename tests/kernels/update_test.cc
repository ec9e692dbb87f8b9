#include "laconic/kernels/update.h"

#include <gtest/gtest.h>

#include "laconic/kernels/reference.h"
#include "tests/support/cases.h"

namespace laconic::kernels {
namespace {

using testing::Case;
using testing::expect_same;
using testing::for_each_case;

class UpdateKernels : public testing::OnEveryTarget {};
LACONIC_ON_EVERY_TARGET(UpdateKernels);

AdamStep adam_step(float floor, float epsilon) {
  return {.beta1 = 0.9F,
          .one_minus_beta1 = 0.1F,
          .beta2 = 0.999F,
          .one_minus_beta2 = 0.001F,
          .rate = 3.1e-3F,
          .decay = 0.9999F,
          .correction = 1.37F,
          .epsilon = epsilon,
          .floor = floor};
}

const AdamStep kSteps[] = {adam_step(0, 1e-8F), adam_step(0.01F, 1e-8F), adam_step(1e-30F, 0)};

TEST_P(UpdateKernels, SgdmEqualsTheReference) {
  for_each_case([](Case& one) {
    const SgdmStep step{.momentum = 0.9F, .lr = 0.013F, .decay = 0.9997F};
    expect_same(sgdm, reference::sgdm, step, one.floats(), one.floats(), one.floats(), one.count());
  });
}

TEST_P(UpdateKernels, AdamwEqualsTheReferenceAndHasNoFloor) {
  for_each_case([](Case& one) {
    const auto g = one.floats(), m = one.floats(), v = one.positive(), x = one.floats();
    for (const AdamStep& step : kSteps)
      expect_same(adamw, reference::adamw, step, g, m, v, x, one.count());
  });
}

TEST_P(UpdateKernels, AdamMomentsEqualTheReference) {
  for_each_case([](Case& one) {
    const auto g = one.floats(), m = one.floats(), v = one.positive();
    const auto lanes = one.lanes();
    expect_same(adam_moments, reference::adam_moments, kSteps[0], g, m, v, one.count(), lanes);
  });
}

TEST_P(UpdateKernels, AdamApplyEqualsTheReference) {
  for_each_case([](Case& one) {
    const auto m = one.floats(), v = one.positive(), x = one.floats(), copy = one.floats();
    for (const AdamStep& step : kSteps) {
      expect_same(adam_apply, reference::adam_apply, step, m, v, x, copy, one.count());
      expect_same(adam_apply, reference::adam_apply, step, m, v, x, nullptr, one.count());
    }
  });
}

TEST_P(UpdateKernels, MomentumEqualsTheReference) {
  for_each_case([](Case& one) {
    const auto g = one.floats(), m = one.floats(), out = one.floats();
    expect_same(momentum, reference::momentum, kSteps[0], g, m, out, one.count());
    expect_same(momentum, reference::momentum, kSteps[0], nullptr, m, out, one.count());
  });
}

TEST_P(UpdateKernels, OneBitApplyEqualsTheReference) {
  for_each_case([](Case& one) {
    const auto mean = one.floats(), m = one.floats(), v = one.positive(), x = one.floats();
    for (const AdamStep& step : kSteps)
      expect_same(one_bit_apply, reference::one_bit_apply, step, mean, m, v, x, one.count());
  });
}

TEST_P(UpdateKernels, ZeroOneMessageEqualsTheReference) {
  for_each_case([](Case& one) {
    const auto g = one.floats(), m = one.floats(), pending = one.floats(), out = one.floats();
    for (float shrink : {1.0F, 0.37F, 0.0F}) {
      expect_same(zero_one_message, reference::zero_one_message, kSteps[0], shrink, g, m, pending,
                  out, one.count());
      expect_same(zero_one_message, reference::zero_one_message, kSteps[0], shrink, nullptr, m,
                  pending, out, one.count());
    }
  });
}

TEST_P(UpdateKernels, ZeroOneLocalEqualsTheReference) {
  for_each_case([](Case& one) {
    const auto g = one.floats(), m = one.floats(), v = one.positive(), x = one.floats();
    const auto pending = one.floats();
    for (const AdamStep& step : kSteps) {
      expect_same(zero_one_local, reference::zero_one_local, step, 0.71F, g, m, v, pending, x,
                  one.count());
      expect_same(zero_one_local, reference::zero_one_local, step, 1.0F, nullptr, m, v, pending, x,
                  one.count());
    }
  });
}

TEST_P(UpdateKernels, ZeroOneSyncEqualsTheReference) {
  for_each_case([](Case& one) {
    const auto mean = one.floats(), m = one.floats(), v = one.positive(), x = one.floats();
    const auto x_sync = one.floats();
    for (const AdamStep& step : kSteps) {
      expect_same(zero_one_sync, reference::zero_one_sync, step, 47.3F, mean, m, v, x_sync, x,
                  one.count());
      expect_same(zero_one_sync, reference::zero_one_sync, step, 47.3F, mean, nullptr, v, x_sync, x,
                  one.count());
    }
  });
}

TEST_P(UpdateKernels, TrustStepsEqualTheReference) {
  for_each_case([](Case& one) {
    const auto m = one.floats(), v = one.positive(), x = one.floats();
    const auto of_u = one.lanes(), of_x = one.lanes();
    for (const float floor : {0.0F, 0.01F, 1e-30F}) {
      const TrustStep step{1.9F, 1.37F, 1e-8F, 0.013F, floor};
      for (const std::size_t at : {0, 5, 31})
        expect_same(trust_squares, reference::trust_squares, step, m, v, x, one.count(), at, of_u,
                    of_x);
      expect_same(trust_apply, reference::trust_apply, step, 0.0031F, m, v, x, one.count());
    }
  });
}

TEST_P(UpdateKernels, BirderUpdateEqualsTheReference) {
  for_each_case([](Case& one) {
    expect_same(birder_update, reference::birder_update, 0.008F, 0.9998F, one.floats(),
                one.floats(), one.count());
  });
}

}  // namespace
}  // namespace laconic::kernels
