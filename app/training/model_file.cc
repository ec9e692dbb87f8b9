#include "app/training/model_file.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include "laconic/checkpoint/safetensors.h"
#include "laconic/core/error.h"

namespace laconic::app::training {
namespace {

using Tensors = std::vector<std::pair<std::string, ::torch::Tensor>>;

// Counters among the buffers are left out: nothing that is computed depends on them.
Tensors tensors_of(const ::torch::nn::Module& model) {
  Tensors all;
  for (const auto& one : model.named_parameters()) all.emplace_back(one.key(), one.value());
  for (const auto& one : model.named_buffers())
    if (one.value().is_floating_point()) all.emplace_back(one.key(), one.value());
  return all;
}

std::vector<std::uint64_t> shape_of(const ::torch::Tensor& tensor) {
  return {tensor.sizes().begin(), tensor.sizes().end()};
}

}  // namespace

void write_model(const std::filesystem::path& path, const ::torch::nn::Module& model,
                 const std::map<std::string, std::string>& metadata) {
  Tensors kept;
  std::vector<Tensor> files;
  for (const auto& [name, tensor] : tensors_of(model)) {
    kept.emplace_back(name, tensor.detach().to(::torch::kCPU, ::torch::kFloat32).contiguous());
    const ::torch::Tensor& flat = kept.back().second;
    files.emplace_back(
        name,
        std::span<const float>(flat.data_ptr<float>(), static_cast<std::size_t>(flat.numel())),
        shape_of(tensor));
  }
  write_safetensors(path, files, metadata);
}

std::size_t read_model(const std::filesystem::path& path, ::torch::nn::Module& model, Names names) {
  const SafetensorsFile file(path);
  file.verify();
  const ::torch::NoGradGuard no_grad;
  std::size_t found = 0;
  for (const auto& [name, tensor] : tensors_of(model)) {
    const auto* entry = file.find(name);
    if (entry == nullptr) {
      if (names == Names::kShared) continue;
      fail(Code::kInvalidArgument, "{} has no tensor {}, which this model has", path.string(),
           name);
    }
    if (entry->shape != shape_of(tensor))
      fail(Code::kInvalidArgument, "{}: {} has the shape [{}], this model's has [{}]",
           path.string(), name, fmt::join(entry->shape, ", "), fmt::join(shape_of(tensor), ", "));
    std::vector<float> values(entry->elements);
    file.read(name, 0, std::span<float>(values));
    tensor.copy_(::torch::from_blob(values.data(), tensor.sizes(), ::torch::kFloat32));
    ++found;
  }
  if (found == 0)
    fail(Code::kInvalidArgument, "{} has no tensor that this model has", path.string());
  return found;
}

}  // namespace laconic::app::training
