#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace laconic::app::training {

// Watches a run for spikes: a loss, or a residual, far above what it was of late. Its answer is the
// same on all ranks when they get the same values.
class Guard {
 public:
  static constexpr int kExactSteps = 8;     // that follow a spike
  static constexpr double kDeviations = 6;  // above the mean
  static constexpr int kAtLeast = 20;       // steps before it judges

  // Why the next steps should be exact; nothing: all is well, or they are already. Values that are
  // not finite are no spikes: they have their own ends.
  std::optional<std::string> look(double loss, std::optional<double> residual);
  // A coded or exact step was taken.
  void stepped() { left_ -= left_ > 0; }
  // Exact steps still to come.
  int left() const noexcept { return left_; }

  nlohmann::json state() const;
  void restore(const nlohmann::json& state);

 private:
  // A decaying mean and variance.
  struct Usual {
    double mean = 0, variance = 0;
    int count = 0;
    // How many deviations `value` is above, then takes it in; 0 while too little is known.
    double surprise(double value);
    NLOHMANN_DEFINE_TYPE_INTRUSIVE(Usual, mean, variance, count)
  };
  Usual loss_, residual_;
  int left_ = 0;
};

}  // namespace laconic::app::training
