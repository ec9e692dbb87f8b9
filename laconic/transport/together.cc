#include "laconic/transport/together.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <ios>
#include <new>
#include <span>
#include <string_view>

#include "laconic/core/error.h"

namespace laconic::inline transport {
namespace {

// What a rank sends to the others. No padding: it crosses the wire as it lies in memory.
struct Outcome {
  std::uint64_t result = 0;
  std::uint32_t failed = 0, code = 0;
  char message[1008] = {};
};
static_assert(sizeof(Outcome) == 1024);

void note(Outcome& outcome, Code code, std::string_view message) {
  outcome.failed = 1;
  outcome.code = static_cast<std::uint32_t>(code);
  std::memcpy(outcome.message, message.data(),
              std::min(message.size(), sizeof(outcome.message) - 1));
}

Outcome outcome_of(FunctionRef<std::uint64_t()> work) {
  Outcome outcome;
  try {
    outcome.result = work();
  } catch (const Error& error) {
    note(outcome, error.code(), error.what());
  } catch (const std::bad_alloc&) {
    note(outcome, Code::kUnavailable, "out of memory");
  } catch (const std::filesystem::filesystem_error& error) {
    note(outcome, Code::kFile, error.what());
  } catch (const std::ios_base::failure& error) {
    note(outcome, Code::kFile, error.what());
  } catch (const std::exception& error) {
    note(outcome, Code::kInternal, error.what());
  } catch (...) {  // the others must not wait for this rank
    note(outcome, Code::kInternal, "an exception that is no std::exception");
  }
  return outcome;
}

}  // namespace

std::vector<std::uint64_t> together(Transport& world, FunctionRef<std::uint64_t()> work) {
  const std::vector<Outcome> all = world.gather(outcome_of(work));
  std::vector<std::uint64_t> results;
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].failed != 0)
      fail(static_cast<Code>(all[r].code), "rank {}: {}", r,
           static_cast<const char*>(all[r].message));
    results.push_back(all[r].result);
  }
  return results;
}

}  // namespace laconic::inline transport
