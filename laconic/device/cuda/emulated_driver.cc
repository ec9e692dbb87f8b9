#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "laconic/device/cuda/driver.h"
#include "laconic/device/cuda/emulated_memory.h"
#include "laconic/device/cuda/kernels.h"

// A stand-in for libcuda. Streams are queues that nobody works on until someone waits; then they
// advance in a random order that their events allow. What is read before a copy is complete is
// poison, device memory that was never written is poison, and a host that touches device memory dies.
// The code that is loaded is not looked at: kernels run on fibers, by name.
namespace laconic::cuda {
namespace {

enum Result {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotFound = 500,
  kDeadlock = 719,  // CUDA_ERROR_LAUNCH_FAILED
  kLost = 46,       // CUDA_ERROR_DEVICE_UNAVAILABLE
};

// True once what was enqueued before the record is done. A wait is for the record that was the last
// one when it was enqueued.
using Record = std::shared_ptr<bool>;

struct EmulatedEvent {
  Record last = std::make_shared<bool>(true);
};

struct Operation {
  Record after;  // null: ready
  std::function<void()> run;
};

using Queue = std::deque<Operation>;

struct State {
  std::mutex mutex;
  std::mt19937 random{1};
  std::map<Stream, Queue> streams;
  Queue* last = nullptr;                         // whose operation was run last
  std::map<const char*, std::size_t> pinned;     // address, bytes
  std::multimap<const char*, std::size_t> read;  // pinned memory that copies have yet to read
  EmulatedMemory memory;
  bool lost = false;
  bool (*keeps)(bool of_stream) = nullptr;
};

State& state() {
  static State* all = new State;  // ranks that are threads may outlive main's statics
  return *all;
}

using Lock = std::lock_guard<std::mutex>;

// Runs one operation that is ready; false when there is none.
bool advance(State& all) {
  std::vector<Queue*> ready;
  for (auto& [stream, queue] : all.streams)
    if (!queue.empty() && (!queue.front().after || *queue.front().after)) ready.push_back(&queue);
  if (ready.empty()) return false;
  // A stream often runs far ahead of the others, as far as its events let it.
  const bool goes_on = all.random() % 8 != 0 && std::ranges::find(ready, all.last) != ready.end();
  Queue& queue = goes_on ? *all.last : *ready[all.random() % ready.size()];
  all.last = &queue;
  const Operation operation = std::move(queue.front());
  queue.pop_front();
  all.memory.reach(true);
  operation.run();
  return true;
}

// Runs operations until it is `done`; false when none is ready before that.
template <class Done>
bool advance_until(State& all, const Done& done) {
  bool ran = true;
  while (ran && !done()) ran = advance(all);
  all.memory.reach(false);
  return ran;
}

// CU_STREAM_LEGACY, torch's default stream: that of callers who work at once, on memory of the host
// in place of a GPU's. What is enqueued there is done when the call returns.
const Stream kLegacy = reinterpret_cast<Stream>(std::uintptr_t{1});

int enqueue(State& all, Stream stream, std::function<void()> run, Record after = nullptr) {
  if (all.lost) return kLost;
  Queue& queue = all.streams[stream];
  queue.push_back({std::move(after), std::move(run)});
  if (stream == kLegacy) advance_until(all, [&queue] { return queue.empty(); });
  return kSuccess;
}

bool is_pinned(const State& all, const void* at) {
  const auto* address = static_cast<const char*>(at);
  const auto after = all.pinned.upper_bound(address);
  if (after == all.pinned.begin()) return false;
  const auto& [begin, bytes] = *std::prev(after);
  return address < begin + bytes;
}

// All but what copies that were enqueued before have yet to read.
void poison(const State& all, char* at, std::size_t bytes) {
  char* const end = at + bytes;
  for (const auto& [begin, length] : all.read) {
    if (begin >= end || begin + length <= at) continue;
    if (begin > at) std::memset(at, kPoison, static_cast<std::size_t>(begin - at));
    at = std::min(end, const_cast<char*>(begin) + length);
  }
  std::memset(at, kPoison, static_cast<std::size_t>(end - at));
}

int init(unsigned) { return state().lost ? kLost : kSuccess; }
int version(int* value) {
  *value = 0;
  return kSuccess;
}
int device_count(int* count) {
  *count = 1;
  return kSuccess;
}
int device_get(int* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? kSuccess : 101;  // CUDA_ERROR_INVALID_DEVICE
}
int device_name(char* name, int length, int) {
  if (length <= 0) return kInvalidValue;
  std::strncpy(name, "emulated", static_cast<std::size_t>(length));
  name[length - 1] = '\0';
  return kSuccess;
}
int attribute(int* value, int wanted, int) {
  *value = wanted == kMajor ? 8 : 0;  // compute capability 8.0
  return kSuccess;
}
int retain(Context* context, int) {
  *context = reinterpret_cast<Context>(&state());
  return kSuccess;
}
int push(Context) { return kSuccess; }
int pop(Context*) { return kSuccess; }
int load(Module* module, const void* image) {
  *module = reinterpret_cast<Module>(&state());
  return std::memcmp(image, "\177ELF", 4) == 0 ? kSuccess : 200;  // CUDA_ERROR_INVALID_IMAGE
}
int find(Function* function, Module, const char* name) {
  for (const Kernel& kernel : all_kernels())
    if (kernel.name == name) {
      *function = reinterpret_cast<Function>(const_cast<Kernel*>(&kernel));
      return kSuccess;
    }
  return kNotFound;
}

// As on a GPU, the arguments are copied before the call returns.
int launch(Function function, unsigned columns, unsigned rows, unsigned, unsigned threads, unsigned,
           unsigned, unsigned, Stream stream, void** parameters, void**) {
  if (threads != kThreads || columns == 0 || rows == 0) return kInvalidValue;
  State& all = state();
  const Lock lock(all.mutex);
  const auto& kernel = *reinterpret_cast<const Kernel*>(function);
  const auto* first = static_cast<const char*>(parameters[0]);
  return enqueue(
      all, stream,
      [&kernel, columns, rows, seed = static_cast<unsigned>(all.random()),
       copy = std::vector<char>(first, first + kernel.arguments)] {
        if (run_on_fibers(kernel.name, {columns, rows}, copy.data(), seed) != Emulation::kDone)
          state().lost = true;  // as after a kernel that hangs
      });
}

int allocate(Address* at, std::size_t bytes) {
  State& all = state();
  const Lock lock(all.mutex);
  if (all.lost) return kLost;
  *at = all.memory.allocate(bytes);
  return *at != 0 ? kSuccess : kOutOfMemory;
}
// As on a GPU, whatever is enqueued is done first.
int free_memory(Address at) {
  State& all = state();
  const Lock lock(all.mutex);
  advance_until(all, [] { return false; });
  return all.memory.release(at) ? kSuccess : kInvalidValue;
}
int allocate_pinned(void** at, std::size_t bytes, unsigned) {
  State& all = state();
  const Lock lock(all.mutex);
  if (all.lost) return kLost;
  *at = std::malloc(bytes);
  if (*at == nullptr) return kOutOfMemory;
  std::memset(*at, kPoison, bytes);
  all.pinned[static_cast<const char*>(*at)] = bytes;
  return kSuccess;
}
int free_pinned(void* at) {
  State& all = state();
  const Lock lock(all.mutex);
  all.pinned.erase(static_cast<const char*>(at));
  std::free(at);
  return kSuccess;
}

// The memory holds poison until the copy is done. (A GPU's driver returns later, with the copy done,
// where the memory is not pinned: nobody should count on it.)
int to_host(void* to, Address from, std::size_t bytes, Stream stream) {
  State& all = state();
  const Lock lock(all.mutex);
  poison(all, static_cast<char*>(to), bytes);
  return enqueue(all, stream, [=] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); });
}

