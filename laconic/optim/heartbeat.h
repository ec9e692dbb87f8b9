#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "laconic/core/error.h"
#include "laconic/transport/transport.h"

namespace laconic::inline optim {

// Finds ranks that died while nobody waits for them: about once a second the ranks exchange a few
// bytes on a thread and a group of their own. A rank that computes for long lives, since its thread
// answers. One thread at a time calls.
class Heartbeat {
 public:
  // Collective. The caller keeps `transport` alive.
  explicit Heartbeat(Transport& transport);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // Before step `step`, or what comes after step - 1 and needs all ranks. Throws what the transport
  // threw on the thread, which names the rank; Error(kTransport) where a rank ended before.
  void check(std::int64_t step);
  // Steps that this rank has taken.
  void count(std::int64_t steps);
  // Lets the others know after how many steps this rank ended; it ends on all ranks then. Waits for
  // the others' threads, at most as long as the transport does.
  void stop() noexcept;

 private:
  struct Beat {
    std::int64_t steps = 0, ends = 0;
  };
  void loop();
  bool beat(const Beat& mine);
  void note_ended();

  std::unique_ptr<Transport> group_;
  const std::chrono::milliseconds interval_;
  std::vector<Beat> all_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t steps_ = 0;
  bool stop_ = false, over_ = false;
  std::optional<Error> error_;
  int ended_ = -1;  // the rank that ended first
  std::int64_t ended_after_ = 0;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace laconic::inline optim
