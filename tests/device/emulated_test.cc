#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "laconic/checkpoint/checkpoint.h"
#include "laconic/device/cuda/driver.h"
#include "laconic/device/memory.h"
#include "tests/checkpoint/scratch.h"
#include "tests/optim/training.h"

// The emulated device against the CPU: whole runs, in orders of its streams that follow from a seed.
namespace laconic::testing {
namespace {

OptimizerConfig on(OptimizerConfig config, const char* device) {
  config.device = device;
  return config;
}

class EmulatedDevice : public OptimizerSuite {};

// All state, not only the weights.
TEST_P(EmulatedDevice, EndsWithTheBitsOfTheCpu) {
  run([](Transport& world) {
    Training cpu(on(config(), "cpu"), world, three_groups());
    Training emulated(on(config(), "emulated"), world, three_groups());
    cpu.run_to(kSteps);
    emulated.run_to(kSteps);
    expect_same(bytes_of(cpu), bytes_of(emulated));
    cpu.optimizer->synchronize();
    emulated.optimizer->synchronize();
    expect_same(bytes_of(cpu), bytes_of(emulated));
  });
}

TEST_P(EmulatedDevice, LeavesOutWhatIsNotFinite) {
  run([](Transport& world) {
    Training cpu(on(config(), "cpu"), world, three_groups());
    Training emulated(on(config(), "emulated"), world, three_groups());
    for (Training* one : {&cpu, &emulated})
      one->gradient_of = [one](std::int64_t step, int rank, std::size_t k) {
        if ((static_cast<std::size_t>(step) * 37 + static_cast<std::size_t>(rank)) % kElements == k)
          return k % 2 == 0 ? std::numeric_limits<float>::quiet_NaN() : 2e16F;
        return 0.3F * one->weights[k] + noise(step, rank, k);
      };
    cpu.run_to(kSteps);
    emulated.run_to(kSteps);
    expect_same(bytes_of(cpu), bytes_of(emulated));
    EXPECT_EQ(cpu.optimizer->totals().bad_blocks, emulated.optimizer->totals().bad_blocks);
  });
}

TEST_P(EmulatedDevice, ClipsAndRestsAsTheCpuDoes) {
  run([](Transport& world) {
    OptimizerConfig clipped = config();
    clipped.max_grad_norm = 2;
    const Model model{.weights = {},
                      .gradient = {},
                      .groups = {},
                      .ranges = {{"a", 0, 100}, {"b", 100, 160}, {"c", 260, 100}},
                      .may_rest = true,
                      .watched = true};
    Training cpu(on(clipped, "cpu"), world, three_groups(), kElements, model);
    Training emulated(on(clipped, "emulated"), world, three_groups(), kElements, model);
    for (std::int64_t t = 1; t <= 12; ++t)
      for (Training* one : {&cpu, &emulated}) {
        one->compute();
        const bool rests = t % 3 == 0;
        if (rests) std::fill_n(one->gradient.begin() + 100, 160, 0.0F);
        one->optimizer->begin(one->lr(t));
        if (rests) one->optimizer->absent(1);
        one->optimizer->step();
      }
    expect_same(bytes_of(cpu), bytes_of(emulated));
  });
}

// Saved on one device, resumed on the other.
TEST_P(EmulatedDevice, ResumesExactlyAcrossDevices) {
  const Scratch scratch;
  run([&scratch](Transport& world) {
    Training whole(on(config(), "cpu"), world, three_groups());
    whole.run_to(kSteps);
    Training first(on(config(), "emulated"), world, three_groups());
    first.run_to(9);
    save_checkpoint(scratch / "one", *first.optimizer);
    Training second(on(config(), "cpu"), world, three_groups());
    EXPECT_EQ(load_checkpoint(scratch / "one", *second.optimizer), Resume::kExact);
    second.run_to(17);
    save_checkpoint(scratch / "two", *second.optimizer);
    Training third(on(config(), "emulated"), world, three_groups());
    EXPECT_EQ(load_checkpoint(scratch / "two", *third.optimizer), Resume::kExact);
    third.run_to(kSteps);
    expect_same(bytes_of(whole), bytes_of(third));
  });
}

// Weights and gradient in memory of the device, as torch's are on a GPU. The caller works on a stream
// of its own and never waits for the host.
TEST_P(EmulatedDevice, TrainsWeightsThatLieInItsMemory) {
  run([](Transport& world) {
    Training cpu(on(config(), "cpu"), world, three_groups());
    cpu.gradient_of = noise;
    cpu.run_to(kSteps);

    const auto device = make_device("emulated", 1);
    const cuda::Driver driver = cuda::emulated_driver();
    cuda::Stream stream{};
    ASSERT_EQ(driver.stream_create(&stream, 0), 0);
    {
      const Memory<float> weights(*device, kElements), gradient(*device, kElements);
      std::vector<float> values(kElements);
      for (std::size_t k = 0; k < kElements; ++k) values[k] = noise(0, -1, k);
      copy_to<float>(*device, values, weights.span());
      device->settle();
      copy_from<float>(*device, weights.span(), values);
      const auto optimizer = make_optimizer(on(config(), "emulated"),
                                            {.weights = weights.span(),
                                             .gradient = gradient.span(),
                                             .groups = three_groups(),
                                             .ranges = {},
                                             .on_device = true},
                                            world);
      for (std::int64_t t = 1; t <= kSteps; ++t) {
        for (std::size_t k = 0; k < kElements; ++k) values[k] = noise(t, world.rank(), k);
        optimizer->follow(stream);
        optimizer->begin(cpu.lr(t));
        driver.to_device(reinterpret_cast<cuda::Address>(gradient.data()), values.data(),
                         4 * kElements, stream);
        for (int b = optimizer->buckets() - 1; b >= 0; b -= 2) optimizer->ready(b);
        optimizer->step();
      }
      EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(cpu.weights)),
                                     std::as_bytes(optimizer->weights())));
    }
    driver.stream_destroy(stream);
  });
}

INSTANTIATE_TEST_SUITE_P(Methods, EmulatedDevice, ::testing::ValuesIn(settings()), name_of);

}  // namespace
}  // namespace laconic::testing
