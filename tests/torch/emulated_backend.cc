#include "tests/torch/emulated_backend.h"

#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <map>
#include <mutex>
#include <vector>

#include "laconic/device/cuda/driver.h"

namespace laconic::testing {
namespace {

using ::at::Tensor;

constexpr auto kType = ::c10::DeviceType::PrivateUse1;
constexpr auto kKey = ::c10::DispatchKey::PrivateUse1;
const ::c10::Device kDevice(kType, 0);

const cuda::Driver& driver() {
  static const cuda::Driver one = cuda::emulated_driver();
  return one;
}
void check(int result) { TORCH_CHECK(result == 0, "the driver failed with ", result); }

// A stream's number is the driver's handle; the default one is CU_STREAM_LEGACY, and 0 for torch.
thread_local ::c10::StreamId current = 0;
cuda::Stream stream_of(::c10::StreamId id) {
  return reinterpret_cast<cuda::Stream>(id == 0 ? std::intptr_t{1} : id);
}
cuda::Stream current_stream() { return stream_of(current); }

struct Guard final : ::c10::impl::DeviceGuardImplInterface {
  ::c10::DeviceType type() const override { return kType; }
  ::c10::Device exchangeDevice(::c10::Device) const override { return kDevice; }
  ::c10::Device getDevice() const override { return kDevice; }
  void setDevice(::c10::Device) const override {}
  void uncheckedSetDevice(::c10::Device) const noexcept override {}
  ::c10::Stream getStream(::c10::Device) const override { return made(current); }
  ::c10::Stream getDefaultStream(::c10::Device) const override { return made(0); }
  ::c10::Stream exchangeStream(::c10::Stream stream) const override {
    return made(std::exchange(current, stream.id()));
  }
  void* getStreamNativeHandle(const ::c10::Stream stream) const override {
    return reinterpret_cast<void*>(stream.id());
  }
  ::c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void** event, const ::c10::Stream& stream, const ::c10::DeviceIndex,
              const ::c10::EventFlag) const override {
    auto& one = reinterpret_cast<cuda::Event&>(*event);
    if (one == nullptr) check(driver().event_create(&one, 0));
    check(driver().event_record(one, stream_of(stream.id())));
  }
  void block(void* event, const ::c10::Stream& stream) const override {
    check(driver().stream_wait(stream_of(stream.id()), static_cast<cuda::Event>(event), 0));
  }
  bool queryEvent(void* event) const override {
    return driver().event_query(static_cast<cuda::Event>(event)) == 0;
  }
  void destroyEvent(void* event, const ::c10::DeviceIndex) const noexcept override {
    if (event != nullptr) driver().event_destroy(static_cast<cuda::Event>(event));
  }

 private:
  static ::c10::Stream made(::c10::StreamId id) {
    return ::c10::Stream(::c10::Stream::UNSAFE, kDevice, id);
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : ::at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(::c10::DeviceIndex) const override { return true; }
  ::c10::DeviceIndex deviceCount() const override { return 1; }
  ::c10::DeviceIndex getCurrentDevice() const override { return 0; }
};

// The driver's free() waits for all streams: what is freed goes back to the stream that it is of.
class Allocator final : public ::c10::Allocator {
 public:
  ::c10::DataPtr allocate(std::size_t bytes) override {
    const Key key{current, (bytes + 511) / 512 * 512};
    if (bytes == 0) return {nullptr, kDevice};
    const std::lock_guard lock(mutex());
    auto& spare = all()[key];
    cuda::Address at = 0;
    if (spare.empty()) {
      check(driver().allocate(&at, key.second));
    } else {
      at = spare.back();
      spare.pop_back();
    }
    return {reinterpret_cast<void*>(at), new Block{key, at}, release, kDevice};
  }
  ::c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    check(driver().on_device(reinterpret_cast<cuda::Address>(to),
                             reinterpret_cast<cuda::Address>(from), bytes, current_stream()));
  }

