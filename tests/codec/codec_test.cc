#include "laconic/codec/codec.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "laconic/core/buffer.h"
#include "laconic/kernels/dense.h"
#include "tests/support/thrown.h"

namespace laconic::testing {
namespace {

struct Case {
  std::string codec;
  CodecOptions options = {};

  std::string name() const {
    if (codec == "top-k") return fmt::format("top_k_{}", options.top_k);
    if (codec.starts_with("int")) return fmt::format("{}_{}", codec, options.quant_block);
    return fmt::format("{}_{}_{}", codec, options.scale_block,
                       options.scale_norm == kernels::Norm::kL2 ? "l2" : "l1");
  }
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name(); }

// A message of 20,000 elements, of which the last 7 words are padding and the one before is short.
constexpr std::size_t kCapacity = 20'032, kCount = 19'553;

float value_of(int seed, std::size_t k) {
  return std::sin(static_cast<float>(k * 7 + static_cast<std::size_t>(seed) * 1001)) *
         static_cast<float>(1 + k / 4096);
}

class CodecTest : public ::testing::TestWithParam<Case> {
 protected:
  using Part = Codec::Part;
  using Block = Codec::Block;

  CodecTest() : codec_(make_codec(GetParam().codec, GetParam().options)) {}

  // Calls work(begin, count) for the blocks of the message.
  template <typename Work>
  void for_each_block(const Work& work) const {
    const std::size_t none = codec_->exact() ? Codec::kTile : kCount;
    const std::size_t block = codec_->block() == 0 ? none : codec_->block();
    for (std::size_t at = 0; at < kCount; at += block) work(at, std::min(block, kCount - at));
  }
  template <typename Work>
  static void for_each_tile(std::size_t begin, std::size_t count, const Work& work) {
    for (std::size_t at = 0; at < count; at += Codec::kTile)
      work(Part{kCapacity, begin + at, std::min(Codec::kTile, count - at)});
  }

  // Encodes p, which is known as a whole; returns the message.
  std::vector<std::byte> encode(const std::vector<float>& p, std::vector<float>& residual,
                                const float* live = nullptr, float gain = 1) const {
    std::vector<std::byte> message(codec_->message_size(kCapacity), std::byte{0xEE});
    codec_->clear({kCapacity, kCount, kCapacity - kCount}, message.data());
    std::vector<float> scratch(Codec::kTile);
    for_each_block([&](std::size_t begin, std::size_t count) {
      Block block;
      for_each_tile(begin, count, [&](const Part& part) {
        codec_->measure(p.data() + part.begin, nullptr, live ? live + part.begin : nullptr,
                        part.count, scratch.data(), block);
      });
      EXPECT_TRUE(codec_->settle(count, block));
      for_each_tile(begin, count, [&](const Part& part) {
        codec_->encode(p.data() + part.begin, live ? live + part.begin : nullptr, part, block, gain,
                       residual.data() + part.begin, message.data());
      });
    });
    return message;
  }

  std::vector<float> decode(const std::vector<std::byte>& message) const {
    std::vector<float> all(kCount), scratch(Codec::kTile);
    for_each_block([&](std::size_t begin, std::size_t count) {
      for_each_tile(begin, count, [&](const Part& part) {
        const float* from = codec_->decode(message.data(), part, scratch.data());
        std::copy_n(from, part.count, all.data() + part.begin);
      });
    });
    return all;
  }

  bool sparse() const { return codec_->name() == "top-k"; }

  // Where the scales of a message begin.
  std::size_t scales() const {
    if (sparse()) {
      const std::size_t k = GetParam().options.top_k;
      return wire::kHeaderSize + 2 * (kCapacity / 4096 * k + std::min(kCapacity % 4096, k));
    }
    const std::size_t bits = codec_->name() == "sign" ? 1 : codec_->name()[3] - std::size_t{'0'};
    return wire::kHeaderSize + kCapacity * bits / 8;
  }

