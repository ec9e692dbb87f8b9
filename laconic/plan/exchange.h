#pragma once

#include <functional>
#include <vector>

#include "laconic/plan/cost.h"

namespace laconic::plan {

// One rank in time: its communication thread, the backward pass beside it, its links.
class Rank {
 public:
  // `lag`: of each phase of an exchange behind the one before it, in slices.
  Rank(const Cluster& cluster, const Work& work, const Speeds& speeds, int most_slices,
       std::size_t lag);

  const Cluster& cluster() const noexcept { return cluster_; }
  const Speeds& speeds() const noexcept { return speeds_; }
  int useful_slices() const noexcept { return useful_slices_; }

  // Until the backward pass has done this share of its work.
  void wait_for_backward(double share) { wait_until(ready_at(share)); }
  bool has(double share) const noexcept { return ready_at(share) <= now_; }
  double now() const noexcept { return now_; }
  void wait_until(double time) noexcept { now_ = time > now_ ? time : now_; }
  void code(double seconds);
  // Returns when the like messages of the others are here. Bytes are in all, to `peers` peers.
  double send(double inside, double between, int peers);
  // An exchange of others, that begins when the one before it is over; returns when it is over.
  double transfer(double inside, double between, double seconds);

  // A slice that goes through its phases behind those before it, as on a Conveyor; drain() ends what
  // is under way. All have as many phases.
  using Phases = std::function<void(std::size_t phase)>;
  void push(std::size_t phases, Phases slice);
  void drain();

  // So far.
  Forecast forecast() const;

 private:
  const Cluster& cluster_;
  const Speeds& speeds_;
  double forward_, backward_;
  bool shares_cores_;
  int useful_slices_;
  double ready_at(double share) const noexcept { return forward_ + share * backward_ + lost_; }

  double now_ = 0, lost_ = 0;  // lost: by which coding has put off the backward pass
  const std::size_t lag_;
  std::size_t phases_ = 0;
  std::vector<Phases> slices_;  // that are under way, and those that were before them
  // Between nodes an exchange waits for the last of these, which are alike but for their speed.
  std::vector<Link> inter_;
  std::vector<double> inter_free_;
  double intra_free_ = 0, transfer_end_ = 0;
  Forecast sum_;
};

// Begins the all-reduce of one bucket; returns when it is over.
double all_reduce(Rank& rank, const MethodStep& method, std::size_t elements);
// What a rank computes for it.
double all_reduce_coding(const Speeds& speeds, const MethodStep& method, std::size_t elements);

// Appends the exchange of one bucket to the rank's time, but for what waits for drain(). REQUIRES:
// neither silent nor an all-reduce.
void exchange(Rank& rank, const MethodStep& method, std::size_t elements);

// Of its method, as measured.
const MethodCost& cost_of(const Speeds& speeds, const MethodStep& method);
// Seconds per element around an exchange.
MethodCost::Seconds update_of(const Speeds& speeds, const MethodStep& method);

}  // namespace laconic::plan
