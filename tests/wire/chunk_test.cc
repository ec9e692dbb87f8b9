#include "laconic/wire/chunk.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/thrown.h"

namespace laconic::wire {
namespace {

static_assert(words(0) == 0 && words(1) == 1 && words(64) == 1 && words(65) == 2);
static_assert(blocks(0, 64) == 0 && blocks(1, 64) == 1 && blocks(64, 64) == 1);
static_assert(blocks(65, 64) == 2 && blocks(0, 0) == 0 && blocks(100000, 0) == 1);
static_assert(signs_size(0, 64) == 16 && signs_size(1, 4096) == 16 + 8 + 4);
static_assert(signs_size(4096, 4096) == 16 + 512 + 4 && signs_size(4097, 4096) == 16 + 520 + 8);
static_assert(signs_size(8192, 0) == 16 + 1024 + 4 && signs_size(1024, 256) == 16 + 128 + 16);
static_assert(random_signs_size(0) == 16 && random_signs_size(1) == 16 + 8 + 1);
static_assert(votes_size(0) == 0 && votes_size(1) == 8 + 1 && votes_size(513) == 72 + 2);
static_assert(random_signs_size(512) == 16 + 64 + 1 && random_signs_size(513) == 16 + 72 + 2);
static_assert(counts_size(0, 3) == 16 && counts_size(65, 3) == 16 + 2 * (24 + 2));

constexpr Header kHeader{Form::kSigns, 100, 7};
constexpr std::size_t kSize = signs_size(100, 64);
constexpr int kSender = 3;

std::vector<std::byte> sealed(const Header& header = kHeader, std::size_t size = kSize) {
  std::vector<std::byte> message(size);
  for (std::size_t i = 0; i < size; ++i) message[i] = static_cast<std::byte>(i * 37 + 11);
  seal(message, header);
  return message;
}

std::optional<Error> refusal(std::span<const std::byte> message, std::size_t size = kSize,
                             const Header& expected = kHeader) {
  return thrown([&] { check(message, size, expected, kSender); });
}

void expect_refusal(const std::optional<Error>& error, const std::vector<std::string>& words) {
  expect_says(error, Code::kCorrupt, words);
}

TEST(Chunk, WhatWasSealedIsAccepted) {
  for (const Form form : {Form::kSigns, Form::kRandomSigns, Form::kCounts})
    for (const std::size_t size : {kHeaderSize, kHeaderSize + 1, kSize, std::size_t{5000}}) {
      const Header header{form, 0xFFFFFFFF, 0x80000001};
      EXPECT_FALSE(refusal(sealed(header, size), size, header)) << size;
    }
}

TEST(Chunk, SealingLeavesThePayloadAlone) {
  std::vector<std::byte> before(kSize);
  for (std::size_t i = 0; i < kSize; ++i) before[i] = static_cast<std::byte>(i * 37 + 11);
  const auto after = sealed();
  EXPECT_EQ(
      std::memcmp(before.data() + kHeaderSize, after.data() + kHeaderSize, kSize - kHeaderSize), 0);
}

TEST(Chunk, TheHeaderLiesAsSpecified) {
  const auto message = sealed({Form::kCounts, 0x04030201, 0x14131211});
  const unsigned char expected[] = {'L', 'C', 1, 3, 1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14};
  EXPECT_EQ(std::memcmp(message.data(), expected, sizeof expected), 0);
}

TEST(Chunk, PartsLieBehindTheHeaderAndTheWords) {
  std::vector<std::byte> message(counts_size(130, 3));
  const auto signs = parts(std::span(message), 130);
  EXPECT_EQ(signs.bits, message.data() + 16);
  EXPECT_EQ(signs.extras, signs.bits + 24);
  const auto counts = parts(std::span<const std::byte>(message), 130, 3);
  EXPECT_EQ(counts.extras, message.data() + 16 + 3 * 24);
  EXPECT_EQ(counts.extras + 2 * words(130), message.data() + message.size());
}

TEST(Chunk, EveryFlippedBitOfTheHeaderIsNamedWithBothValues) {
  const char* const fields[] = {"magic", "version", "form", "elements", "exchange", "checksum"};
  const int field_of[] = {0, 0, 1, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5};
  const auto good = sealed();
  const auto number = [](std::span<const std::byte> m, std::size_t at, std::size_t n) {
    std::uint32_t value = 0;
    for (std::size_t i = n; i-- > 0;)
      value = value << 8 | std::to_integer<std::uint32_t>(m[at + i]);
    return std::to_string(value);
  };
  const std::size_t begin[] = {0, 2, 3, 4, 8, 12}, length[] = {2, 1, 1, 4, 4, 4};
  for (std::size_t bit = 0; bit < 8 * kHeaderSize; ++bit) {
    auto bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    const int field = field_of[bit / 8];
    expect_refusal(refusal(bad), {"rank 3", fields[field], number(bad, begin[field], length[field]),
                                  number(good, begin[field], length[field])});
  }
}

TEST(Chunk, EveryFlippedBitOfThePayloadIsCaught) {
  const auto good = sealed();
  for (std::size_t bit = 8 * kHeaderSize; bit < 8 * kSize; ++bit) {
    auto bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    expect_refusal(refusal(bad), {"rank 3", "checksum"});
  }
}

TEST(Chunk, AnotherHeaderThanExpectedIsRefusedWithBothValues) {
  const auto message = sealed();
  expect_refusal(refusal(message, kSize, {Form::kCounts, 100, 7}), {"form", "1", "3"});
  expect_refusal(refusal(message, kSize, {Form::kSigns, 99, 7}), {"elements", "100", "99"});
  expect_refusal(refusal(message, kSize, {Form::kSigns, 100, 8}), {"exchange", "7", "8"});
}

TEST(Chunk, MessagesOfAnotherLengthAreRefusedWithBothLengths) {
  const auto message = sealed(kHeader, kSize + 8);
  for (std::size_t size = 0; size < message.size(); ++size) {
    if (size == kSize) continue;
    // A copy of just these bytes, so that a sanitizer sees a read beyond them.
    const std::vector<std::byte> cut(message.begin(),
                                     message.begin() + static_cast<std::ptrdiff_t>(size));
    expect_refusal(refusal(cut), {std::to_string(size), std::to_string(kSize)});
  }
}

TEST(Chunk, AMessageShorterThanAHeaderIsRefusedEvenWhereItIsExpected) {
  for (std::size_t size = 0; size < kHeaderSize; ++size)
    expect_refusal(refusal(std::vector<std::byte>(size), size), {std::to_string(size), "16"});
}

TEST(Chunk, ScalesMustBeFiniteAndNotNegative) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<std::byte> scales(4 * 5 + 2);
  std::byte* unaligned = scales.data() + 2;
  const auto store = [&](float third) {
    const float all[] = {0, 1e-40F, 1, third, std::numeric_limits<float>::max()};
    for (std::size_t k = 0; k < 5; ++k) store_float(unaligned + 4 * k, all[k]);
  };
  for (const float good : {0.0F, -0.0F, 1.5F, 1e-45F}) {
    store(good);
    EXPECT_FALSE(thrown([&] { check_scales(unaligned, 5, kSender); })) << good;
  }
  for (const float bad : {nan, kInf, -kInf, -1.0F, -1e-45F}) {
    store(bad);
    expect_refusal(thrown([&] { check_scales(unaligned, 5, kSender); }),
                   {"rank 3", "scale 3", fmt::format("{}", bad)});
    EXPECT_FALSE(thrown([&] { check_scales(unaligned, 3, kSender); }));
  }
}

TEST(Chunk, WordsHaveAtMostTheVotersThereAre) {
  std::vector<std::byte> voters(2 * 3 + 1);
  std::byte* unaligned = voters.data() + 1;
  const std::uint16_t all[] = {0, 8, 300};
  std::memcpy(unaligned, all, sizeof all);
  EXPECT_FALSE(thrown([&] { check_voters(unaligned, 3, 300, kSender); }));
  EXPECT_FALSE(thrown([&] { check_voters(unaligned, 2, 8, kSender); }));
  expect_refusal(thrown([&] { check_voters(unaligned, 3, 299, kSender); }),
                 {"rank 3", "word 2", "300", "299"});
}

TEST(Chunk, FloatsAreStoredAndLoadedBitForBit) {
  std::byte memory[5];
  for (const std::uint32_t bits : {0U, 0x80000000U, 0x7F800001U, 0xFFC12345U, 0x3F800000U}) {
    float value;
    std::memcpy(&value, &bits, 4);
    store_float(memory + 1, value);
    const float loaded = load_float(memory + 1);
    EXPECT_EQ(std::memcmp(&loaded, &bits, 4), 0);
  }
}

}  // namespace
}  // namespace laconic::wire
