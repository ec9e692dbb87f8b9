#include "app/models/resnet.h"

#include <fmt/format.h>

#include <cmath>

namespace laconic::app::models {
namespace {

class Convolution : public torch::nn::Module {
 public:
  Convolution(Draw& draw, std::int64_t in, std::int64_t out, std::int64_t kernel,
              std::int64_t stride)
      : stride_(stride), padding_(kernel / 2) {
    const double deviation = std::sqrt(2.0 / double(out * kernel * kernel));  // Kaiming, fan-out
    weight_ = register_parameter("weight", draw.normal({out, in, kernel, kernel}, deviation));
  }
  torch::Tensor operator()(const torch::Tensor& x) const {
    return at::conv2d(x, weight_, {}, stride_, padding_);
  }

 private:
  std::int64_t stride_, padding_;
  torch::Tensor weight_;
};

// A convolution and its batch norm.
struct Normed {
  Normed(torch::nn::Module& root, const std::string& convolution_path, const std::string& norm_path,
         Draw& draw, std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride)
      : convolution(place<Convolution>(root, convolution_path, draw, in, out, kernel, stride)),
        norm(place<torch::nn::BatchNorm2dImpl>(root, norm_path, out)) {}
  torch::Tensor operator()(const torch::Tensor& x) const {
    return norm->forward((*convolution)(x));
  }

  std::shared_ptr<Convolution> convolution;
  std::shared_ptr<torch::nn::BatchNorm2dImpl> norm;
};

struct Kernel {
  std::int64_t size, out;
  bool strides;
};

struct Block {
  Block(torch::nn::Module& root, const std::string& path, Draw& draw, std::int64_t in,
        const std::vector<Kernel>& kernels, std::int64_t stride, bool projected)
      : stride(stride), added(kernels.back().out - in) {
    std::int64_t from = in;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const auto [size, out, strides] = kernels[i];
      main.emplace_back(root, fmt::format("{}.conv{}", path, i + 1),
                        fmt::format("{}.bn{}", path, i + 1), draw, from, out, size,
                        strides ? stride : 1);
      from = out;
    }
    if (projected && (stride != 1 || added != 0))
      projection.emplace(root, path + ".downsample.0", path + ".downsample.1", draw, in, from, 1,
                         stride);
  }

  torch::Tensor operator()(const torch::Tensor& x) const {
    torch::Tensor y = x;
    for (std::size_t i = 0; i < main.size(); ++i) {
      if (i > 0) y.relu_();
      y = main[i](y);
    }
    return y.add_(shortcut(x)).relu_();
  }

  torch::Tensor shortcut(const torch::Tensor& x) const {
    if (projection) return (*projection)(x);
    if (stride == 1 && added == 0) return x;
    const torch::Tensor fewer = x.slice(2, 0, {}, stride).slice(3, 0, {}, stride);
    return at::constant_pad_nd(fewer, {0, 0, 0, 0, 0, added});
  }

  std::int64_t stride, added;
  std::vector<Normed> main;
  std::optional<Normed> projection;
};

struct Plan {
  bool small;
  std::vector<std::int64_t> blocks;  // of each stage
  bool bottlenecks;
};

class ResNet : public Network {
 public:
  ResNet(const Plan& plan, const ModelConfig& config, const data::DataShape& shape, Draw& draw)
      : pooled_(!plan.small),
        stem_(*this, "conv1", "bn1", draw, shape.channels, config.width, plan.small ? 3 : 7,
              plan.small ? 1 : 2) {
    std::int64_t in = config.width;
    for (std::size_t stage = 0; stage < plan.blocks.size(); ++stage) {
      const std::int64_t width = config.width << stage;
      const std::vector<Kernel> kernels =
          plan.bottlenecks
              ? std::vector<Kernel>{{1, width, false}, {3, width, true}, {1, 4 * width, false}}
              : std::vector<Kernel>{{3, width, true}, {3, width, false}};
      const std::int64_t count = config.depth > 0 ? config.depth : plan.blocks[stage];
      for (std::int64_t i = 0; i < count; ++i) {
        blocks_.emplace_back(*this, fmt::format("layer{}.{}", stage + 1, i), draw, in, kernels,
                             stage > 0 && i == 0 ? 2 : 1, !plan.small);
        in = kernels.back().out;
      }
    }
    classifier_ = place<Linear>(*this, "fc", draw, in, shape.classes, 1 / std::sqrt(double(in)));
  }

  torch::Tensor forward(const torch::Tensor& inputs) override {
    // The channels of a pixel side by side are faster for all that follows. The first time does
    // nothing for images of one channel, the second nothing for all others.
    constexpr auto kLast = at::MemoryFormat::ChannelsLast;
    torch::Tensor x = stem_(inputs.contiguous(kLast)).relu_().contiguous(kLast);
    if (pooled_) x = at::max_pool2d(x, 3, 2, 1);
    for (const Block& block : blocks_) x = block(x);
    return (*classifier_)(x.mean({2, 3}));
  }

 private:
  bool pooled_;
  Normed stem_;
  std::vector<Block> blocks_;
  std::shared_ptr<Linear> classifier_;
};

}  // namespace

std::shared_ptr<Network> make_small_resnet(const ModelConfig& config, const data::DataShape& shape,
                                           Draw& draw) {
  return std::make_shared<ResNet>(Plan{true, {3, 3, 3}, false}, config, shape, draw);
}

std::shared_ptr<Network> make_basic_resnet(const ModelConfig& config, const data::DataShape& shape,
                                           Draw& draw) {
  return std::make_shared<ResNet>(Plan{false, {2, 2, 2, 2}, false}, config, shape, draw);
}

std::shared_ptr<Network> make_bottleneck_resnet(const ModelConfig& config,
                                                const data::DataShape& shape, Draw& draw) {
  return std::make_shared<ResNet>(Plan{false, {3, 4, 6, 3}, true}, config, shape, draw);
}

}  // namespace laconic::app::models