  std::unique_ptr<Codec> codec_;
};

class LossyCodec : public CodecTest {};

std::vector<float> values(int seed) {
  std::vector<float> all(kCount);
  for (std::size_t k = 0; k < kCount; ++k) all[k] = value_of(seed, k);
  return all;
}

TEST_P(CodecTest, IsMadeUnderItsName) { EXPECT_EQ(codec_->name(), GetParam().codec); }

TEST_P(CodecTest, WhatIsDecodedAndTheResidualAddUpToWhatWasEncoded) {
  const auto p = values(1);
  std::vector<float> residual(kCount, 77.0F);
  const auto decoded = decode(encode(p, residual, nullptr, 2));
  for (std::size_t k = 0; k < kCount; ++k) {
    if (codec_->exact())
      ASSERT_NEAR(decoded[k], p[k], 0x1p-8 * std::abs(p[k]));
    else
      ASSERT_EQ(residual[k], (p[k] - decoded[k]) * 2) << k;
  }
}

// Whole blocks that fit a tile; 0: blocks are longer.
std::size_t run_of(const Codec& codec) {
  const std::size_t block = codec.block() == 0 ? Codec::kTile : codec.block();
  return Codec::kTile / block * block;
}

TEST_P(CodecTest, DecodesSeveralBlocksAsEachOfThem) {
  const std::size_t run = run_of(*codec_);
  if (run == 0) GTEST_SKIP() << "blocks longer than a tile";
  std::vector<float> residual(kCount), scratch(Codec::kTile);
  const auto message = encode(values(1), residual);
  const auto expected = decode(message);
  for (std::size_t at = 0; at < kCount; at += run) {
    const Part part{kCapacity, at, std::min(run, kCount - at)};
    const float* from = codec_->decode(message.data(), part, scratch.data());
    for (std::size_t k = 0; k < part.count; ++k) ASSERT_EQ(from[k], expected[at + k]) << at + k;
  }
}

TEST_P(LossyCodec, ARunOfBlocksIsEncodedAsEachOfThem) {
  const std::size_t run = run_of(*codec_);
  if (!codec_->encodes_runs() || run == 0) GTEST_SKIP() << "blocks are encoded one by one";
  auto a = values(1);
  std::vector<float> expected(kCount), left(kCount), zeros(kCount);
  const auto message = encode(a, expected, nullptr, 2);
  std::vector<std::byte> runs(message.size(), std::byte{0xEE});
  codec_->clear({kCapacity, kCount, kCapacity - kCount}, runs.data());
  for (std::size_t at = 0; at < kCount; at += run) {
    const Part part{kCapacity, at, std::min(run, kCount - at)};
    ASSERT_EQ(codec_->encode_run(a.data() + at, zeros.data() + at, nullptr, part, 2,
                                 left.data() + at, runs.data()),
              part.count);
  }
  EXPECT_EQ(left, expected);
  EXPECT_EQ(runs, message);
  // It ends before a block that cannot be encoded, and leaves that and the rest alone.
  const std::size_t bad = 2 * codec_->block();
  if (bad >= run) return;
  a[bad + 1] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(codec_->encode_run(a.data(), zeros.data(), nullptr, {kCapacity, 0, run}, 2, left.data(),
                               runs.data()),
            bad);
  EXPECT_EQ(left, expected);
  EXPECT_EQ(runs, message);
}

TEST_P(LossyCodec, DeadElementsEnterNeitherScaleNorResidual) {
  auto p = values(1);
  std::vector<float> live(kCount), residual(kCount, 77.0F), unused(kCount);
  for (std::size_t k = 0; k < kCount; ++k) live[k] = k % 3 == 0 ? 0 : 1;
  const auto message = encode(p, residual, live.data());
  for (std::size_t k = 0; k < kCount; k += 3) {
    ASSERT_EQ(residual[k], 0);
    p[k] = 1e6F;
  }
  EXPECT_EQ(encode(p, unused, live.data()), message);
}

TEST_P(CodecTest, CombineIsTheMeanOfWhatTheMessagesDecodeToAndTheResidual) {
  std::vector<float> e(kCount, 0.0F), unused(kCount), q(kCount);
  std::vector<std::vector<std::byte>> messages;
  std::vector<const std::byte*> pointers;
  std::vector<float> sum;
  for (int r = 0; r < 3; ++r) {
    messages.push_back(encode(values(r), unused));
    const auto decoded = decode(messages.back());
    if (r == 0) sum = decoded;
    for (std::size_t k = 0; r > 0 && k < kCount; ++k) sum[k] += decoded[k];
  }
  for (const auto& message : messages) pointers.push_back(message.data());
  if (!codec_->exact())
    for (std::size_t k = 0; k < kCount; ++k) e[k] = value_of(9, k);
  const float factor = 1.0F / 3;
  Buffer<std::byte> workspace(codec_->workspace_size(3));
  for_each_block([&](std::size_t begin, std::size_t count) {
    Block combined, measured;
    for_each_tile(begin, count, [&](const Part& part) {
      codec_->combine(pointers, part, factor, codec_->exact() ? nullptr : e.data() + part.begin,
                      nullptr, q.data() + part.begin, combined, workspace.data());
      std::vector<float> same(part.count);
      codec_->measure(q.data() + part.begin, nullptr, nullptr, part.count, same.data(), measured);
    });
    ASSERT_TRUE(codec_->settle(count, combined));
    ASSERT_TRUE(codec_->settle(count, measured));
    ASSERT_EQ(combined.scale, measured.scale);
  });
  for (std::size_t k = 0; k < kCount; ++k) {
    const float mean = sum[k] * factor;
    ASSERT_EQ(q[k], codec_->exact() ? mean : mean + e[k]) << k;
  }
}

TEST_P(CodecTest, AClearedBlockDecodesToZeroAndTheOthersStay) {
  std::vector<float> unused(kCount);
  auto message = encode(values(1), unused);
  const auto before = decode(message);
  const std::size_t block = codec_->block() == 0 ? kCount : codec_->block();
  codec_->clear({kCapacity, 0, block}, message.data());
  const auto after = decode(message);
  for (std::size_t k = 0; k < kCount; ++k) ASSERT_EQ(after[k], k < block ? 0 : before[k]) << k;
}

TEST_P(CodecTest, PaddingIsZeroWhateverWasThereBefore) {
  std::vector<float> unused(kCount);
  const auto message = encode(values(1), unused);
  auto cleared = message;
  codec_->clear({kCapacity, kCount, kCapacity - kCount}, cleared.data());
  EXPECT_EQ(cleared, message);
  // A short block may use all the places of a sparse message.
  if (!codec_->exact() && !(sparse() && GetParam().options.top_k <= kCount % 4096)) {
    EXPECT_EQ(message[scales() - 1], std::byte{0});
  }
}

TEST_P(LossyCodec, ABlockWithSomethingNotFiniteCannotBeEncoded) {
  auto p = values(1);
  p[5] = std::numeric_limits<float>::infinity();
  Block block;
  std::vector<float> scratch(64);
  codec_->measure(p.data(), nullptr, nullptr, 64, scratch.data(), block);
  EXPECT_FALSE(codec_->settle(64, block));
}

TEST_P(LossyCodec, AScaleThatIsNotANumberIsRefusedAndItsRankNamed) {
  std::vector<float> unused(kCount);
  auto message = encode(values(1), unused);
  codec_->check(message.data(), kCapacity, kCount, 3);
  for (const float scale :
       {-1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    wire::store_float(message.data() + scales(), scale);
    expect_says(thrown([&] { codec_->check(message.data(), kCapacity, kCount, 3); }),
                Code::kCorrupt, {"rank 3", "scale"});
  }
}

TEST_P(LossyCodec, WhateverBitsPassTheCheckDecodeToFiniteNumbers) {
  std::vector<float> unused(kCount);
  auto message = encode(values(1), unused);
  // Indices are not free: of a sparse message only codes are any bits.
  const std::size_t k = GetParam().options.top_k;
  const std::size_t first = wire::kHeaderSize + (sparse() ? (3 * k + 1) / 2 : 0);
  const std::size_t last = sparse() ? wire::kHeaderSize + 2 * k : scales();
  std::fill_n(message.data() + first, last - first, std::byte{0x88});
  int passed = 0;
  for (const float scale : {std::numeric_limits<float>::max(), 1e38F, 1e36F, 0.5F}) {
    wire::store_float(message.data() + scales(), scale);
    try {
      codec_->check(message.data(), kCapacity, kCount, 3);
    } catch (const Error&) {
      continue;
    }
    ++passed;
    for (const float value : decode(message)) ASSERT_TRUE(std::isfinite(value));
  }
  EXPECT_GT(passed, 1);
}

TEST_P(LossyCodec, EncodesTheLargestNumbersThatReceiversAccept) {
  std::vector<float> p(kCount), unused(kCount);
  for (std::size_t k = 0; k < kCount; ++k) p[k] = value_of(1, k) * 1e15F;
  const auto message = encode(p, unused);
  codec_->check(message.data(), kCapacity, kCount, 0);
}

const Case kLossy[] = {{"sign"},
                       {"sign", {.scale_block = 64}},
                       {"sign", {.scale_block = 8192, .scale_norm = kernels::Norm::kL1}},
                       {"sign", {.scale_block = 0}},
                       {"int8"},
                       {"int8", {.quant_block = 64}},
                       {"int4"},
                       {"int4", {.quant_block = 8192}},
                       {"int2"},
                       {"top-k"},
                       {"top-k", {.top_k = 1}},
                       {"top-k", {.top_k = 77}},
                       {"top-k", {.top_k = 4096}}};
const Case kExact[] = {{"fp32"}, {"bf16"}};
const auto kName = [](const auto& info) { return info.param.name(); };

INSTANTIATE_TEST_SUITE_P(Lossy, CodecTest, ::testing::ValuesIn(kLossy), kName);
INSTANTIATE_TEST_SUITE_P(Exact, CodecTest, ::testing::ValuesIn(kExact), kName);
INSTANTIATE_TEST_SUITE_P(All, LossyCodec, ::testing::ValuesIn(kLossy), kName);

TEST(Codecs, HaveTheSizesOfTheWireFormat) {
  const auto sign = make_codec("sign"), fp32 = make_codec("fp32"), bf16 = make_codec("bf16");
  EXPECT_EQ(sign->message_size(8192), 16 + 8192 / 8 + 2 * 4);
  EXPECT_EQ(sign->message_size(8256), 16 + 8256 / 8 + 3 * 4);
  EXPECT_EQ(make_codec("sign", {.scale_block = 0})->message_size(8256), 16 + 8256 / 8 + 4);
  EXPECT_EQ(fp32->message_size(100), 400);
  EXPECT_EQ(bf16->message_size(100), 200);
  EXPECT_DOUBLE_EQ(sign->bits_per_element(), 1 + 32.0 / 4096);
  const auto int8 = make_codec("int8"), int4 = make_codec("int4"), int2 = make_codec("int2");
  EXPECT_EQ(int8->message_size(8256), 16 + 8256 + 33 * 4);
  EXPECT_EQ(int4->message_size(8256), 16 + 8256 / 2 + 33 * 4);
  EXPECT_EQ(int2->message_size(8256), 16 + 8256 / 4 + 33 * 4);
  EXPECT_DOUBLE_EQ(int8->bits_per_element(), 8 + 32.0 / 256);
  EXPECT_DOUBLE_EQ(int4->bits_per_element(), 4 + 32.0 / 256);
  EXPECT_DOUBLE_EQ(int2->bits_per_element(), 2 + 32.0 / 256);
  const auto top_k = make_codec("top-k"), odd = make_codec("top-k", {.top_k = 77});
  EXPECT_EQ(top_k->message_size(8192), 16 + 2 * (128 * 12 + 128 * 4) / 8 + 2 * 4);
  EXPECT_EQ(top_k->message_size(8256), 16 + (2 * 128 + 64) * 2 + 3 * 4) << "a short last block";
  EXPECT_EQ(odd->message_size(8256), 16 + (2 * 77 + 64) * 2 + 3 * 4);
  EXPECT_DOUBLE_EQ(top_k->bits_per_element(), 128 * 16 / 4096.0 + 32.0 / 4096);
  EXPECT_DOUBLE_EQ(fp32->bits_per_element(), 32);
  EXPECT_DOUBLE_EQ(bf16->bits_per_element(), 16);
}

// Sparse messages of two blocks, the second of 100 elements.
class SparseMessage : public ::testing::Test {
 protected:
  static constexpr std::size_t kSmall = 4096 + 100, kRoom = 4096 + 128;

  SparseMessage() : message_(codec_->message_size(kRoom)) {
    std::vector<float> p(4096), e(4096);
    for (const std::size_t begin : {std::size_t{0}, std::size_t{4096}}) {
      const std::size_t count = std::min<std::size_t>(4096, kSmall - begin);
      for (std::size_t k = 0; k < count; ++k) p[k] = value_of(3, k);
      Codec::Block block;
      codec_->measure(p.data(), nullptr, nullptr, count, p.data(), block);
      EXPECT_TRUE(codec_->settle(count, block));
      codec_->encode(p.data(), nullptr, {kRoom, begin, count}, block, 1, e.data(), message_.data());
    }
  }
  // Bytes of place `place` of the second block; places 0 to 127 are there, 100 in use.
  std::byte& byte(std::size_t place) {
    return message_[wire::kHeaderSize + 2 * 128 + 3 * place / 2];
  }
  void expect_refusal(const std::vector<std::string>& words) const {
    expect_says(thrown([&] { codec_->check(message_.data(), kRoom, kSmall, 3); }), Code::kCorrupt,
                words);
  }

  std::unique_ptr<Codec> codec_ = make_codec("top-k");
  std::vector<std::byte> message_;
};

TEST_F(SparseMessage, AsEncodedIsAccepted) { codec_->check(message_.data(), kRoom, kSmall, 3); }

TEST_F(SparseMessage, WithAnIndexBeyondTheBlockIsRefused) {
  byte(98) = std::byte{100};  // was 98; 99 follows
  expect_refusal({"rank 3", "block 1", "index 98", "100", "98 to 99"});
}

TEST_F(SparseMessage, WithIndicesOutOfOrderOrTwiceIsRefused) {
  const std::byte before = byte(10);
  for (const int index : {9, 12}) {
    byte(10) = static_cast<std::byte>(index);
    expect_refusal({"rank 3", "block 1", fmt::format("is {}", index == 9 ? 9 : 11)});
  }
  byte(10) = before;
  codec_->check(message_.data(), kRoom, kSmall, 3);
}

TEST_F(SparseMessage, WithSomethingAfterTheLastElementIsRefused) {
  byte(110) = std::byte{5};
  expect_refusal({"rank 3", "block 1", "place 110", "index 5"});
  byte(110) = std::byte{0};
  message_[wire::kHeaderSize + 2 * 128 + (3 * 128 + 120) / 2] = std::byte{1};
  expect_refusal({"rank 3", "block 1", "place 120", "code 1"});
}

TEST(Codecs, ABlockKeepsTheLargestAndTheRestStaysInTheResidual) {
  const auto codec = make_codec("top-k", {.top_k = 2});
  std::vector<float> p(4096, 0.5F), e(4096), out(4096);
  p[7] = -3;
  p[4095] = 7;
  Codec::Block block;
  codec->measure(p.data(), nullptr, nullptr, 4096, p.data(), block);
  ASSERT_TRUE(codec->settle(4096, block));
  std::vector<std::byte> message(codec->message_size(4096));
  codec->encode(p.data(), nullptr, {4096, 0, 4096}, block, 1, e.data(), message.data());
  codec->decode(message.data(), {4096, 0, 4096}, out.data());
  for (std::size_t k = 0; k < 4096; ++k) {
    EXPECT_EQ(out[k], k == 7 ? -3 : k == 4095 ? 7 : 0) << k;
    EXPECT_EQ(e[k], k == 7 || k == 4095 ? 0 : 0.5F) << k;
  }
}

TEST(Codecs, OfAnUnknownNameAreRefusedWithTheKnownOnes) {
  expect_says(thrown([] { make_codec("int3"); }), Code::kInvalidArgument,
              {"int3", "fp32", "bf16", "int8", "int4", "int2", "sign", "top-k"});
  for (const auto name : codec_names()) EXPECT_EQ(make_codec(name)->name(), name);
}

}  // namespace
}  // namespace laconic::testing
