#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

// What all networks are made of: parameters under the names of the published models.
namespace laconic::app::models {

// Where initial weights come from: a generator of their own, or nowhere. Memory is then not even
// touched, so that the largest network can be counted, or filled by its owner, at no cost.
class Draw {
 public:
  Draw() = default;
  explicit Draw(std::uint32_t seed);
  ::torch::Tensor normal(at::IntArrayRef sizes, double deviation);

 private:
  at::Generator generator_;
};

enum class Layout : std::uint8_t { kOutIn, kInOut };  // of a weight: most files, GPT-2's files

class Linear : public ::torch::nn::Module {
 public:
  Linear(Draw& draw, std::int64_t in, std::int64_t out, double deviation,
         Layout layout = Layout::kOutIn);
  ::torch::Tensor operator()(const ::torch::Tensor& x) const;

 private:
  Layout layout_;
  ::torch::Tensor weight_, bias_;
};

// The module below `root` at a dotted path; missing ones on the path are made.
::torch::nn::Module& at_path(::torch::nn::Module& root, std::string_view path);

// Makes a module below `root` at a dotted path, such as "encoder.layer.0.output.dense".
template <typename Layer, typename... Args>
std::shared_ptr<Layer> place(::torch::nn::Module& root, std::string_view path, Args&&... args) {
  const auto dot = path.rfind('.');
  ::torch::nn::Module& parent =
      dot == std::string_view::npos ? root : at_path(root, path.substr(0, dot));
  const auto name = dot == std::string_view::npos ? path : path.substr(dot + 1);
  return parent.register_module(std::string(name),
                                std::make_shared<Layer>(std::forward<Args>(args)...));
}

}  // namespace laconic::app::models
