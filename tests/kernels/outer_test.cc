#include "laconic/kernels/outer.h"

#include <gtest/gtest.h>

#include <limits>

#include "laconic/kernels/reference.h"
#include "tests/support/cases.h"

namespace laconic::kernels {
namespace {

using testing::Case;
using testing::expect_same;
using testing::for_each_case;

class OuterKernels : public testing::OnEveryTarget {};
LACONIC_ON_EVERY_TARGET(OuterKernels);

constexpr OuterRule kRules[] = {OuterRule::kAverage, OuterRule::kNesterov, OuterRule::kMomentum,
                                OuterRule::kSign};
constexpr Follow kFollows[] = {Follow::kEqual, Follow::kKeep, Follow::kBlend};

OuterStep outer_step(OuterRule rule, Follow follow, float clip, float penalty) {
  return {.rule = rule,
          .follow = follow,
          .penalty = penalty,
          .rate = 0.7F,
          .momentum = 0.9F,
          .clip = clip,
          .inverse_gamma = 330.0F,
          .beta1 = 0.95F,
          .one_minus_beta1 = 0.05F,
          .beta2 = 0.98F,
          .one_minus_beta2 = 0.02F,
          .decay = 0.9997F,
          .own = 0.3F,
          .shared = 0.7F};
}

TEST_P(OuterKernels, DisplacementEqualsTheReference) {
  for_each_case([](Case& one) {
    expect_same(displacement, reference::displacement, one.floats(), one.floats(), one.count(),
                one.floats());
  });
}

TEST_P(OuterKernels, EveryRuleAndEveryWayToFollowEqualTheReference) {
  for_each_case([](Case& one) {
    const auto mean = one.floats(), m = one.floats(), snapshot = one.floats();
    const auto x_sync = one.floats(), x = one.floats();
    for (const OuterRule rule : kRules)
      for (const Follow follow : kFollows) {
        const OuterStep free = outer_step(rule, follow, std::numeric_limits<float>::infinity(), 1);
        const OuterStep held = outer_step(rule, follow, 0.25F, 3);
        expect_same(outer_update, reference::outer_update, free, mean, m, snapshot, x_sync, x,
                    one.count());
        expect_same(outer_update, reference::outer_update, held, mean, m, snapshot, x_sync, x,
                    one.count());
      }
  });
}

TEST_P(OuterKernels, AnAverageNeedsNoMomentumAndNoSnapshot) {
  for_each_case([](Case& one) {
    const auto mean = one.floats(), x_sync = one.floats(), x = one.floats();
    expect_same(outer_update, reference::outer_update,
                outer_step(OuterRule::kAverage, Follow::kEqual, 0, 1), mean, nullptr, nullptr,
                x_sync, x, one.count());
  });
}

}  // namespace
}  // namespace laconic::kernels
