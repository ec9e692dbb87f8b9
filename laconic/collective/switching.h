#pragma once

#include <atomic>

#include "laconic/collective/mean.h"

namespace laconic::inline collective {

// How a lossy mean is exchanged: as configured; as configured, but flat; exactly.
enum class Path : std::uint8_t { kCoded, kFlat, kDense };
inline constexpr int kPaths = 3;

// "coded", "flat", "dense".
const char* name(Path path) noexcept;

// A lossy mean that may take another path from one exchange to the next, the same on all ranks. The
// first exact exchange after a coded path adds its residuals, so nothing is lost: a change from one
// coded path to the other takes one exact exchange between them.
class SwitchingMean final : public Mean {
 public:
  // `flat` is null where the configured layout is flat.
  SwitchingMean(std::unique_ptr<Mean> coded, std::unique_ptr<Mean> flat,
                std::unique_ptr<Mean> dense, const Nodes& nodes, std::size_t scale_block);

  // From the next exchange on. REQUIRES: equal on all ranks; kFlat only if there is a flat mean.
  void use(Path path) noexcept { wanted_ = path; }
  // Path of the last exchange.
  Path taken() const noexcept { return taken_; }
  // Duration of the last exchange.
  double seconds() const noexcept { return seconds_; }
  // State was replaced: residuals may hold something.
  void restored() noexcept;

  void exchange(const Source& source, const Sink& sink, const Round& round) override;
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
  Coded& coded(Path path) noexcept { return path == Path::kFlat ? flat_ : coded_path_; }
  void exact(const Source& source, const Sink& sink, const Round& round);

  Coded coded_path_, flat_;
  std::unique_ptr<Mean> dense_;
  Mean* coded_;
  float ranks_;
  std::size_t scale_block_;
  Path wanted_ = Path::kCoded, taken_ = Path::kCoded;
  double seconds_ = 0;
  std::vector<Addend> addends_;  // of an exact exchange
  Counter bad_{0};               // in exact exchanges
};

}  // namespace laconic::inline collective
