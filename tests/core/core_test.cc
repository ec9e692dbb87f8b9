#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "laconic/core/buffer.h"
#include "laconic/core/error.h"
#include "laconic/core/hash.h"
#include "laconic/core/parallel.h"
#include "laconic/core/random.h"

namespace laconic {
namespace {

// Random123's kat_vectors, philox4x32 with 10 rounds.
TEST(Philox, GivesThePublishedTestVectors) {
  constexpr std::uint32_t kOnes = 0xFFFFFFFF;
  static_assert(philox({0, 0, 0, 0}, {0, 0}) ==
                PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Every length class of XXH3, with and without a seed.
TEST(Hash, IsXxh3) {
  struct Known {
    std::size_t length;
    std::uint64_t plain, seeded;
  };
  constexpr std::uint64_t kSeed = 0x9E3779B97F4A7C15;
  constexpr Known kKnown[] = {{0, 0x2d06800538d394c2, 0x602b0e2cd6662c8b},
                              {1, 0xc44bdff4074eecdb, 0x062b185e4e01441a},
                              {3, 0x2b15aa0b3d075427, 0x8073415ba996f5f3},
                              {8, 0x0ddc676ecfe1929a, 0xdb7e93f22b463c4f},
                              {16, 0x9d71b1eecea7e0d6, 0x7e2fdd7063710cd2},
                              {17, 0xae7bc55216c7f267, 0xc97953b8c8171981},
                              {128, 0x85088f996a27d119, 0xc5ce35cd4c80315d},
                              {129, 0x59ffcb682f065f13, 0x3c8a73ca9e2b5081},
                              {240, 0xc499b1cac93859db, 0xdfcf7cb1d804ff65},
                              {241, 0x976b9583f6f1260b, 0xa231f40ed70c6c0c},
                              {1024, 0x766deab70359a275, 0x7dfbab706f64912e},
                              {4097, 0x1712b268a2e934f7, 0x723c21e2fb76ea67}};
  std::vector<std::byte> bytes(4097);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 % 251);
  for (const Known& known : kKnown) {
    const auto part = std::span<const std::byte>(bytes).first(known.length);
    EXPECT_EQ(hash64(part), known.plain) << known.length;
    EXPECT_EQ(hash64(part, kSeed), known.seeded) << known.length;
  }
}

TEST(Buffer, IsAlignedAndZeroAtEverySize) {
  for (std::size_t size : {1, 15, 16, 17, 1000, (1 << 20) - 1, (1 << 20) + 1, 3 << 20}) {
    const Buffer<float> buffer(size);
    EXPECT_EQ(buffer.size(), size);
    EXPECT_FALSE(buffer.empty());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0U);
    for (float value : buffer.span()) ASSERT_EQ(value, 0.0F);
  }
}

TEST(Buffer, IsZeroInMemoryThatWasUsedBefore) {
  for (int round = 0; round < 3; ++round) {
    const Buffer<int> buffer(1000);
    for (int& value : buffer.span()) {
      ASSERT_EQ(value, 0);
      value = -1;
    }
  }
}

TEST(Buffer, OfNoElementsHasNoMemory) {
  EXPECT_EQ(Buffer<double>().data(), nullptr);
  EXPECT_EQ(Buffer<double>(0).data(), nullptr);
  EXPECT_TRUE(Buffer<double>(0).empty());
  EXPECT_TRUE(Buffer<double>(0).span().empty());
}

TEST(Buffer, MovesItsMemory) {
  static_assert(!std::is_copy_constructible_v<Buffer<int>>);
  Buffer<int> a(100);
  a[99] = 7;
  const int* memory = a.data();
  Buffer<int> b(std::move(a));
  EXPECT_EQ(b.data(), memory);
  EXPECT_EQ(b.size(), 100U);
  Buffer<int> c(5);
  c = std::move(b);
  EXPECT_EQ(c.data(), memory);
  EXPECT_EQ(c[99], 7);
  EXPECT_EQ(c.size(), 100U);
}

TEST(Buffer, TooLargeForMemoryIsBadAlloc) {
  EXPECT_THROW(allocate_aligned(SIZE_MAX), std::bad_alloc);
}

class PoolOf : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, PoolOf, ::testing::Values(1, 2, 3, 8));

TEST_P(PoolOf, RunsEveryItemOnce) {
  Pool pool(GetParam());
  EXPECT_EQ(pool.threads(), GetParam());
  for (std::size_t items : {0, 1, 2, 7, 1000}) {
    std::vector<std::atomic<int>> seen(items);
    pool.run(items, [&](std::size_t item, int thread) {
      ++seen[item];
      EXPECT_GE(thread, 0);
      EXPECT_LT(thread, GetParam());
    });
    for (const auto& count : seen) EXPECT_EQ(count, 1);
  }
}

TEST_P(PoolOf, NeverGivesOneThreadNumberToTwoItemsAtOnce) {
  Pool pool(GetParam());
  std::vector<std::atomic<int>> inside(static_cast<std::size_t>(GetParam()));
  pool.run(2000, [&](std::size_t, int thread) {
    auto& here = inside[static_cast<std::size_t>(thread)];
    EXPECT_EQ(here.fetch_add(1), 0);
    here.fetch_sub(1);
  });
}

TEST_P(PoolOf, GivesTheSameResultAsOneThread) {
  Pool pool(GetParam());
  std::vector<std::uint32_t> out(4096);
  pool.run(out.size(), [&](std::size_t item, int) {
    out[item] = philox({static_cast<std::uint32_t>(item), 0, 0, 0}, {1, 2})[0];
  });
  for (std::size_t i = 0; i < out.size(); ++i)
    ASSERT_EQ(out[i], philox({static_cast<std::uint32_t>(i), 0, 0, 0}, {1, 2})[0]);
}

TEST_P(PoolOf, RethrowsAnExceptionAndStaysUsable) {
  Pool pool(GetParam());
  for (std::size_t bad : {0, 50, 99}) {
    try {
      pool.run(100, [&](std::size_t item, int) {
        if (item == bad) throw std::out_of_range("item " + std::to_string(item));
      });
      FAIL() << "nothing was thrown";
    } catch (const std::out_of_range& error) {
      EXPECT_EQ(error.what(), "item " + std::to_string(bad));
    }
    std::atomic<int> done = 0;
    pool.run(100, [&](std::size_t, int) { ++done; });
    EXPECT_EQ(done, 100);
  }
}

TEST_P(PoolOf, RunsManyTimes) {
  Pool pool(GetParam());
  std::atomic<std::size_t> sum = 0;
  for (int round = 0; round < 5000; ++round)
    pool.run(4, [&](std::size_t item, int) { sum += item + 1; });
  EXPECT_EQ(sum, 5000U * 10);
}

TEST(Pool, WithoutThreadsIsAnError) {
  for (int threads : {0, -1}) {
    try {
      Pool pool(threads);
      FAIL() << threads << " threads were taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find(std::to_string(threads)), std::string::npos);
    }
  }
}

TEST(Error, CarriesItsCodeAndBothValues) {
  try {
    fail(Code::kTimeout, "rank {} is missing after {} s", 3, 1.5);
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "rank 3 is missing after 1.5 s");
    EXPECT_EQ(dynamic_cast<const Error&>(error).code(), Code::kTimeout);
  }
}

TEST(Error, NamesEveryCode) {
  EXPECT_STREQ(name(Code::kInvalidArgument), "invalid argument");
  EXPECT_STREQ(name(Code::kTransport), "transport");
  EXPECT_STREQ(name(Code::kTimeout), "timeout");
  EXPECT_STREQ(name(Code::kCorrupt), "corrupt data");
  EXPECT_STREQ(name(Code::kUnavailable), "unavailable");
  EXPECT_STREQ(name(Code::kFile), "file");
  EXPECT_STREQ(name(Code::kMismatch), "replicas differ");
  EXPECT_STREQ(name(Code::kInternal), "internal");
}

TEST(Error, FindsEveryCodeByItsName) {
  for (const Code code : {Code::kInvalidArgument, Code::kTransport, Code::kTimeout, Code::kCorrupt,
                          Code::kUnavailable, Code::kFile, Code::kMismatch, Code::kInternal})
    EXPECT_EQ(code_named(name(code)), code);
  EXPECT_EQ(code_named("unknown"), std::nullopt);
  EXPECT_EQ(code_named(""), std::nullopt);
}

}  // namespace
}  // namespace laconic
