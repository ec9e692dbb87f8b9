#include <gtest/gtest.h>

#include <atomic>

#include "laconic/device/host.h"
#include "laconic/transport/faulty.h"
#include "tests/support/means.h"
#include "tests/support/short_transport.h"
#include "tests/support/thrown.h"

namespace laconic::testing {
namespace {

// Means whose transport goes wrong.
class MeanFaults : public MeanTest {
 protected:
  static constexpr std::size_t kElements = 20011;

  // Processes learn of a lost one by the timeout.
  static RunOptions options() {
    return {.timeout = std::chrono::seconds(ranks_are_threads() ? 20 : 2)};
  }
  // Those who know already wait here for the others.
  void TearDown() override {
    run_ranks(setting().ranks, [](Transport&) {});
  }

  // Reduces twice, then arms `faults` on the last rank and reduces again. Returns what that threw.
  template <typename Faulted>
  static std::optional<Error> broken_reduce(Transport& world, const Faulted& faults) {
    bool armed = false;
    const auto faulty = make_faulty(world, faults(armed));
    const Nodes nodes = make_nodes(*faulty, setting().per_node);
    HostDevice device(1);
    const auto mean = make_mean(setting().config(kElements), nodes, device);
    for (int exchange = 0; exchange < 2; ++exchange) {
      auto values = values_of(world.rank(), exchange, kElements);
      mean->reduce(values);
    }
    armed = world.rank() == world.size() - 1;
    auto values = values_of(world.rank(), 2, kElements);
    return thrown([&] { mean->reduce(values); });
  }
};

TEST_P(MeanFaults, AFlippedBitIsCorruptWhereItArrivesAndEndsTheOthers) {
  if (!setting().sort.random() && !setting().sort.votes() && !setting().codes())
    GTEST_SKIP() << "whole floats have no checksum";
  std::atomic<int> seen = 0;
  run_ranks(
      setting().ranks,
      [&](Transport& world) {
        const auto error = broken_reduce(world, [](bool& armed) {
          return Faults{.before_post = {},
                        .on_arrival = [&armed](std::int64_t, int, std::span<std::byte> block) {
                          const bool coded = block.size() > 40 && block[0] == std::byte{'L'} &&
                                             block[1] == std::byte{'C'};
                          if (!armed || !coded) return;
                          block[37] ^= std::byte{4};
                          armed = false;
                        }};
        });
        ASSERT_TRUE(error);
        const bool corrupt = error->code() == Code::kCorrupt;
        if (corrupt) ++seen;
        if (setting().flat()) {
          EXPECT_EQ(corrupt, world.rank() == world.size() - 1) << error->what();
        }
        // In a hierarchy the message is forwarded as it is: any rank of the node may see it first.
        if (corrupt)
          expect_says(error, Code::kCorrupt, {"checksum", "message from rank"});
        else
          expect_says(error, Code::kTimeout, {"rank"});
      },
      options());
  EXPECT_TRUE(seen > 0 || !ranks_are_threads());
}

TEST_P(MeanFaults, BlocksThatArriveTooShortAreCorruptAndNotRead) {
  if (!setting().exchanges()) GTEST_SKIP() << "nothing is posted";
  run_ranks(
      setting().ranks,
      [](Transport& world) {
        bool armed = false;
        ShortTransport broken(world, &armed);
        const Nodes nodes = make_nodes(broken, setting().per_node);
        HostDevice device(1);
        const auto mean = make_mean(setting().config(kElements), nodes, device);
        auto values = values_of(world.rank(), 0, kElements);
        mean->reduce(values);
        armed = world.rank() == world.size() - 1;
        const auto error = thrown([&] { mean->reduce(values); });
        if (armed)
          expect_says(error, Code::kCorrupt, {"delivered blocks of", "are expected"});
        else if (error)  // the others may have all they need before the last one gives up
          expect_says(error, Code::kTimeout, {"rank"});
      },
      options());
}

TEST_P(MeanFaults, ARankThatDiesEndsTheOthers) {
  if (!setting().exchanges()) GTEST_SKIP() << "nothing is posted";
  run_ranks(
      setting().ranks,
      [](Transport& world) {
        const auto error = broken_reduce(world, [](bool& armed) {
          return Faults{.before_post =
                            [&armed](std::int64_t number) {
                              if (armed) fail(Code::kTransport, "dies at exchange {}", number);
                            },
                        .on_arrival = {}};
        });
        if (world.rank() == world.size() - 1)
          expect_says(error, Code::kTransport, {"dies at exchange"});
        else
          expect_says(error, Code::kTimeout, {"rank"});
      },
      options());
}

std::vector<Setting> few_settings() {
  auto all = settings(all_sorts());
  std::erase_if(all, [](const Setting& setting) {
    return ranks_are_threads() ? setting.ranks > 4
                               : setting.sort.name != "one_bit_4096_l2" || !setting.flat();
  });
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, MeanFaults, ::testing::ValuesIn(few_settings()), name_of);

}  // namespace
}  // namespace laconic::testing
