#pragma once

#include <atomic>

#include "laconic/collective/mean.h"

namespace laconic {

// How a lossy mean is exchanged: as configured; as configured, but flat; exactly.
enum class Way : std::uint8_t { kCoded, kFlat, kDense };
inline constexpr int kWays = 3;

// "coded", "flat", "dense".
const char* name(Way way) noexcept;

// A lossy mean that may take another way from one exchange to the next, the same on all ranks. What
// a way has left unsaid is said by the first exact exchange after it, so nothing is lost: a change
// from one coded way to the other takes one exact exchange between them.
class SwitchingMean final : public Mean {
 public:
  // `flat` is null where the configured layout is flat.
  SwitchingMean(std::unique_ptr<Mean> coded, std::unique_ptr<Mean> flat,
                std::unique_ptr<Mean> dense, const Nodes& nodes);

  // From the next exchange on. REQUIRES: equal on all ranks, and a way that there is.
  void use(Way way) noexcept { wanted_ = way; }
  // That the last exchange took.
  Way taken() const noexcept { return taken_; }
  // How long it took.
  double seconds() const noexcept { return seconds_; }
  // State was replaced: there may be something unsaid.
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
    float worker_gain = 1;      // a residual on a node's mean counts for each of its ranks
    std::vector<State> unsaid;  // its residuals
    bool owes = false;          // they may hold something
  };
  void exchange_by(Way way, Fill fill, Take take, const Round& round);
  Coded& coded(Way way) noexcept { return way == Way::kFlat ? flat_ : coded_way_; }
  void exact(Fill fill, Take take, const Round& round);
  void add_unsaid(const Coded& coded, std::size_t begin, std::span<float> values) const;

  Coded coded_way_, flat_;
  std::unique_ptr<Mean> dense_;
  Mean* coded_;
  float ranks_;
  Way wanted_ = Way::kCoded, taken_ = Way::kCoded;
  double seconds_ = 0;
  std::atomic<std::uint64_t> bad_{0};  // in exact exchanges
};

}  // namespace laconic