 private:
  using Key = std::pair<::c10::StreamId, std::size_t>;
  struct Block {
    Key key;
    cuda::Address at;
  };
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static std::map<Key, std::vector<cuda::Address>>& all() {
    static auto* one = new std::map<Key, std::vector<cuda::Address>>;
    return *one;
  }
  static void release(void* context) {
    const std::unique_ptr<Block> block(static_cast<Block*>(context));
    const std::lock_guard lock(mutex());
    all()[block->key].push_back(block->at);
  }
};

Allocator* allocator() {
  static auto* one = new Allocator;
  return one;
}

using Options = std::optional<::c10::ScalarType>;

Tensor empty(::c10::IntArrayRef sizes, Options type, std::optional<::c10::Layout>,
             std::optional<::c10::Device>, std::optional<bool>,
             std::optional<::c10::MemoryFormat> format) {
  return ::at::detail::empty_generic(sizes, allocator(), ::c10::DispatchKeySet(kKey),
                                     ::c10::dtype_or_default(type), format);
}
Tensor empty_strided(::c10::IntArrayRef sizes, ::c10::IntArrayRef strides, Options type,
                     std::optional<::c10::Layout>, std::optional<::c10::Device>,
                     std::optional<bool>) {
  return ::at::detail::empty_strided_generic(
      sizes, strides, allocator(), ::c10::DispatchKeySet(kKey), ::c10::dtype_or_default(type));
}

cuda::Address address_of(const Tensor& tensor) {
  return reinterpret_cast<cuda::Address>(tensor.data_ptr());
}
std::size_t spanned_bytes(const Tensor& tensor) {
  std::int64_t elements = 1;
  for (std::int64_t d = 0; d < tensor.dim(); ++d)
    elements += (tensor.size(d) - 1) * tensor.stride(d);
  return static_cast<std::size_t>(elements) * tensor.element_size();
}

// A copy in memory of the host, with the same strides. The host waits for the current stream.
Tensor fetched(const Tensor& tensor) {
  Tensor host =
      ::at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(::c10::kCPU));
  const cuda::Stream stream = current_stream();
  cuda::Event done{};
  check(driver().event_create(&done, 0));
  check(driver().to_host(host.data_ptr(), address_of(tensor), spanned_bytes(tensor), stream));
  check(driver().event_record(done, stream));
  check(driver().event_wait(done));
  check(driver().event_destroy(done));
  return host;
}

Tensor copy_from(const Tensor& from, const Tensor& to, bool) {
  if (to.numel() == 0) return to;
  const bool plain = from.is_contiguous() && to.is_contiguous() && from.sizes() == to.sizes() &&
                     from.scalar_type() == to.scalar_type();
  if (plain && !from.is_cpu() && !to.is_cpu()) {
    check(driver().on_device(address_of(to), address_of(from), to.nbytes(), current_stream()));
    return to;
  }
  const Tensor values = from.is_cpu() ? from : fetched(from);
  if (to.is_cpu()) return to.copy_(values);
  const Tensor host = fetched(to).copy_(values);
  check(driver().to_device(address_of(to), host.data_ptr(), spanned_bytes(to), current_stream()));
  return to;
}

Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  if (from.sizes() != to.sizes()) {  // a result that had no size yet
    ::c10::TensorImpl* const impl = to.unsafeGetTensorImpl();
    impl->unsafe_storage().set_data_ptr_noswap(allocator()->allocate(from.nbytes()));
    impl->unsafe_storage().set_nbytes(from.nbytes());
    impl->set_sizes_contiguous(from.sizes());
  }
  return copy_from(from, to, false);
}

// Torch warns of results that have no size before they are computed.
struct Silent final : ::c10::WarningHandler {
  void process(const ::c10::Warning&) override {}
};

void on_cpu(const ::c10::OperatorHandle& op, ::torch::jit::Stack* stack) {
  Silent silent;
  const ::c10::WarningUtils::WarningHandlerGuard guard(&silent);
  ::at::native::cpu_fallback(op, stack);
}

void register_operations(::torch::Library& aten) {
  aten.impl("empty.memory_format", empty);
  aten.impl("empty_strided", empty_strided);
  aten.impl("as_strided", ::at::native::as_strided_tensorimpl);
  aten.impl("view", ::at::native::view);
  aten.impl("_copy_from", copy_from);
  aten.impl("_copy_from_and_resize", copy_from_and_resize);
}
void register_others(::torch::Library& every) {
  every.fallback(::torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
}

[[maybe_unused]] const bool registered = [] {
  ::c10::register_privateuse1_backend("emulated");
  ::at::RegisterPrivateUse1HooksInterface(new Hooks);
  ::c10::SetAllocator(kType, allocator());
  return true;
}();

}  // namespace

::torch::Device emulated_device() { return kDevice; }

OwnStream::OwnStream() : before_(current) {
  cuda::Stream stream{};
  check(driver().stream_create(&stream, 0));
  current = reinterpret_cast<::c10::StreamId>(stream);
}

// The stream itself stays: the allocator keeps memory of it.
OwnStream::~OwnStream() { current = before_; }

}  // namespace laconic::testing

// The macros take `torch` for LibTorch's.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { laconic::testing::register_operations(m); }
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { laconic::testing::register_others(m); }
