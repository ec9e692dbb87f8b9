#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "laconic/checkpoint/checkpoint.h"

namespace laconic::testing {

// What element k of something is: the same in read_test.py.
float sample(const std::string& name, int rank, std::size_t k);

// Keeps state of every spread in three buckets and remembers what it was told. Trains nothing.
class FakeOptimizer : public Optimizer {
 public:
  static constexpr std::size_t kElements = 1000;

  explicit FakeOptimizer(Transport& transport, OptimizerConfig config = {});

  // Fills everything by `sample`. Inside a local interval weights differ over ranks.
  void fill(std::int64_t step, bool inside_interval);
  // Every byte of state and weights.
  std::vector<std::byte> bytes() const;

  OptimizerConfig settings;
  int restored_calls = 0;
  std::vector<std::map<std::string, std::vector<float>>> redistributed;

  using Optimizer::step;
  void begin(double) override {}
  void begin(std::span<const GroupStep>) override {}
  void take_up_weights() override {}
  void written(std::size_t) override {}
  void ready(int) override {}
  void absent(std::size_t) override {}
  bool defers() const noexcept override { return false; }
  void change_rates(std::span<const GroupStep>) override {}
  void step(Finish) override {}
  void exchange_exactly(int) override {}
  void synchronize() override {}
  bool exchanges_next() const override { return true; }
  bool in_sync() const noexcept override { return true; }
  int buckets() const noexcept override { return 3; }
  NamedRange bucket(int index) const override;
  void synced_weights(std::span<float> out) const override;
  std::vector<State> state() override { return states(); }
  void redistribute(int bucket, const std::map<std::string, std::vector<float>>& whole) override;
  void restored() override;
  const OptimizerConfig& config() const noexcept override { return settings; }
  const Model& model() const noexcept override { return model_; }
  Transport& transport() const noexcept override { return transport_; }
  std::int64_t steps_taken() const noexcept override { return stats_.step; }
  const StepStats& stats() const noexcept override { return stats_; }
  const Totals& totals() const noexcept override { return totals_; }
  void trace(bool) override {}
  void note(const char*) override {}
  std::string traced() const override { return "[]"; }
  std::string describe() const override { return "a fake"; }

  // For tests that want it otherwise.
  void rename_state(const std::string& name) { vectors_[1].name = name; }
  void move_state(const std::string& name, std::size_t begin);
  Model& mutable_model() { return model_; }

 private:
  struct Vector {
    std::string name;
    Spread spread;
    std::size_t begin;
    std::vector<float> values;
  };

  std::vector<State> states() const;
  void add(const std::string& name, Spread spread, std::size_t begin, std::size_t count);

  Transport& transport_;
  mutable std::vector<Vector> vectors_;
  mutable std::vector<double> scalars_ = std::vector<double>(4);
  std::vector<float> weights_ = std::vector<float>(kElements), gradient_ = weights_,
                     synced_ = weights_;
  Model model_;
  StepStats stats_;
  Totals totals_;
};

}  // namespace laconic::testing
