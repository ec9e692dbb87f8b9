#include <zlib.h>

#include <array>
#include <cmath>
#include <map>
#include <thread>

#include "tests/app/data/data_files.h"

namespace laconic::app::data {
namespace {

namespace fs = std::filesystem;

std::string idx(std::vector<std::uint32_t> sizes, const std::string& bytes) {
  std::string out{0, 0, 8, static_cast<char>(sizes.size())};
  for (const std::uint32_t size : sizes)
    for (const int shift : {24, 16, 8, 0}) out.push_back(static_cast<char>(size >> shift & 0xFF));
  return out + bytes;
}

// Image i has pixel (i * 50 + place) modulo 251, so that no two places of one are alike.
std::string pixels_of(std::uint32_t count, std::uint32_t bytes) {
  std::string out;
  for (std::uint32_t i = 0; i < count; ++i)
    for (std::uint32_t p = 0; p < bytes; ++p) out.push_back(static_cast<char>((i * 50 + p) % 251));
  return out;
}

void write_packed(const fs::path& path, const std::string& bytes) {
  gzFile file = ::gzopen(path.c_str(), "wb9");
  ASSERT_EQ(::gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())),
            static_cast<int>(bytes.size()));
  ASSERT_EQ(::gzclose(file), Z_OK);
}

// A set of 5x6 images, 4 for training and 2 for validation.
class Idx : public ::testing::Test {
 protected:
  Idx() {
    for (const auto& [prefix, count] : {std::pair{"train", 4U}, std::pair{"t10k", 2U}}) {
      write_text(scratch_ / (std::string(prefix) + "-images-idx3-ubyte"),
                 idx({count, 5, 6}, pixels_of(count, 30)));
      write_text(scratch_ / (std::string(prefix) + "-labels-idx1-ubyte"),
                 idx({count}, std::string("\0\1\7\11", 4).substr(0, count)));
    }
    config_.path = scratch_.path();
    config_.augment = false;
  }

  std::optional<Error> refusal() {
    return thrown([&] { open_dataset(config_); });
  }

  Scratch scratch_;
  const fs::path images_ = scratch_ / "train-images-idx3-ubyte";
  const fs::path labels_ = scratch_ / "train-labels-idx1-ubyte";
  DataConfig config_;
};

TEST_F(Idx, ValuesArePixelsNormalisedByThePublishedMeanAndDeviation) {
  const auto data = open_dataset(config_);
  EXPECT_TRUE(data->shape().images);
  EXPECT_EQ(data->shape().height, 5);
  EXPECT_EQ(data->shape().width, 6);
  EXPECT_EQ(data->shape().classes, 10);
  EXPECT_EQ(data->size(Split::kTrain), 4);
  EXPECT_EQ(data->size(Split::kValidation), 2);
  const Batch batch = batch_of(*data, Split::kTrain, {3, 1});
  EXPECT_EQ(batch.targets, (std::vector<std::int64_t>{9, 1}));
  ASSERT_EQ(batch.values.size(), 60U);
  for (int p = 0; p < 30; ++p) {
    EXPECT_NEAR(batch.values[static_cast<std::size_t>(p)], ((150 + p) / 255.0 - 0.286) / 0.353,
                1e-5);
    EXPECT_NEAR(batch.values[static_cast<std::size_t>(30 + p)], ((50 + p) / 255.0 - 0.286) / 0.353,
                1e-5);
  }
}

TEST_F(Idx, TheTuningSetIsTheLastTenthOfTheTrainingImages) {
  write_text(images_, idx({20, 5, 6}, pixels_of(20, 30)));
  std::string numbers;
  for (int i = 0; i < 20; ++i) numbers.push_back(static_cast<char>(i % 10));
  write_text(labels_, idx({20}, numbers));
  const auto whole = open_dataset(config_);
  config_.validate_on = "tuning";
  const auto data = open_dataset(config_);
  EXPECT_EQ(data->size(Split::kTrain), 18);
  const Batch held = all_of(*data, Split::kValidation);
  EXPECT_EQ(held.targets, (std::vector<std::int64_t>{8, 9}));
  EXPECT_EQ(held.values, batch_of(*whole, Split::kTrain, {18, 19}).values);
  EXPECT_EQ(all_of(*data, Split::kTrain).values,
            batch_of(*whole, Split::kTrain, first_examples(18)).values);
}

