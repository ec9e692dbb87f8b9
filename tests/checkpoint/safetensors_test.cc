#include "laconic/checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "laconic/checkpoint/seal.h"
#include "laconic/core/error.h"
#include "laconic/core/hash.h"
#include "tests/checkpoint/scratch.h"

namespace laconic::testing {
namespace {

const std::vector<float> kFloats = {1.5F, -0.0F, 3e-40F};
const std::vector<double> kDoubles = {0.1, -2.0};

FileMark write_small(const std::filesystem::path& path) {
  return write_safetensors(
      path,
      std::vector<Tensor>{{"m", kFloats}, {"empty", std::span<const float>()}, {"t", kDoubles}},
      {{"note", "\"quoted\" … text"}});
}

// The error of reading and verifying, or nothing.
std::optional<Error> complaint(const std::filesystem::path& path) {
  try {
    SafetensorsFile(path).verify();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

void expect_corrupt(const std::filesystem::path& path, const std::string& why) {
  const auto error = complaint(path);
  ASSERT_TRUE(error) << why;
  EXPECT_EQ(error->code(), Code::kCorrupt) << error->what();
  EXPECT_NE(std::string(error->what()).find(path.filename().string()), std::string::npos)
      << error->what();
}

// A file around a header that is ours in everything but what it says.
std::string with_header(const std::string& tensors, std::size_t payload) {
  const std::string header = sealed("{" + tensors + "\"__metadata__\":{\"hash.a\":\"0\",", "}}");
  const std::uint64_t length = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + header + std::string(payload, '\0');
}

TEST(Safetensors, WhatIsWrittenIsReadBackBitForBit) {
  const Scratch scratch;
  const FileMark mark = write_small(scratch / "a.safetensors");
  const SafetensorsFile file(scratch / "a.safetensors");
  file.verify();
  EXPECT_EQ(file.mark().seal, mark.seal);
  EXPECT_EQ(file.mark().bytes, mark.bytes);
  EXPECT_EQ(mark.bytes, std::filesystem::file_size(scratch / "a.safetensors"));
  EXPECT_EQ(file.metadata(), (Metadata{{"note", "\"quoted\" … text"}}));
  ASSERT_EQ(file.tensors().size(), 3U);
  EXPECT_EQ(file.find("m")->shape, std::vector<std::uint64_t>{3});
  EXPECT_EQ(file.find("nothing"), nullptr);
  EXPECT_EQ(file.find("t")->begin % 8, 0U);

  std::vector<float> floats(2);
  file.read("m", 1, floats);
  EXPECT_EQ(std::memcmp(floats.data(), &kFloats[1], 8), 0);
  std::vector<double> doubles(2);
  file.read("t", 0, doubles);
  EXPECT_EQ(doubles, kDoubles);
}

TEST(Safetensors, ATensorKeepsItsShape) {
  const Scratch scratch;
  const std::vector<float> six = {1, 2, 3, 4, 5, 6};
  write_safetensors(scratch / "a",
                    std::vector<Tensor>{{"conv", six, {1, 3, 2}},
                                        {"scalar", std::span(kDoubles).first(1), {}},
                                        {"none", std::span<const float>(), {4, 0}}},
                    {});
  const SafetensorsFile file(scratch / "a");
  file.verify();
  EXPECT_EQ(file.find("conv")->shape, (Tensor::Shape{1, 3, 2}));
  EXPECT_EQ(file.find("scalar")->shape, Tensor::Shape{});
  EXPECT_EQ(file.find("none")->shape, (Tensor::Shape{4, 0}));
  std::vector<float> back(6);
  file.read("conv", 0, back);
  EXPECT_EQ(back, six);
}

TEST(Safetensors, AShapeOfOtherLengthIsRefused) {
  for (const Tensor::Shape& shape : {Tensor::Shape{2}, Tensor::Shape{}, Tensor::Shape{3, 0},
                                     Tensor::Shape{~0ULL, 3}, Tensor::Shape{1ULL << 63, 2, 3}}) {
    try {
      Tensor("m", kFloats, shape);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find("has 3 values"), std::string::npos) << error.what();
    }
  }
}

TEST(Safetensors, ReadingOutsideATensorOrAsAnotherTypeIsRefused) {
  const Scratch scratch;
  write_small(scratch / "a.safetensors");
  const SafetensorsFile file(scratch / "a.safetensors");
  std::vector<float> floats(3);
  std::vector<double> doubles(1);
  EXPECT_THROW(file.read("m", 1, floats), Error);
  EXPECT_THROW(file.read("m", ~0ULL, floats), Error);
  EXPECT_THROW(file.read("m", 0, doubles), Error);
  EXPECT_THROW(file.read("other", 0, floats), Error);
}

TEST(Safetensors, NoFlippedBitGoesUnseen) {
  const Scratch scratch;
  const auto path = scratch / "a.safetensors";
  write_small(path);
  const std::string whole = read_text(path);
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      write_text(path, damaged);
      expect_corrupt(path, "byte " + std::to_string(i) + ", bit " + std::to_string(bit));
    }
}

TEST(Safetensors, NoFileOfAnotherLengthIsAccepted) {
  const Scratch scratch;
  const auto path = scratch / "a.safetensors";
  write_small(path);
  const std::string whole = read_text(path);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_text(path, whole.substr(0, length));
    expect_corrupt(path, std::to_string(length) + " bytes");
  }
  write_text(path, whole + '\0');
  expect_corrupt(path, "a byte more");
}

TEST(Safetensors, ASmallFileCannotAskForMuch) {
  const Scratch scratch;
  const auto path = scratch / "a.safetensors";
  for (
      const char* tensors : {
          R"("a":{"dtype":"F32","shape":[274877906944],"data_offsets":[0,1099511627776]},)",
          R"("a":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,16]},)",
          R"("a":{"dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4]},)",
          R"("a":{"dtype":"F32","shape":[4],"data_offsets":[0,12]},)",
          R"("a":{"dtype":"F32","shape":[4],"data_offsets":[16,0]},)",
          R"("a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},)",
          R"("a":{"dtype":"F32","shape":[3],"data_offsets":[4,16]},)",
          R"("a":{"dtype":"F32","shape":[-4],"data_offsets":[0,16]},)",
          R"("a":{"dtype":"F32","shape":[4.0],"data_offsets":[0,16]},)",
          R"("a":{"dtype":"F32","shape":4,"data_offsets":[0,16]},)",
          R"("a":{"dtype":"F32","shape":[4],"data_offsets":[0]},)",
          R"("a":{"dtype":"F32","shape":[4]},)",
          R"("a":{"dtype":"BF16","shape":[8],"data_offsets":[0,16]},)",
          R"("a":{"dtype":7,"shape":[4],"data_offsets":[0,16]},)",
          R"("a":[1],)",
          R"("b":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},)",
          R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[3],"data_offsets":[4,16]},)",
          R"(}{,)",
          "\"\xff\":1,",
          "",
      }) {
    write_text(path, with_header(tensors, 16));
    expect_corrupt(path, tensors);
  }
  for (const std::uint64_t length :
       {std::uint64_t{2041}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    std::string text(2048, ' ');
    std::memcpy(text.data(), &length, 8);
    write_text(path, text);
    expect_corrupt(path, "a header of " + std::to_string(length));
  }
}

