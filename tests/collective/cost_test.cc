#include <gtest/gtest.h>

#include "laconic/collective/layout.h"
#include "laconic/device/host.h"
#include "laconic/transport/metered.h"
#include "tests/support/means.h"

namespace laconic::testing {
namespace {

std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }
std::uint64_t length_of_part(std::uint64_t elements, int parts) {
  return ceil_div(ceil_div(elements, static_cast<std::uint64_t>(parts)), 64) * 64;
}

// Bytes and rounds as docs/explanation/algorithms.md gives them.
class MeanCost : public MeanTest {
 protected:
  // What one reduce sends.
  static Traffic traffic_of(Transport& world, std::size_t elements) {
    Traffic traffic;
    const auto metered = make_metered(world, traffic, setting().per_node);
    const Nodes nodes = make_nodes(*metered, setting().per_node);
    HostDevice device(1);
    const auto mean = make_mean(setting().config(elements), nodes, device);
    auto values = values_of(world.rank(), 0, elements);
    traffic = {};
    mean->reduce(values);
    return traffic;
  }

  static bool single_round() {
    return setting().sort.random() && setting().sort.config.form == RandomForm::kSingleRound;
  }

  // Counts of so many voters.
  static std::uint64_t counted(std::uint64_t c, std::uint64_t slices, int voters) {
    const auto planes = static_cast<std::uint64_t>(kernels::planes_of(voters));
    return c / 64 * (8 * planes + 2) + 16 * slices;
  }

  // A message of `slices` slices for c elements, by one codec.
  static std::uint64_t message(const std::string& codec, std::uint64_t c, std::uint64_t slices) {
    if (codec == "fp32" || codec == "bf16") return (codec == "bf16" ? 2 : 4) * c;
    const std::uint64_t block = setting().sort.block_of(codec), k = setting().sort.config.top_k;
    const std::uint64_t scales = 4 * (block == 0 ? 1 : ceil_div(c, block)) + 16 * slices;
    if (codec == "top-k") return 2 * (c / 4096 * k + std::min(c % 4096, k)) + scales;
    return c * static_cast<std::uint64_t>(setting().sort.bits_of(codec)) / 8 + scales;
  }
  // A lossy mean inside one node is a dense one.
  static std::uint64_t coded(std::uint64_t c, std::uint64_t slices) {
    if (setting().sort.votes() && !setting().flat()) return counted(c, slices, setting().per_node);
    if (signs()) return signs_of(c, slices);
    const bool gives_way = setting().sort.lossy() && !setting().codes();
    return message(gives_way ? "fp32" : setting().sort.config.codec, c, slices);
  }

  static std::uint64_t served(std::uint64_t c, std::uint64_t slices) {
    if (!signs())
      return setting().codes() ? message(setting().sort.down(), c, slices) : coded(c, slices);
    if (setting().sort.config.form != RandomForm::kCount) return signs_of(c, slices);
    return counted(c, slices, setting().sort.votes() ? setting().ranks : setting().nodes());
  }

  // Two ranks add a short vector in place, each of them all of it.
  static bool gathered(const Transport& world, std::size_t elements) {
    const std::string& codec = setting().sort.config.codec;
    return (codec == "fp32" || codec == "bf16") && setting().sort.down() == codec &&
           setting().ranks == 2 && setting().flat() &&
           elements * static_cast<std::size_t>(world.useful_slices()) <= std::size_t{256} << 10;
  }

  static bool signs() { return setting().sort.random() || setting().sort.votes(); }
  static std::uint64_t signs_of(std::uint64_t c, std::uint64_t slices) {
    return c / 8 + ceil_div(c, 512) + 16 * slices;
  }

