#pragma once

#include <atomic>

#include "laconic/collective/mean.h"

namespace laconic::inline collective {

// One path of an exchange: a codec, on the configured layout or flat.
struct Path {
  std::string name;  // in reports: "coded", "dense", "int4"
  std::string codec;
  bool flat = false;        // although the configured layout is a hierarchy
  std::string prefix = {};  // of its state in checkpoints
  bool exact() const { return is_exact(codec); }
};

// A mean that may take another path from one exchange to the next, the same on all ranks. The first
// exact exchange after a lossy path adds its residuals, so nothing is lost: a change from one lossy
// path to another takes one exact exchange between them.
class SwitchingMean final : public Mean {
 public:
  // `means[i]` takes paths[i]; the first path is the configured one. REQUIRES: an exact path and a
  // lossy one.
  SwitchingMean(std::span<const Path> paths, std::vector<std::unique_ptr<Mean>> means,
                const Nodes& nodes, std::size_t scale_block);

  // From the next exchange on: an index into the paths. REQUIRES: equal on all ranks.
  void use(std::size_t path) noexcept { wanted_ = path; }
  void use_exact() noexcept { wanted_ = exact_; }
  // The last exchange was exact.
  bool went_exactly() const noexcept { return branches_[taken_].exact; }
  const std::string& exact_name() const noexcept { return branches_[exact_].path.name; }
  const std::string& configured_name() const noexcept { return branches_.front().path.name; }
  // Duration of the last exchange.
  double seconds() const noexcept { return seconds_; }
  // State was replaced: residuals may hold something.
  void restored() noexcept;

  void exchange(const Source& source, const Sink& sink, const Round& round) override;
  std::vector<State> state() override;
  std::size_t elements() const noexcept override { return branches_.front().mean->elements(); }
  // Of the first lossy path.
  std::vector<std::size_t> blocks() const override { return branches_[lossy_].mean->blocks(); }
  double residual_ratio() const noexcept override {
    return branches_[taken_].mean->residual_ratio();
  }
  std::string describe() const override;
  std::uint64_t bad_blocks() const noexcept override;

 private:
  struct Branch {
    Path path;
    std::unique_ptr<Mean> mean;
    bool exact;
    float worker_gain;  // a residual on a node's mean counts for each of its ranks
    std::vector<State> residuals;
    bool owes = false;  // they may hold something
  };
  bool others_owe(std::size_t path) const noexcept;
  void exact(const Source& source, const Sink& sink, const Round& round);

  std::vector<Branch> branches_;
  std::size_t exact_ = 0, lossy_ = 0;  // the first of each
  float ranks_;
  std::size_t scale_block_;
  std::size_t wanted_ = 0, taken_ = 0;
  double seconds_ = 0;
  std::vector<Addend> addends_;  // of an exact exchange
  Counter bad_{0};               // in exact exchanges
};

}  // namespace laconic::inline collective
