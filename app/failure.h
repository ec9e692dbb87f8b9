#pragma once

#include <exception>
#include <string>
#include <utility>

// Exit codes: 0 done, 1 failed while running, 2 wrong usage or a missing part, 3 a rank was lost, 4
// diverged, 5 replicas differ, 6 a gate of --fail-if did not hold, 128 + n stopped by signal n.
namespace laconic::app {

inline constexpr int kRankLost = 3;
inline constexpr int kGateFailed = 6;
inline constexpr int kSignalBase = 128;

// The loss stayed not finite.
struct Diverged : std::exception {
  explicit Diverged(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

// A command that ends with a code of its own, having printed why.
struct Exit {
  int code;
};

// Prints on stderr what went wrong ("laconic: …", with the rank if there is one) and returns the exit
// code. To be called in a handler.
int report_failure(int rank = -1);

}  // namespace laconic::app
