#include "laconic/optim/scalars.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace laconic {
namespace {

constexpr double kPi = std::numbers::pi;

// Exactly rounded, by a program of 300 bits.
TEST(Scalars, AreExactlyRounded) {
  EXPECT_EQ(power(0.999, 2), 0x1.fef9fcb0c026dp-1);
  EXPECT_EQ(power(0.999, 3), 0x1.fe772d5570166p-1);
  EXPECT_EQ(power(0.999, 10), 0x1.fae7299c256e3p-1);
  EXPECT_EQ(power(0.999, 1000), 0x1.788526411ed72p-2);
  EXPECT_EQ(power(0.999, 12345), 0x1.22391fb94567ep-18);
  EXPECT_EQ(cosine(0.1), 0x1.fd712f9a817c1p-1);
  EXPECT_EQ(cosine(0.9), 0x1.3e43a9692e21cp-1);
  EXPECT_EQ(cosine(1.5), 0x1.21bd54fc5f9a7p-4);
  EXPECT_EQ(cosine(kPi / 2), 0x1.1a62633145c07p-54);
  EXPECT_EQ(cosine(1.6), -0x1.de67ac55f1633p-6);
  EXPECT_EQ(cosine(3.1), -0x1.ff8ea4756a624p-1);
}

TEST(Scalars, HoldAtTheirEnds) {
  EXPECT_EQ(power(0, 0), 1);
  EXPECT_EQ(power(0, 5), 0);
  EXPECT_EQ(power(1, std::int64_t{1} << 62), 1);
  EXPECT_EQ(power(0.9, 1), 0.9);
  EXPECT_EQ(power(0.9, std::int64_t{1} << 62), 0);
  EXPECT_EQ(cosine(0), 1);
  EXPECT_EQ(cosine(kPi), -1);
}

// What meets a vector is rounded to fp32, and there no C library's last bit is seen.
TEST(Scalars, AreTheCLibrarysOnceTheyMeetAVector) {
  for (const double beta : {0.5, 0.9, 0.95, 0.98, 0.999, 0.9999})
    for (std::int64_t t = 1; t < 20'000; ++t) {
      const double ours = power(beta, t), theirs = std::pow(beta, static_cast<double>(t));
      constexpr double kSubnormal = 1e-320;  // where powers lose their bits one after the other
      ASSERT_NEAR(ours, theirs, 3e-16 * theirs + kSubnormal) << beta << " " << t;
      ASSERT_EQ(static_cast<float>(1 / (1 - ours)), static_cast<float>(1 / (1 - theirs)));
    }
  for (int k = 0; k <= 100'000; ++k) {
    const double angle = kPi * k / 100'000, ours = cosine(angle), theirs = std::cos(angle);
    ASSERT_NEAR(ours, theirs, 3e-16) << k;
    ASSERT_EQ(static_cast<float>(3e-4 * 0.5 * (1 + ours)),
              static_cast<float>(3e-4 * 0.5 * (1 + theirs)));
  }
}

}  // namespace
}  // namespace laconic