TEST_F(Idx, PackedFilesGiveTheSameAsPlainOnes) {
  const auto plain = open_dataset(config_);
  for (const auto& name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                           "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    write_packed(scratch_ / (std::string(name) + ".gz"),
                 laconic::testing::read_text(scratch_ / name));
    fs::remove(scratch_ / name);
  }
  const auto packed = open_dataset(config_);
  EXPECT_EQ(plain->fingerprint(), packed->fingerprint());
  EXPECT_EQ(all_of(*plain, Split::kTrain).values, all_of(*packed, Split::kTrain).values);
}

TEST_F(Idx, OtherPixelsOrLabelsHaveAnotherFingerprint) {
  const auto before = open_dataset(config_)->fingerprint();
  write_text(labels_, idx({4}, std::string("\0\1\7\10", 4)));
  const auto after = open_dataset(config_)->fingerprint();
  EXPECT_NE(before, after);
  std::string pixels = pixels_of(4, 30);
  ++pixels[77];
  write_text(images_, idx({4, 5, 6}, pixels));
  EXPECT_NE(after, open_dataset(config_)->fingerprint());
}

// Pixel (y, x) of training image 1 after this move, black outside.
float moved(const Batch& plain, int y, int x, int down, int right) {
  const int from_y = y + down, from_x = x + right;
  if (from_y < 0 || from_y >= 5 || from_x < 0 || from_x >= 6) return (0 - 0.286F) / 0.353F;
  return plain.values[static_cast<std::size_t>(from_y * 6 + from_x)];
}

bool is_moved(const Batch& plain, const Batch& batch, int down, int right) {
  for (int y = 0; y < 5; ++y)
    for (int x = 0; x < 6; ++x)
      if (std::abs(batch.values[static_cast<std::size_t>(y * 6 + x)] -
                   moved(plain, y, x, down, right)) > 1e-5F)
        return false;
  return true;
}

TEST_F(Idx, TrainingImagesAreMovedByUpToTwoPixelsEachWay) {
  const Batch plain = batch_of(*open_dataset(config_), Split::kTrain, {1});
  config_.augment = true;
  const auto data = open_dataset(config_);
  std::map<std::pair<int, int>, int> counts;
  constexpr int kDraws = 2500;
  for (int draw = 0; draw < kDraws; ++draw) {
    const Batch batch = batch_of(*data, Split::kTrain, {1}, static_cast<std::uint64_t>(draw));
    for (int down = -2; down <= 2; ++down)
      for (int right = -2; right <= 2; ++right)
        if (is_moved(plain, batch, down, right)) ++counts[{down, right}];
  }
  EXPECT_EQ(counts.size(), 25U);
  int all = 0;
  for (const auto& [move, count] : counts) {
    EXPECT_NEAR(count, kDraws / 25, 60) << move.first << ' ' << move.second;
    all += count;
  }
  EXPECT_EQ(all, kDraws);
}

TEST_F(Idx, DrawAndSeedKeyWhatIsRandomAndValidationIgnoresBoth) {
  config_.augment = true;
  const auto data = open_dataset(config_);
  config_.seed = 1;
  const auto other = open_dataset(config_);
  int by_draw = 0, by_seed = 0;
  for (std::uint64_t draw = 0; draw < 20; ++draw) {
    const auto values = all_of(*data, Split::kTrain, draw).values;
    EXPECT_EQ(values, all_of(*data, Split::kTrain, draw).values);
    by_draw += values != all_of(*data, Split::kTrain, draw + 1).values ? 1 : 0;
    by_seed += values != all_of(*other, Split::kTrain, draw).values ? 1 : 0;
    EXPECT_EQ(all_of(*data, Split::kValidation, 0).values,
              all_of(*other, Split::kValidation, draw).values);
  }
  EXPECT_GT(by_draw, 15);
  EXPECT_GT(by_seed, 15);
}

TEST_F(Idx, RanksThatAreThreadsReadAtTheSameTime) {
  config_.augment = true;
  const auto data = open_dataset(config_);
  const Batch wanted = all_of(*data, Split::kTrain, 3);
  std::array<Batch, 4> batches;
  std::vector<std::thread> threads;
  for (Batch& batch : batches)
    threads.emplace_back([&] {
      for (std::uint64_t draw = 0; draw <= 3; ++draw) batch = all_of(*data, Split::kTrain, draw);
    });
  for (std::thread& thread : threads) thread.join();
  for (const Batch& batch : batches) EXPECT_EQ(batch.values, wanted.values);
}

