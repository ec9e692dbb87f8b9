#include "app/failure.h"

#include <cstdio>
#include <new>

#include "laconic/core/error.h"

namespace laconic::app {
namespace {

int exit_code(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
    case Code::kUnavailable: return 2;
    case Code::kTimeout: return kRankLost;
    case Code::kMismatch: return 5;
    default: return 1;
  }
}

int print_error(int rank, const char* message, int code) {
  std::fflush(stdout);
  if (rank < 0)
    std::fprintf(stderr, "laconic: %s\n", message);
  else
    std::fprintf(stderr, "laconic: rank %d: %s\n", rank, message);
  std::fflush(stderr);
  return code;
}

}  // namespace

int report_failure(int rank) {
  try {
    throw;
  } catch (const Exit& exit) {
    return exit.code;
  } catch (const Error& error) {
    return print_error(rank, error.what(), exit_code(error.code()));
  } catch (const Diverged& error) {
    return print_error(rank, error.what(), 4);
  } catch (const std::bad_alloc&) {
    return print_error(rank, "out of memory: try a smaller model or batch, or fewer ranks", 1);
  } catch (const std::exception& error) {
    return print_error(rank, error.what(), 1);
  }
}

}  // namespace laconic::app
