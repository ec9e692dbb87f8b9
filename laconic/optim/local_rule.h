#pragma once

#include "laconic/optim/rule.h"

namespace laconic::inline optim {

// Ranks that train alone for a while. An inner update moves x by this rank's own gradient (none:
// the caller does). An exchange takes D = x_sync - x of all ranks, and the outer rule moves x_sync, the
// weights that are equal on all ranks, by its mean:
//   at once     x = x_sync follows
//   delayed     D is of a snapshot of x; the courier exchanges it while steps go on, and the outer
//               rule acts in the step in which it is due, not before
// M is the outer momentum, gamma the mean learning rate of the steps that an exchange covers.
class LocalRule final : public Rule {
 public:
  explicit LocalRule(const Bucket& bucket);

  void move(const Step& step, std::span<const Piece> absent) override;
  bool arrives(const Step& step) const override;
  void arrive(const Step& step) override;
  bool exchanges(const Step& step) const override;
  void step(const Step& step) override;
  void synchronize(const Step& step) override;
  void deliver() override;

  void start() override { adopt(); }
  void adopt() override;
  std::vector<State> state() override;
  bool keeps_what_rests() const override { return bucket_.courier != nullptr; }
  std::span<const float> synced() const override { return x_sync_.span(); }
  double residual_ratio() const override;
  std::uint64_t bad_blocks() const override;
  std::string describe() const override;
  // What ranks moved since the last exchange is left behind; an exchange under way is applied.
  void redistribute(const Whole& whole, const Step& step) override;

 private:
  double& rate_sum() { return scalars_[0]; }  // since the last exchange began
  double& steps() { return scalars_[1]; }
  double& due() { return scalars_[2]; }  // step in which the exchange under way is applied; 0: none
  double& gamma() { return scalars_[3]; }  // of it

  void copy(std::span<const float> from, std::span<float> to) const {
    copy_on<float>(*bucket_.device, from, to);
  }
  double mean_rate();
  kernels::OuterStep outer_step(double gamma, kernels::Follow follow) const;
  OuterUpdate outer_update(double gamma, kernels::Follow follow);
  Displacement displacement(const float* x);
  void keep_resting();
  std::span<const Piece> kept_pieces();
  void finish(kernels::Follow follow);

  std::unique_ptr<Rule> inner_;  // null: the caller moves the weights
  Memory<float> x_sync_, momentum_;
  double scalars_[4] = {};
  std::unique_ptr<Mean> mean_;
  bool lossy_;
  Counter exact_bad_{0};

  // Of an exchange under way.
  Memory<float> snapshot_, held_;
  std::vector<double> rests_;  // of each piece of the bucket, 1: it rests
  std::vector<Piece> found_;
  Round round_;
  Kept residuals_, rested_;
  // What the last exchange that was finished left behind.
  double ratio_ = 0;
  std::uint64_t bad_seen_ = 0;
};

}  // namespace laconic::inline optim
