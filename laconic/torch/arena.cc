#include "laconic/torch/arena.h"

#include <torch/csrc/autograd/variable.h>

#include <map>
#include <memory>
#include <unordered_set>

#include "laconic/core/buffer.h"
#include "laconic/core/error.h"
#include "laconic/torch/device.h"

namespace laconic::torch {
namespace {

using ::torch::Tensor;

template <typename Dict>
std::vector<NamedTensor> each_once(const Dict& tensors) {
  std::vector<NamedTensor> all;
  std::unordered_set<const void*> seen;
  for (const auto& item : tensors)
    if (item.value().defined() && seen.insert(item.value().unsafeGetTensorImpl()).second)
      all.push_back({item.key(), item.value()});
  return all;
}

void check_parameter(const std::string& name, const Tensor& p) {
  if (p.scalar_type() != ::torch::kFloat32)
    fail(Code::kInvalidArgument, "parameter {} is {}, only float32 is trained: use .to(kFloat32)",
         name, ::c10::toString(p.scalar_type()));
  if (device_named(p.device()).empty())
    fail(Code::kInvalidArgument,
         "parameter {} is on {}, and there are kernels for the CPU and for CUDA: use .to(kCPU) or "
         ".to(kCUDA)",
         name, p.device().str());
  if (p.layout() != ::torch::kStrided || !p.is_contiguous())
    fail(Code::kInvalidArgument,
         "parameter {} is sparse or has strides, only dense memory row after row is supported: "
         "use .contiguous()",
         name);
  if (!p.is_leaf())
    fail(Code::kInvalidArgument, "parameter {} is computed from others: register a leaf tensor",
         name);
  if (::torch::autograd::impl::post_acc_grad_hooks(p))
    fail(Code::kInvalidArgument,
         "parameter {} has a post-accumulate-grad hook already: does another DataParallel train "
         "this module?",
         name);
}

// 0 throughout. That of the CPU is the library's own: aligned, in huge pages where it is large.
Tensor flat_memory(std::size_t elements, const ::torch::Device& device) {
  const auto count = static_cast<std::int64_t>(elements);
  if (!device.is_cpu())
    return ::torch::zeros({count}, ::torch::dtype(::torch::kFloat32).device(device));
  const auto memory = std::make_shared<Buffer<float>>(elements);
  return ::torch::from_blob(
      memory->data(), {count}, [memory](void*) {}, ::torch::kFloat32);
}

}  // namespace

std::vector<NamedTensor> parameters_of(const ::torch::nn::Module& module) {
  return each_once(module.named_parameters());
}

std::vector<NamedTensor> buffers_of(const ::torch::nn::Module& module) {
  return each_once(module.named_buffers());
}

void check_parameters(std::span<const NamedTensor> parameters) {
  std::map<const char*, const NamedTensor*> by_address;
  for (const NamedTensor& one : parameters) {
    check_parameter(one.name, one.tensor);
    if (one.tensor.device() != parameters.front().tensor.device())
      fail(Code::kInvalidArgument,
           "parameter {} is on {} and {} on {}: one DataParallel trains parameters of one device "
           "(a process per GPU); use module.to(device)",
           parameters.front().name, parameters.front().tensor.device().str(), one.name,
           one.tensor.device().str());
    if (one.tensor.numel() == 0) continue;
    const char* begin = static_cast<const char*>(one.tensor.data_ptr());
    const auto next = by_address.lower_bound(begin);
    const NamedTensor* other = nullptr;
    if (next != by_address.end() && next->first < begin + one.tensor.nbytes()) other = next->second;
    if (next != by_address.begin()) {
      const auto& [address, before] = *std::prev(next);
      if (address + before->tensor.nbytes() > begin) other = before;
    }
    if (other != nullptr)
      fail(Code::kInvalidArgument,
           "parameters {} and {} are different tensors in the same memory: to share one, register "
           "the same tensor twice",
           other->name, one.name);
    by_address.emplace(begin, &one);
  }
}

Arena::Arena(std::vector<NamedTensor> parameters) : parameters_(std::move(parameters)) {
  std::size_t total = 0;
  for (const NamedTensor& one : parameters_) {
    ranges_.push_back({one.name, total, static_cast<std::size_t>(one.tensor.numel())});
    total += ranges_.back().count;
  }
  const ::torch::NoGradGuard no_grad;
  const ::torch::Device device = parameters_.front().tensor.device();
  weights_ = flat_memory(total, device);
  gradient_ = flat_memory(total, device);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Tensor weights = view(weights_, i);
    weights.copy_(parameters_[i].tensor);
    parameters_[i].tensor.set_data(weights);
    gradients_.push_back(view(gradient_, i));
    attach_gradient(i);
  }
}

// With counters of changes of its own: no view of torch's.
Tensor Arena::view(const Tensor& memory, std::size_t parameter) const {
  return ::at::for_blob(memory.data_ptr<float>() + ranges_[parameter].begin,
                        parameters_[parameter].tensor.sizes())
      .deleter([memory](void*) {})
      .options(memory.options())
      .target_device(memory.device())
      .make_tensor();
}

bool Arena::attached(std::size_t parameter) const {
  const Tensor& gradient = parameters_[parameter].tensor.grad();
  return gradient.defined() &&
         gradient.unsafeGetTensorImpl() == gradients_[parameter].unsafeGetTensorImpl();
}

void Arena::take_home() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto& [name, tensor] = parameters_[i];
    const float* home = weights().data() + ranges_[i].begin;
    if (tensor.numel() == 0 || tensor.data_ptr() == home) continue;
    if (tensor.scalar_type() != ::torch::kFloat32 || tensor.device() != device() ||
        tensor.sizes() != gradients_[i].sizes())
      fail(Code::kInvalidArgument,
           "parameter {} was replaced: it is {} of {} elements on {} now, and float32 of {} on {} "
           "is trained; convert the module before it is given to DataParallel",
           name, ::c10::toString(tensor.scalar_type()), tensor.numel(), tensor.device().str(),
           gradients_[i].numel(), device().str());
    const ::torch::NoGradGuard no_grad;
    Tensor weights = view(weights_, i);
    weights.copy_(tensor);
    parameters_[i].tensor.set_data(weights);
    ::torch::autograd::impl::bump_version(
        parameters_[i].tensor);  // a write, for whoever counts them
  }
}

bool Arena::has_gradient(std::size_t parameter) const {
  if (!attached(parameter)) return parameters_[parameter].tensor.grad().defined();
  return gradients_[parameter].any().item<bool>();
}

void Arena::take_gradient(std::size_t parameter) {
  if (attached(parameter)) return;
  const ::torch::NoGradGuard no_grad;
  const Tensor elsewhere = parameters_[parameter].tensor.grad();
  Tensor& here = gradients_[parameter];
  if (elsewhere.defined() && elsewhere.layout() == ::torch::kStrided) {
    here.copy_(elsewhere);
  } else {
    here.zero_();
    if (elsewhere.defined()) here.add_(elsewhere);
  }
  attach_gradient(parameter);
}

void Arena::attach_gradient(std::size_t parameter) {
  if (!attached(parameter)) parameters_[parameter].tensor.mutable_grad() = gradients_[parameter];
}

}  // namespace laconic::torch
