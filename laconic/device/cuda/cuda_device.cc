#include "laconic/device/cuda/cuda_device.h"

#include <algorithm>
#include <cstring>

#include "laconic/core/error.h"

namespace laconic::inline device {

using cuda::Address;

namespace {

Address address_of(const void* memory) { return reinterpret_cast<Address>(memory); }

}  // namespace

CudaDevice::CudaDevice(std::shared_ptr<cuda::Gpu> gpu, int threads, std::string checked)
    : gpu_(std::move(gpu)), checked_(std::move(checked)), host_(threads) {
  const cuda::Gpu::Current current(*gpu_);
  const cuda::Driver& driver = gpu_->driver();
  check(driver.stream_create(&stream_, cuda::kNonBlocking), "making a stream");
  check(driver.stream_create(&own_caller_, cuda::kNonBlocking), "making a stream");
  caller_ = own_caller_;
  for (cuda::Event* event : {&done_, &came_, &fetched_})
    check(driver.event_create(event, cuda::kNoTiming), "making an event");
  for (Slot& slot : slots_)
    check(driver.event_create(&slot.done, cuda::kNoTiming), "making an event");
}

// Nothing is checked: the GPU may be gone.
CudaDevice::~CudaDevice() {
  const cuda::Gpu::Current current(*gpu_, std::nothrow);
  const cuda::Driver& driver = gpu_->driver();
  driver.event_record(done_, stream_);
  driver.event_wait(done_);
  for (Slot& slot : slots_) {
    if (slot.bytes != 0) {
      driver.free(slot.device);
      driver.free_pinned(slot.pinned);
    }
    driver.event_destroy(slot.done);
  }
  for (const Address memory : {scratch_, joined_})
    if (memory != 0) driver.free(memory);
  for (const cuda::Event event : marks_) driver.event_destroy(event);
  driver.event_destroy(done_);
  driver.event_destroy(came_);
  driver.event_destroy(fetched_);
  driver.stream_destroy(stream_);
  driver.stream_destroy(own_caller_);
}

std::string CudaDevice::describe() const { return fmt::format("{} ({})", gpu_->name(), checked_); }

void* CudaDevice::allocate(std::size_t bytes) {
  const cuda::Gpu::Current current(*gpu_);
  Address memory = 0;
  check(gpu_->driver().allocate(&memory, bytes), fmt::format("allocating {} bytes", bytes).c_str());
  check(gpu_->driver().set_bytes(memory, 0, bytes, stream_), "clearing memory");
  return reinterpret_cast<void*>(memory);
}

void CudaDevice::free(void* memory) noexcept {
  const cuda::Gpu::Current current(*gpu_, std::nothrow);
  gpu_->driver().free(address_of(memory));
}

void CudaDevice::copy(const void* from, void* to, std::size_t bytes) {
  if (bytes == 0) return;
  const cuda::Gpu::Current current(*gpu_);
  check(gpu_->driver().on_device(address_of(to), address_of(from), bytes, stream_), "a copy");
}

void CudaDevice::clear(void* at, std::size_t bytes) {
  if (bytes == 0) return;
  const cuda::Gpu::Current current(*gpu_);
  check(gpu_->driver().set_bytes(address_of(at), 0, bytes, stream_), "clearing memory");
}

void CudaDevice::copy_in(const void* from_host, void* to, std::size_t bytes) {
  if (bytes == 0) return;
  const cuda::Gpu::Current current(*gpu_);
  check(gpu_->driver().to_device(address_of(to), from_host, bytes, stream_), "a copy to the GPU");
}

void CudaDevice::copy_out(const void* from, void* to_host, std::size_t bytes) {
  if (bytes == 0) return;
  const cuda::Gpu::Current current(*gpu_);
  const cuda::Driver& driver = gpu_->driver();
  check(driver.to_host(to_host, address_of(from), bytes, stream_), "a copy to the host");
  check(driver.event_record(done_, stream_), "recording an event");
  check(driver.event_wait(done_), "waiting for the GPU");
}

void CudaDevice::follow_caller(void* stream) {
  caller_ = stream ? static_cast<cuda::Stream>(stream) : own_caller_;
}

void CudaDevice::bring(const void* from_host, void* to, std::size_t bytes) {
  if (bytes == 0) return;
  const cuda::Gpu::Current current(*gpu_);
  check(gpu_->driver().to_device(address_of(to), from_host, bytes, caller_), "a copy to the GPU");
}

void CudaDevice::bring_back(const void* from, void* to_host, std::size_t bytes) {
  if (bytes == 0) return;
  const cuda::Gpu::Current current(*gpu_);
  const cuda::Driver& driver = gpu_->driver();
  check(driver.to_host(to_host, address_of(from), bytes, caller_), "a copy to the host");
  check(driver.event_record(fetched_, caller_), "recording an event");
  check(driver.event_wait(fetched_), "waiting for the GPU");
}

void CudaDevice::mark(std::size_t number) {
  const cuda::Gpu::Current current(*gpu_);
  const cuda::Driver& driver = gpu_->driver();
  while (marks_.size() <= number) {
    cuda::Event event{};
    check(driver.event_create(&event, cuda::kNoTiming), "making an event");
    marks_.push_back(event);
  }
  check(driver.event_record(marks_[number], caller_), "recording an event");
}

void CudaDevice::wait(std::size_t number) {
  const cuda::Gpu::Current current(*gpu_);
  check(gpu_->driver().stream_wait(stream_, marks_[number], 0), "waiting for an event");
}

void CudaDevice::release() {
  const cuda::Gpu::Current current(*gpu_);
  check(gpu_->driver().event_record(came_, stream_), "recording an event");
  check(gpu_->driver().stream_wait(caller_, came_, 0), "waiting for an event");
}

void CudaDevice::settle() {
  const cuda::Gpu::Current current(*gpu_);
  check(gpu_->driver().event_record(done_, stream_), "recording an event");
  check(gpu_->driver().event_wait(done_), "waiting for the GPU");
  for (Slot& slot : slots_) finish(slot);
}

void CudaDevice::collect() {
  const cuda::Gpu::Current current(*gpu_);
  for (Slot& slot : slots_)
    if (slot.busy && gpu_->driver().event_query(slot.done) == 0) finish(slot);
}

// In turns, so that a slot is seldom waited for.
CudaDevice::Slot& CudaDevice::slot(std::size_t bytes) {
  Slot& one = slots_[next_++ % kSlots];
  finish(one);
  if (one.bytes < kHead + bytes) grow(one, kHead + bytes);
  return one;
}

void CudaDevice::grow(Slot& slot, std::size_t bytes) {
  const cuda::Driver& driver = gpu_->driver();
  if (slot.bytes != 0) {
    check(driver.free(slot.device), "freeing memory");
    check(driver.free_pinned(slot.pinned), "freeing pinned memory");
    slot.bytes = 0;
  }
  const std::size_t rounded = (bytes + 4095) / 4096 * 4096;
  void* pinned = nullptr;
  check(driver.allocate(&slot.device, rounded), "allocating memory for messages");
  check(driver.allocate_pinned(&pinned, rounded, 0), "allocating pinned memory for messages");
  slot.pinned = static_cast<char*>(pinned);
  slot.bytes = rounded;
}

std::uint64_t CudaDevice::counted(const Slot& slot) {
  std::uint64_t value = 0;
  std::memcpy(&value, slot.pinned, sizeof value);
  return value;
}

void CudaDevice::finish(Slot& slot) {
  if (!slot.busy) return;
  const cuda::Driver& driver = gpu_->driver();
  const int state = driver.event_query(slot.done);
  if (state != 0)
    check(state == cuda::kNotReady ? driver.event_wait(slot.done) : state, "waiting for the GPU");
  slot.busy = false;
  if (slot.counts_for) slot.counts_for->fetch_add(counted(slot), std::memory_order_relaxed);
  slot.counts_for = nullptr;
}

cuda::Counter* CudaDevice::counter(const Slot& slot) const {
  return reinterpret_cast<cuda::Counter*>(slot.device);
}

void CudaDevice::clear_counter(const Slot& slot) {
  check(gpu_->driver().set_bytes(slot.device, 0, sizeof(cuda::Counter), stream_),
        "clearing a counter");
}

void CudaDevice::upload(const Slot& slot, std::size_t bytes) {
  std::memset(slot.pinned, 0, sizeof(cuda::Counter));
  check(gpu_->driver().to_device(slot.device, slot.pinned, kHead + bytes, stream_),
        "a copy to the GPU");
}

void CudaDevice::download(Slot& slot, std::size_t bytes) {
  check(gpu_->driver().to_host(slot.pinned, slot.device, kHead + bytes, stream_),
        "a copy to the host");
  enqueue(slot, nullptr);
  finish(slot);
}

void CudaDevice::enqueue(Slot& slot, Counter* counts_for) {
  if (counts_for)
    check(gpu_->driver().to_host(slot.pinned, slot.device, sizeof(cuda::Counter), stream_),
          "a copy to the host");
  check(gpu_->driver().event_record(slot.done, stream_), "recording an event");
  slot.busy = true;
  slot.counts_for = counts_for;
}

float* CudaDevice::scratch(std::size_t elements) {
  const std::size_t bytes = 4 * elements;
  if (scratch_bytes_ < bytes) {
    if (scratch_ != 0) check(gpu_->driver().free(scratch_), "freeing memory");
    scratch_bytes_ = 0;
    check(gpu_->driver().allocate(&scratch_, bytes), "allocating memory");
    scratch_bytes_ = bytes;
  }
  return reinterpret_cast<float*>(scratch_);
}

}  // namespace laconic::inline device