TEST(Safetensors, AFailedWriteLeavesWhatWasThere) {
  const Scratch scratch;
  const auto path = scratch / "a.safetensors";
  write_small(path);
  const std::string before = read_text(path);
  const std::vector<float> many(100'000);
  try {
    const FileSizeLimit limit(50'000);
    write_safetensors(path, std::vector<Tensor>{{"many", many}}, {});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kFile);
    EXPECT_NE(std::string(error.what()).find("a.safetensors"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("File too large"), std::string::npos) << error.what();
  }
  EXPECT_EQ(read_text(path), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 1);
}

TEST(Safetensors, PathsThatCannotBeAreNamed) {
  const Scratch scratch;
  write_text(scratch / "file", "");
  for (const auto& path : {scratch / "none" / "a", scratch / "file" / "a"}) try {
      write_small(path);
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kFile);
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
    }
  EXPECT_EQ(complaint(scratch / "none")->code(), Code::kFile);
  EXPECT_EQ(complaint(scratch.path())->code(), Code::kFile);
  EXPECT_EQ(complaint("/dev/zero")->code(), Code::kFile);
}

TEST(Safetensors, NamesThatCannotBeAreRefused) {
  const Scratch scratch;
  const auto refused = [&](const std::vector<Tensor>& tensors, const Metadata& metadata) {
    try {
      write_safetensors(scratch / "a", tensors, metadata);
    } catch (const Error& error) {
      return error.code() == Code::kInvalidArgument;
    }
    return false;
  };
  EXPECT_TRUE(refused({{"m", kFloats}, {"m", kDoubles}}, {}));
  EXPECT_TRUE(refused({{"__metadata__", kFloats}}, {}));
  EXPECT_TRUE(refused({{"\xff", kFloats}}, {}));
  EXPECT_TRUE(refused({}, {{"seal", ""}}));
  EXPECT_TRUE(refused({}, {{"hash.m", ""}}));
  EXPECT_TRUE(refused({}, {{"a", "\xc3"}}));
}

}  // namespace
}  // namespace laconic::testing
