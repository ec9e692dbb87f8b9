#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "laconic/device/device.h"
#include "laconic/optim/config.h"
#include "laconic/transport/metered.h"
#include "laconic/transport/nodes.h"

namespace laconic::inline optim {

// Runs exchanges that outlive their step, bucket after bucket in the order of post(), which is the
// same on all ranks. It has a thread, a group of ranks and a device of its own: steps, control
// rounds and checkpoints go on meanwhile. One thread at a time calls.
class Courier {
 public:
  // Collective. The caller keeps `transport` alive.
  Courier(Transport& transport, const OptimizerConfig& config);
  ~Courier();
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  // Of the exchanges.
  const Nodes& nodes() const noexcept { return nodes_; }
  Device& device() const noexcept { return *device_; }
  // Before the first post().
  void serve(int buckets, std::function<void(int bucket)> work);

  // Finishes what is under way. Nothing is posted afterwards.
  void stop();

  // REQUIRES: the bucket is not under way.
  void post(int bucket);
  // Returns when the bucket is not under way. Throws what the work threw, of whichever bucket: so an
  // error shows in the step that needs the exchange, however early it came.
  void wait(int bucket);
  // The same of all buckets; what they sent does not count yet.
  void wait_for_all();

  // What was sent for buckets that were waited for, and the seconds that took.
  const Traffic::Count& sent() const noexcept { return sent_; }
  double waited_seconds() const noexcept { return waited_; }

 private:
  struct Errand {
    bool under_way = false;
    Traffic::Count sent;
  };
  void loop();
  void run(int bucket);
  void wait_until(const std::function<bool()>& done);

  Traffic traffic_;
  std::unique_ptr<Transport> group_, metered_;
  Nodes nodes_;
  std::unique_ptr<Device> device_;
  std::function<void(int)> work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Errand> errands_;
  std::vector<int> queue_;  // a ring with room for every bucket
  std::size_t first_ = 0, queued_ = 0;
  bool stop_ = false;
  std::exception_ptr error_;
  Traffic::Count sent_;
  double waited_ = 0;
  std::thread thread_;  // made by the first post()
};

}  // namespace laconic::inline optim