// From pinned memory when the stream comes to it; other memory is staged before the call returns.
int to_device(Address to, const void* from, std::size_t bytes, Stream stream) {
  State& all = state();
  const Lock lock(all.mutex);
  if (is_pinned(all, from)) {
    const auto reads = all.read.emplace(static_cast<const char*>(from), bytes);
    return enqueue(all, stream, [=, &all] {
      std::memcpy(reinterpret_cast<void*>(to), from, bytes);
      all.read.erase(reads);
    });
  }
  const auto* first = static_cast<const char*>(from);
  return enqueue(all, stream, [to, staged = std::vector<char>(first, first + bytes)] {
    std::memcpy(reinterpret_cast<void*>(to), staged.data(), staged.size());
  });
}
int on_device(Address to, Address from, std::size_t bytes, Stream stream) {
  State& all = state();
  const Lock lock(all.mutex);
  return enqueue(all, stream, [=] {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  });
}
int set_bytes(Address at, unsigned char value, std::size_t count, Stream stream) {
  State& all = state();
  const Lock lock(all.mutex);
  return enqueue(all, stream, [=] { std::memset(reinterpret_cast<void*>(at), value, count); });
}
int set_words(Address at, unsigned value, std::size_t count, Stream stream) {
  State& all = state();
  const Lock lock(all.mutex);
  return enqueue(all, stream, [=] { std::fill_n(reinterpret_cast<unsigned*>(at), count, value); });
}

