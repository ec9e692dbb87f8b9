#include "laconic/torch/optim.h"

#include "laconic/core/error.h"
#include "laconic/torch/arena.h"

namespace laconic::torch {
namespace {

class Options : public ::torch::optim::OptimizerOptions {
 public:
  explicit Options(double lr) : lr_(lr) {}
  std::unique_ptr<OptimizerOptions> clone() const override {
    return std::make_unique<Options>(*this);
  }
  double get_lr() const override { return lr_; }
  void set_lr(double lr) override { lr_ = lr; }

 private:
  double lr_;
};

std::vector<::torch::Tensor> trained(const ::torch::nn::Module& module) {
  std::vector<::torch::Tensor> all;
  for (const NamedTensor& one : parameters_of(module))
    if (one.tensor.requires_grad()) all.push_back(one.tensor);
  return all;
}

[[noreturn]] void refuse_archive() {
  fail(Code::kUnavailable,
       "the state of an optimizer over several ranks does not fit a torch archive: use the "
       "functions of laconic/checkpoint/checkpoint.h with DataParallel::optimizer()");
}

}  // namespace

Optim::Optim(DataParallel& parallel, double lr, int accumulate)
    : Optimizer(trained(parallel.module()), std::make_unique<Options>(lr)), parallel_(parallel) {
  parallel_.begin_with([this] { return param_groups().front().options().get_lr(); }, accumulate);
}

Optim::~Optim() { parallel_.begin_with(nullptr); }

::torch::Tensor Optim::step(LossClosure closure) {
  ::torch::Tensor loss;
  if (closure) {
    const ::torch::AutoGradMode with_gradient(true);
    loss = closure();
  }
  parallel_.step();
  return loss;
}

void Optim::zero_grad() { parallel_.zero_grad(); }

void Optim::save(::torch::serialize::OutputArchive&) const { refuse_archive(); }
void Optim::load(::torch::serialize::InputArchive&) { refuse_archive(); }

}  // namespace laconic::torch