TEST_F(Idx, ExamplesThatAreNotThereAreRefused) {
  const auto data = open_dataset(config_);
  expect_says(thrown([&] {
                batch_of(*data, Split::kTrain, {0, 4});
              }),
              Code::kInvalidArgument, {"example 4", "there are 4"});
  EXPECT_EQ(thrown_code([&] { batch_of(*data, Split::kTrain, {-1}); }), Code::kInvalidArgument);
}

TEST_F(Idx, AFileCutAnywhereIsRefused) {
  const std::string whole = idx({4, 5, 6}, pixels_of(4, 30));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_text(images_, whole.substr(0, size));
    ASSERT_EQ(thrown_code([&] { open_dataset(config_); }), Code::kCorrupt) << size;
  }
  expect_says(refusal(), Code::kCorrupt, {images_.string(), "train-images"});
}

TEST_F(Idx, APackedFileCutAnywhereIsRefused) {
  const fs::path path = scratch_ / "train-images-idx3-ubyte.gz";
  write_packed(path, idx({4, 5, 6}, pixels_of(4, 30)));
  const std::string whole = laconic::testing::read_text(path);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_text(path, whole.substr(0, size));
    ASSERT_EQ(thrown_code([&] { open_dataset(config_); }), Code::kCorrupt) << size;
  }
}

TEST_F(Idx, ADamagedPackedFileIsRefused) {
  const fs::path path = scratch_ / "train-images-idx3-ubyte.gz";
  write_packed(path, idx({4, 5, 6}, pixels_of(4, 30)));
  std::string bytes = laconic::testing::read_text(path);
  for (const std::size_t at : {bytes.size() / 2, bytes.size() - 6}) {  // data; gzip's sum
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    write_text(path, damaged);
    expect_says(refusal(), Code::kCorrupt, {path.string()});
  }
}

TEST_F(Idx, AWrongBeginningIsNamedWithTheRightOne) {
  std::string bytes = idx({4, 5, 6}, pixels_of(4, 30));
  bytes[3] = 4;
  write_text(images_, bytes);
  expect_says(refusal(), Code::kCorrupt, {images_.string(), "0x00000804", "0x00000803"});
  bytes[3] = 3;
  bytes[2] = 13;  // floats
  write_text(images_, bytes);
  expect_says(refusal(), Code::kCorrupt, {"0x00000d03"});
}

TEST_F(Idx, ASmallFileCannotAskForMuchMemory) {
  for (const auto& sizes : {std::vector<std::uint32_t>{1U << 20, 1U << 10, 1U << 10},
                            std::vector<std::uint32_t>{0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}}) {
    const std::string bytes = idx(sizes, std::string(2000, 'x'));
    write_text(images_, bytes);
    expect_says(refusal(), Code::kCorrupt, {images_.string(), "2016"});
    write_packed(scratch_ / "train-images-idx3-ubyte.gz", bytes);
    expect_says(refusal(), Code::kCorrupt, {".gz", "more bytes"});
    fs::remove(scratch_ / "train-images-idx3-ubyte.gz");
  }
}

TEST_F(Idx, NoImagesAndBytesBeyondTheEndAreRefused) {
  write_text(images_, idx({0, 5, 6}, ""));
  expect_says(refusal(), Code::kCorrupt, {images_.string(), "0"});
  write_text(images_, idx({4, 5, 6}, pixels_of(4, 30) + "x"));
  expect_says(refusal(), Code::kCorrupt, {images_.string(), "continues after byte 136"});
}

TEST_F(Idx, ALabelOutOfRangeIsNamedWithItsPlace) {
  write_text(labels_, idx({4}, std::string("\0\1\12\1", 4)));
  expect_says(refusal(), Code::kCorrupt, {labels_.string(), "label 2 is 10", "0 to 9"});
}

TEST_F(Idx, AnotherNumberOfLabelsIsRefusedWithBothNumbers) {
  write_text(labels_, idx({3}, std::string("\0\1\1", 3)));
  expect_says(refusal(), Code::kCorrupt,
              {images_.string(), "4 images", labels_.string(), "3 labels"});
}

TEST_F(Idx, SplitsOfDifferentShapeAreRefused) {
  write_text(images_, idx({4, 6, 5}, pixels_of(4, 30)));
  expect_says(refusal(), Code::kInvalidArgument, {"6x5", "5x6"});
}

TEST_F(Idx, AMissingFileIsNamedWithTheWayToGetIt) {
  fs::remove(scratch_ / "t10k-labels-idx1-ubyte");
  expect_says(refusal(), Code::kFile,
              {scratch_.path().string(), "t10k-labels-idx1-ubyte", "dataset-fashion-mnist",
               "--data DIR", "--data generated"});
}