  // Inside a node travel floats, votes, or u in bf16 with activity in whole cache lines a slice.
  static std::uint64_t share(std::uint64_t c, std::uint64_t slices) {
    if (!signs()) return 4 * c;
    EXPECT_EQ(slices, 1) << "the formula is of one slice";
    if (setting().sort.votes()) return signs_of(c, 0);
    return 2 * c + ceil_div(c, 512 * 64) * 64;
  }
};

TEST_P(MeanCost, BytesAndRoundsAreWhatTheFormulasSay) {
  if (single_round()) GTEST_SKIP() << "has formulas of its own";
  if (!setting().exchanges()) GTEST_SKIP() << "nothing is sent";
  const auto n = static_cast<std::uint64_t>(setting().ranks);
  const auto nodes = static_cast<std::uint64_t>(setting().nodes());
  const auto local = static_cast<std::uint64_t>(setting().per_node);
  std::vector<std::size_t> sizes{1, 64 * n + 1, 20011, 65536};
  if (n == 2 && setting().flat()) sizes.push_back(700001);
  run_ranks(setting().ranks, [&](Transport& world) {
    for (const std::size_t elements : sizes) {
      SCOPED_TRACE(elements);
      const Traffic traffic = traffic_of(world, elements);
      if (gathered(world, elements)) {
        EXPECT_EQ(traffic.total().rounds, 1);
        EXPECT_EQ(traffic[Kind::kAllGather].bytes_between,
                  message(setting().sort.config.codec, elements, 1));
        continue;
      }
      const std::uint64_t shard = length_of_part(elements, setting().per_node);
      const std::uint64_t c =
          length_of_part(std::min<std::uint64_t>(elements, shard), setting().nodes());
      const std::uint64_t slices = traffic[Kind::kAllGather].exchanges / (setting().flat() ? 1 : 2);
      if (setting().codes()) {
        const Layout layout(elements, setting().per_node, setting().nodes(), setting().sort.grain(),
                            std::size_t{8} << 20);
        EXPECT_EQ(slices, layout.slices());
        EXPECT_EQ(slices > 1, elements == 700001 && setting().sort.grain() != 0);
      }
      EXPECT_EQ(traffic[Kind::kAllToAll].bytes_between, (nodes - 1) * coded(c, slices));
      EXPECT_EQ(traffic[Kind::kAllGather].bytes_between, (nodes - 1) * served(c, slices));
      EXPECT_EQ(traffic[Kind::kAllToAll].bytes_inside,
                setting().flat() ? 0 : (local - 1) * nodes * share(c, slices));
      EXPECT_EQ(traffic[Kind::kAllGather].bytes_inside, (local - 1) * nodes * served(c, slices));
      EXPECT_EQ(traffic.total().rounds, setting().flat() ? 2 : 4);
      EXPECT_EQ(traffic[Kind::kAllToAll].rounds, setting().flat() ? 1 : 2);
    }
  });
}

TEST_P(MeanCost, ASingleRoundSendsHalfInOneCollective) {
  if (!single_round()) GTEST_SKIP() << "single-round only";
  const auto n = static_cast<std::uint64_t>(setting().ranks);
  const auto nodes = static_cast<std::uint64_t>(setting().nodes());
  const auto local = static_cast<std::uint64_t>(setting().per_node);
  run_ranks(setting().ranks, [&](Transport& world) {
    for (const std::size_t elements : {std::size_t{1}, std::size_t{20011}, std::size_t{600001}}) {
      SCOPED_TRACE(elements);
      const Traffic traffic = traffic_of(world, elements);
      const std::uint64_t runs = ceil_div(ceil_div(elements, 64), n);
      const std::uint64_t slices = traffic[Kind::kAllGather].exchanges / (setting().flat() ? 1 : 2);
      EXPECT_EQ(slices > 1, elements == 600001);
      const std::uint64_t message = 8 * runs + ceil_div(runs, 8) + 16 * slices;
      EXPECT_EQ(traffic[Kind::kAllGather].bytes_between, (nodes - 1) * message);
      EXPECT_EQ(traffic[Kind::kAllGather].bytes_inside, (local - 1) * nodes * message);
      EXPECT_EQ(traffic[Kind::kAllToAll].exchanges, 0);
      EXPECT_EQ(traffic.total().rounds, setting().flat() ? 1 : 2);
    }
  });
}

TEST_P(MeanCost, NothingIsSentForNothing) {
  run_ranks(setting().ranks,
            [](Transport& world) { EXPECT_EQ(traffic_of(world, 0).total().exchanges, 0); });
}

// Section by section of the table, for a length that divides: what is beyond it are scales and
// headers.
TEST_P(MeanCost, TheHierarchySendsWhatItsTableSays) {
  if (setting().flat() || !setting().codes()) GTEST_SKIP() << "coded hierarchies only";
  static constexpr std::uint64_t kElements = 1 << 17;
  const auto nodes = static_cast<std::uint64_t>(setting().nodes());
  const auto local = static_cast<std::uint64_t>(setting().per_node);
  run_ranks(setting().ranks, [&](Transport& world) {
    const Traffic traffic = traffic_of(world, kElements);
    EXPECT_EQ(traffic[Kind::kAllToAll].bytes_inside, 4 * kElements * (local - 1) / local);
    const auto bytes_of = [](std::uint64_t elements, const std::string& codec) {
      return static_cast<std::uint64_t>(static_cast<double>(elements) *
                                        setting().sort.bits_of(codec) / 8);
    };
    const std::uint64_t between = (nodes - 1) * kElements / nodes / local;
    const std::uint64_t inside = (local - 1) * kElements / local;
    const std::string up = setting().sort.config.codec, down = setting().sort.down();
    const auto expect_just_above = [](std::uint64_t has, std::uint64_t wanted) {
      EXPECT_GE(has, wanted);
      EXPECT_LE(has, wanted + wanted / 8 + 256);
    };
    expect_just_above(traffic[Kind::kAllToAll].bytes_between, bytes_of(between, up));
    expect_just_above(traffic[Kind::kAllGather].bytes_between, bytes_of(between, down));
    expect_just_above(traffic[Kind::kAllGather].bytes_inside, bytes_of(inside, down));
  });
}

TEST_P(MeanCost, DenseSendsAsARingDoes) {
  if (!setting().sort.exact() || !setting().flat()) GTEST_SKIP() << "flat dense means only";
  const auto n = static_cast<std::uint64_t>(setting().ranks);
  const std::uint64_t width = setting().sort.config.codec == "bf16" ? 2 : 4;
  run_ranks(setting().ranks, [&](Transport& world) {
    const std::uint64_t bytes = traffic_of(world, 100003).total().bytes();
    const std::uint64_t ring = 2 * (n - 1) * width * 100003 / n;
    EXPECT_GE(bytes, ring);
    EXPECT_LE(bytes, ring + 2 * (n - 1) * width * 64);
  });
}

TEST_P(MeanCost, NodesHalveWhatLeavesThemInTheAllToAll) {
  if (setting().nodes() != 2 || setting().per_node != 2 || !setting().codes())
    GTEST_SKIP() << "two nodes of two";
  run_ranks(4, [&](Transport& world) {
    static constexpr std::size_t kElements = 50021;
    const auto hierarchical = traffic_of(world, kElements);
    Traffic flat;
    const auto metered = make_metered(world, flat, 2);
    const Nodes nodes = make_nodes(*metered, kFlat);
    HostDevice device(1);
    const auto mean = make_mean(setting().config(kElements), nodes, device);
    auto values = values_of(world.rank(), 0, kElements);
    flat = {};
    mean->reduce(values);
    EXPECT_EQ(2 * hierarchical[Kind::kAllToAll].bytes_between, flat[Kind::kAllToAll].bytes_between);
  });
}

INSTANTIATE_TEST_SUITE_P(All, MeanCost, ::testing::ValuesIn(settings(all_sorts())), name_of);

}  // namespace
}  // namespace laconic::testing
