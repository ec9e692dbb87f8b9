#pragma once

#include <cstdint>
#include <string>
#include <vector>

// The calls of this program that change files, counted and cut. Linked in, it stands before the C
// library, for the C++ library's calls too.
namespace laconic::testing {

enum class Cut : std::uint8_t {
  kNone,
  kFail,      // the n-th call and all after it fail
  kFailOnce,  // the n-th call fails
  kDie,       // the process ends before the n-th call
  kDieTorn,   // the same; if it is a write, half of it is done
};

inline constexpr int kDied = 42;  // the exit status of a process that was cut

struct FileCall {
  std::string name, path, to;  // `to`: of renames
};

// While it lives calls are counted from 1. One at a time. fsync and fdatasync never do anything in
// such a program: what tests ask is when they are called.
class CutCalls {
 public:
  explicit CutCalls(Cut cut = Cut::kNone, std::int64_t at = 0, int error = 0);
  CutCalls(const CutCalls&) = delete;
  CutCalls& operator=(const CutCalls&) = delete;
  ~CutCalls();

  // A call was cut.
  bool reached() const;
  std::vector<FileCall> made() const;
};

}  // namespace laconic::testing
