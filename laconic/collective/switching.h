#pragma once

#include <atomic>

#include "laconic/collective/mean.h"

namespace laconic {

// How a lossy mean is exchanged: as configured; as configured, but flat; exactly.
enum class Way : std::uint8_t { kCoded, kFlat, kDense };
inline constexpr int kWays = 3;

// "coded", "flat", "dense".
const char* name(Way way) noexcept;

// A lossy mean that may take another path from one exchange to the next, the same on all ranks. The
// first exact exchange after a coded path adds its residuals, so nothing is lost: a change from one
// coded path to the other takes one exact exchange between them.
class SwitchingMean final : public Mean {
 public:
  // `flat` is null where the configured layout is flat.
  SwitchingMean(std::unique_ptr<Mean> coded, std::unique_ptr<Mean> flat,
                std::unique_ptr<Mean> dense, const Nodes& nodes);

  // From the next exchange on. REQUIRES: equal on all ranks; kFlat only if there is a flat mean.
  void use(Way way) noexcept { wanted_ = way; }
  // Path of the last exchange.
  Way taken() const noexcept { return taken_; }
  // Duration of the last exchange.
  double seconds() const noexcept { return seconds_; }
  // State was replaced: residuals may hold something.
  void restored() noexcept;

  void exchange(Fill fill, Take take, const Round& round) override;
  std::vector<State> state() override;
  std::size_t elements() const noexcept override { return dense_->elements(); }
  std::vector<std::size_t> blocks() const override { return coded_->blocks(); }
  double residual_ratio() const noexcept override;
  std::string describe() const override;
  std::uint64_t bad_blocks() const noexcept override;

 private:
  struct Coded {
    std::unique_ptr<Mean> mean;
    float worker_gain = 1;  // a residual on a node's mean counts for each of its ranks
    std::vector<State> residuals;
    bool owes = false;  // they may hold something
  };
  void exchange_by(Way way, Fill fill, Take take, const Round& round);
  Coded& coded(Way way) noexcept { return way == Way::kFlat ? flat_ : coded_way_; }
  void exact(Fill fill, Take take, const Round& round);
  void add_residuals(const Coded& coded, std::size_t begin, std::span<float> values) const;

  Coded coded_way_, flat_;
  std::unique_ptr<Mean> dense_;
  Mean* coded_;
  float ranks_;
  Way wanted_ = Way::kCoded, taken_ = Way::kCoded;
  double seconds_ = 0;
  std::atomic<std::uint64_t> bad_{0};  // in exact exchanges
};

}  // namespace laconic
