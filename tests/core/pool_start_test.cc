// A pool on a machine that starts no more threads. In a program of its own, which replaces
// pthread_create.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>

#include "laconic/core/parallel.h"
#include "tests/support/thrown.h"

namespace {

int threads_left = -1;  // below 0: no limit

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) {
  static const auto real =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_left == 0) return EAGAIN;
  if (threads_left > 0) --threads_left;
  return real(thread, attributes, start, argument);
}

namespace laconic {
namespace {

TEST(Pool, OfWhichALaterThreadCannotStartIsAnError) {
  for (const int started : {0, 1, 3}) {
    ::alarm(60);  // a pool that waits for ever fails this test and not the whole run
    threads_left = started;
    const auto error = thrown([] { Pool(8); });
    threads_left = -1;
    ::alarm(0);
    expect_says(error, Code::kUnavailable, {"8 threads", std::to_string(started + 1) + " run"});
  }
  Pool pool(3);
  EXPECT_EQ(pool.threads(), 3);
}

}  // namespace
}  // namespace laconic