class Cifar10 : public ::testing::Test {
 protected:
  Cifar10() {
    for (int batch = 1; batch <= 5; ++batch)
      write_text(scratch_ / ("data_batch_" + std::to_string(batch) + ".bin"),
                 std::string(1, static_cast<char>(batch)) + pixels_of(1, 3072));
    write_text(scratch_ / "test_batch.bin", '\7' + pixels_of(1, 3072) + '\3' + pixels_of(1, 3072));
    config_.task = "cifar10";
    config_.path = scratch_.path();
    config_.augment = false;
  }
  Scratch scratch_;
  DataConfig config_;
};

TEST_F(Cifar10, BatchesAreReadInOrderHereOrInTheUsualFolder) {
  const auto data = open_dataset(config_);
  EXPECT_EQ(data->shape().channels, 3);
  EXPECT_EQ(all_of(*data, Split::kTrain).targets, (std::vector<std::int64_t>{1, 2, 3, 4, 5}));
  const Batch validation = all_of(*data, Split::kValidation);
  EXPECT_EQ(validation.targets, (std::vector<std::int64_t>{7, 3}));
  EXPECT_NEAR(validation.values[1], (1 / 255.0 - 0.4914) / 0.2470, 1e-5);
  EXPECT_NEAR(validation.values[2 * 1024], (2048 % 251 / 255.0 - 0.4465) / 0.2616, 1e-5);
  const fs::path inside = scratch_ / "cifar-10-batches-bin";
  fs::create_directory(inside);
  for (const auto& file : fs::directory_iterator(scratch_.path()))
    if (file.is_regular_file()) fs::rename(file.path(), inside / file.path().filename());
  EXPECT_EQ(open_dataset(config_)->fingerprint(), data->fingerprint());
}

TEST_F(Cifar10, HalfOfTheTrainingImagesAreMirrored) {
  config_.augment = true;
  const auto data = open_dataset(config_);
  int mirrored = 0;
  constexpr int kDraws = 400;
  for (int draw = 0; draw < kDraws; ++draw) {
    const Batch batch = batch_of(*data, Split::kTrain, {0}, static_cast<std::uint64_t>(draw));
    const float* row = batch.values.data() + 5 * 32;  // rising pixels, or falling if mirrored
    int rising = 0;
    for (int x = 8; x < 24; ++x) rising += row[x] < row[x + 1] ? 1 : -1;
    mirrored += rising < 0 ? 1 : 0;
  }
  EXPECT_NEAR(mirrored, kDraws / 2, 60);
}

TEST_F(Cifar10, DamagedFilesAreRefused) {
  const fs::path path = scratch_ / "data_batch_3.bin";
  write_text(path, pixels_of(1, 3072));
  expect_says(thrown([&] { open_dataset(config_); }), Code::kCorrupt,
              {path.string(), "3072", "3073"});
  write_text(path, "");
  expect_says(thrown([&] { open_dataset(config_); }), Code::kCorrupt, {path.string(), "0 bytes"});
  write_text(path, '\3' + pixels_of(1, 3072) + '\12' + pixels_of(1, 3072));
  expect_says(thrown([&] { open_dataset(config_); }), Code::kCorrupt,
              {path.string(), "byte 3073 is 10", "0 to 9"});
  fs::remove(path);
  expect_says(thrown([&] { open_dataset(config_); }), Code::kFile,
              {path.string(), "cifar-10-binary.tar.gz", "--data generated"});
}

TEST(FashionMnist, IsReadFromWhereDebianPutsIt) {
  const std::string path = "/usr/share/datasets/fashion-mnist";
  if (!fs::exists(path)) GTEST_SKIP() << path << " is not there: install dataset-fashion-mnist";
  const auto data = open_dataset({});
  EXPECT_EQ(data->describe(), "fashion-mnist, 60,000 + 10,000 images of 28x28x1 from " + path);
  std::array<int, 10> counts{};
  const Batch batch = all_of(*data, Split::kValidation);
  for (const std::int64_t label : batch.targets) ++counts.at(static_cast<std::size_t>(label));
  for (const int count : counts) EXPECT_EQ(count, 1000);
  double sum = 0, squares = 0;
  for (const float value : batch.values) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const auto n = static_cast<double>(batch.values.size());
  EXPECT_NEAR(sum / n, 0, 0.01);
  EXPECT_NEAR(squares / n, 1, 0.01);
}

}  // namespace
}  // namespace laconic::app::data