int stream_create(Stream* stream, unsigned) {
  State& all = state();
  const Lock lock(all.mutex);
  *stream = reinterpret_cast<Stream>(new char);
  all.streams[*stream];
  return kSuccess;
}
int stream_destroy(Stream stream) {
  State& all = state();
  const Lock lock(all.mutex);
  advance_until(all, [&] { return all.streams[stream].empty(); });
  if (all.last == &all.streams[stream]) all.last = nullptr;
  all.streams.erase(stream);
  delete reinterpret_cast<char*>(stream);
  return kSuccess;
}
EmulatedEvent& event_of(Event event) { return *reinterpret_cast<EmulatedEvent*>(event); }

int stream_wait(Stream stream, Event event, unsigned) {
  State& all = state();
  const Lock lock(all.mutex);
  if (all.keeps && !all.keeps(true)) return kSuccess;
  return enqueue(
      all, stream, [] {}, event_of(event).last);
}
int event_create(Event* event, unsigned) {
  *event = reinterpret_cast<Event>(new EmulatedEvent);
  return kSuccess;
}
int event_destroy(Event event) {
  delete &event_of(event);
  return kSuccess;
}
int event_record(Event event, Stream stream) {
  State& all = state();
  const Lock lock(all.mutex);
  const auto record = std::make_shared<bool>(false);
  event_of(event).last = record;
  return enqueue(all, stream, [record] { *record = true; });
}
int event_wait(Event event) {
  State& all = state();
  const Lock lock(all.mutex);
  const Record record = event_of(event).last;
  if (all.keeps && !all.keeps(false)) return kSuccess;
  if (!advance_until(all, [&] { return *record || all.lost; }))
    return kDeadlock;  // streams that wait for each other
  return *record ? kSuccess : kLost;
}
int event_query(Event event) {
  State& all = state();
  const Lock lock(all.mutex);
  if (all.lost) return kLost;
  return *event_of(event).last ? kSuccess : kNotReady;
}
int error_name(int result, const char** name) {
  switch (result) {
    case kOutOfMemory: *name = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case kLost: *name = "CUDA_ERROR_DEVICE_UNAVAILABLE"; break;
    case kNotFound: *name = "CUDA_ERROR_NOT_FOUND"; break;
    case kDeadlock: *name = "streams that wait for each other"; break;
    case 101: *name = "CUDA_ERROR_INVALID_DEVICE"; break;
    default: *name = "CUDA_ERROR_INVALID_VALUE";
  }
  return kSuccess;
}

}  // namespace

Driver emulated_driver() {
  return {init,          version,       device_count,   device_get,  device_name,
          attribute,     retain,        push,           pop,         load,
          find,          launch,        allocate,       free_memory, allocate_pinned,
          free_pinned,   to_host,       to_device,      on_device,   set_bytes,
          set_words,     stream_create, stream_destroy, stream_wait, event_create,
          event_destroy, event_record,  event_wait,     event_query, error_name};
}

void seed_emulated_driver(unsigned seed) {
  const Lock lock(state().mutex);
  state().random.seed(seed);
}
void limit_emulated_memory(std::size_t bytes) {
  const Lock lock(state().mutex);
  state().memory.limit(bytes);
}
void filter_emulated_waits(bool (*keeps)(bool of_stream)) {
  const Lock lock(state().mutex);
  state().keeps = keeps;
}
void lose_emulated_device(bool lost) {
  const Lock lock(state().mutex);
  state().lost = lost;
}

}  // namespace laconic::cuda
