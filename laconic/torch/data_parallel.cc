#include "laconic/torch/data_parallel.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

#include "laconic/core/error.h"
#include "laconic/optim/bucket_tracker.h"
#include "laconic/torch/arena.h"
#include "laconic/torch/device.h"
#include "laconic/torch/replicas.h"
#include "laconic/transport/agree.h"
#include "laconic/transport/together.h"

namespace laconic::torch {
namespace {

namespace hooks = ::torch::autograd::impl;
using ::torch::Tensor;

// The tensors of a module, as they are treated.
struct Contents {
  std::vector<NamedTensor> trained, copied;  // copied: frozen parameters and buffers
  std::vector<std::string> lines;            // to compare
};

// Group after group; fills in their `elements`.
std::vector<NamedTensor> grouped(std::vector<NamedTensor> parameters, DataParallelConfig& config) {
  if (config.groups.empty()) return parameters;
  if (!config.grouping && config.groups.size() > 1)
    fail(Code::kInvalidArgument, "{} groups and no grouping: say which parameter goes where",
         config.groups.size());
  for (Group& group : config.groups) group.elements = 0;
  std::vector<std::vector<NamedTensor>> groups(config.groups.size());
  for (NamedTensor& one : parameters) {
    const std::size_t group = config.grouping ? config.grouping(one.name, one.tensor) : 0;
    if (group >= groups.size())
      fail(Code::kInvalidArgument, "parameter {} is put into group {}, there are {}", one.name,
           group, groups.size());
    config.groups[group].elements += static_cast<std::size_t>(one.tensor.numel());
    groups[group].push_back(std::move(one));
  }
  std::vector<NamedTensor> all;
  for (auto& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

void check_copied(const char* what, const NamedTensor& one) {
  if (device_named(one.tensor.device()).empty() || one.tensor.layout() != ::torch::kStrided)
    fail(Code::kInvalidArgument,
         "{} {} is sparse or on {}, only dense ones on the CPU or on CUDA are copied", what,
         one.name, one.tensor.device().str());
}

// Where the optimizer works: where the parameters are; for those of the CPU, where it was asked to.
std::string device_for(const std::string& asked, const ::torch::Device& of_parameters) {
  const std::string here = device_named(of_parameters);
  if (of_parameters.is_cpu()) return asked;
  if (asked != "cpu" && asked != here && !(asked == "cuda" && of_parameters.is_cuda()))
    fail(Code::kInvalidArgument,
         "device = {} and parameters on {}: leave device out, it is the parameters', or move the "
         "module with .to(device)",
         asked, of_parameters.str());
  return here;
}

Contents contents_of(const ::torch::nn::Module* module, DataParallelConfig& config) {
  if (module == nullptr) fail(Code::kInvalidArgument, "there is no module");
  Contents all;
  const auto copy = [&all](const char* what, const NamedTensor& one) {
    check_copied(what, one);
    all.copied.push_back(one);
    all.lines.push_back(describe(what, one));
  };
  for (const NamedTensor& one : parameters_of(*module))
    if (one.tensor.requires_grad())
      all.trained.push_back(one);
    else
      copy("frozen parameter", one);
  for (const NamedTensor& one : buffers_of(*module)) copy("buffer", one);
  if (all.trained.empty())
    fail(Code::kInvalidArgument, "the module has no parameter that requires a gradient");
  check_parameters(all.trained);
  config.optimizer.device =
      device_for(config.optimizer.device, all.trained.front().tensor.device());
  all.trained = grouped(std::move(all.trained), config);
  for (const NamedTensor& one : all.trained) all.lines.push_back(describe("parameter", one));
  return all;
}

BucketTracker tracker_of(const std::vector<NamedRange>& parameters, const Optimizer& optimizer) {
  std::vector<NamedRange> buckets;
  for (int b = 0; b < optimizer.buckets(); ++b) buckets.push_back(optimizer.bucket(b));
  return {parameters, buckets};
}

}  // namespace

struct DataParallel::Parts {
  // Listens to one parameter.
  struct Arrival final : ::torch::autograd::PostAccumulateGradHook {
    Arrival(Parts& all, std::size_t index) : parts(all), parameter(index) {}
    void operator()(const Tensor&) override { parts.arrived(parameter); }
    Parts& parts;
    std::size_t parameter;
  };

  Parts(std::shared_ptr<::torch::nn::Module> trained, DataParallelConfig config, Transport& world)
      : module(std::move(trained)) {
    Contents contents;
    together(world, [&] {
      contents = contents_of(module.get(), config);
      return std::uint64_t{0};
    });
    agree(world, contents.lines, "build the same model on every rank");
    arena = std::make_unique<Arena>(std::move(contents.trained));
    if (on_cpu()) {
      world.broadcast(std::as_writable_bytes(arena->weights()), 0);
    } else {
      contents.copied.push_back({"weights", arena->flat_weights()});
    }
    broadcast(world, contents.copied);
    optimizer = make_optimizer(config.optimizer,
                               {.weights = arena->weights(),
                                .gradient = arena->gradient(),
                                .groups = config.groups,
                                .ranges = arena->ranges(),
                                .may_rest = true,
                                .watched = on_cpu(),  // a GPU's could only be hashed in a copy
                                .on_device = !on_cpu()},
                               world);
    tracker = std::make_unique<BucketTracker>(tracker_of(arena->ranges(), *optimizer));
    for (std::size_t i = 0; i < parameters(); ++i)
      hooks::set_post_acc_grad_hooks(parameter(i), std::make_unique<Arrival>(*this, i));
  }

  ~Parts() {
    for (std::size_t i = 0; i < parameters(); ++i)
      hooks::set_post_acc_grad_hooks(parameter(i), nullptr);
  }

  bool on_cpu() const { return arena->device().is_cpu(); }
  // What torch enqueued here until now comes before what the optimizer does with it, and what torch
  // enqueues here after step() comes after it.
  void follow() const { optimizer->follow(current_stream(arena->device())); }

  std::size_t parameters() const { return arena->parameters().size(); }
  const Tensor& parameter(std::size_t i) const { return arena->parameters()[i].tensor; }

  void begin(double rate, int backward_passes) {
    if (shows_synced)
      fail(Code::kInvalidArgument, "a step while the module shows the synced weights: end Synced");
    if (backward_passes < 1)
      fail(Code::kInvalidArgument, "{} backward passes a step: it must be at least 1",
           backward_passes);
    arena->take_home();
    follow();
    take_up_writes();
    optimizer->begin(rate);
    begun = true;
    accumulate = backward_passes;
    tracker->begin(std::vector<int>(parameters(), accumulate));
  }

  // On the CPU the optimizer looks for writes itself; of a GPU's weights torch counts them.
  void take_up_writes() {
    if (on_cpu()) return;
    writes.resize(parameters());
    std::size_t first = parameters();  // one stands for all: the optimizer takes up every weight
    for (std::size_t i = parameters(); i-- > 0;) {
      const auto now = parameter(i)._version();
      if (std::exchange(writes[i], now) != now) first = i;
    }
    if (first < parameters()) optimizer->written(first);
  }

  // Where steps begin by themselves.
  void begin_if_asked() {
    if (!begun && lr) begin(lr(), lr_accumulate);
  }

  // Backward has added to this parameter's gradient.
  void arrived(std::size_t i) {
    begin_if_asked();
    if (begun && tracker->released(i))
      fail(Code::kInvalidArgument,
           "parameter {} got {} gradients in a step of {} backward pass(es): call step() first, or "
           "say how many there are with begin(lr, accumulate)",
           arena->parameters()[i].name, accumulate + 1, accumulate);
    arena->take_gradient(i);
    if (!begun || !tracker->arrived(i)) return;
    scale(i);
    follow();  // backward may run on a stream, and on a thread, of its own
    for (const int bucket : tracker->release(i)) optimizer->ready(bucket);
  }

  // The sum over backward passes becomes their mean.
  void scale(std::size_t i) const {
    const ::torch::NoGradGuard no_grad;
    if (accumulate > 1) Tensor(arena->gradient(i)).mul_(1.0F / static_cast<float>(accumulate));
  }

  void step() {
    begin_if_asked();
    if (!begun)
      fail(Code::kInvalidArgument,
           "step() without begin(): call begin(lr) before the backward pass");
    for (const std::size_t i : tracker->missing()) {
      const bool absent = tracker->arrivals()[i] == 0 && !arena->has_gradient(i);
      arena->take_gradient(i);
      absent ? optimizer->absent(i) : scale(i);
    }
    begun = false;
    follow();
    optimizer->step();
    zero_gradient();
  }

  void zero_gradient() const {
    const ::torch::NoGradGuard no_grad;
    Tensor(arena->flat_gradient()).zero_();
    for (std::size_t i = 0; i < parameters(); ++i) arena->attach_gradient(i);
  }

  void refuse_inside_a_step(const char* what) const {
    if (begun) fail(Code::kInvalidArgument, "{} inside a step: call step() first", what);
  }

  const std::shared_ptr<::torch::nn::Module> module;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<Optimizer> optimizer;  // after the arena: it ends first
  std::unique_ptr<BucketTracker> tracker;

  std::function<double()> lr;  // where steps begin by themselves
  int lr_accumulate = 1;

  bool begun = false, shows_synced = false;
  int accumulate = 1;
  std::vector<std::int64_t> writes;  // to each parameter, as of the last begin()
};

DataParallel::DataParallel(std::shared_ptr<::torch::nn::Module> module, DataParallelConfig config,
                           Transport& transport)
    : parts_(std::make_unique<Parts>(std::move(module), std::move(config), transport)) {}
DataParallel::~DataParallel() = default;

void DataParallel::begin(double lr, int accumulate) { parts_->begin(lr, accumulate); }

void DataParallel::begin_with(std::function<double()> lr, int accumulate) {
  parts_->lr = std::move(lr);
  parts_->lr_accumulate = accumulate;
}

void DataParallel::step() { parts_->step(); }

void DataParallel::zero_grad() {
  if (parts_->begun && parts_->tracker->started())
    fail(Code::kInvalidArgument,
         "zero_grad() while gradients are being exchanged: call step(), which zeroes them");
  parts_->zero_gradient();
}

void DataParallel::average_buffers() {
  parts_->refuse_inside_a_step("average_buffers()");
  average(parts_->optimizer->transport(), buffers_of(*parts_->module));
}

Optimizer& DataParallel::optimizer() noexcept { return *parts_->optimizer; }
::torch::nn::Module& DataParallel::module() noexcept { return *parts_->module; }
const std::vector<NamedRange>& DataParallel::ranges() const noexcept {
  return parts_->arena->ranges();
}

DataParallel::Synced::Synced(DataParallel& parallel) : parallel_(parallel) {
  Parts& parts = *parallel.parts_;
  parts.refuse_inside_a_step("Synced");
  if (parts.shows_synced)
    fail(Code::kInvalidArgument, "the module shows the synced weights already: one Synced a time");
  const ::torch::NoGradGuard no_grad;
  Tensor weights = parts.arena->flat_weights();
  const Tensor synced = ::torch::empty_like(weights, ::torch::kCPU);
  parts.follow();
  parts.optimizer->synced_weights(
      {synced.data_ptr<float>(), static_cast<std::size_t>(synced.numel())});
  own_ = weights.clone();
  weights.copy_(synced);
  parts.shows_synced = true;
}

DataParallel::Synced::~Synced() {
  const ::torch::NoGradGuard no_grad;
  Tensor(parallel_.parts_->arena->flat_weights()).copy_(own_);
  parallel_.parts_->shows_synced = false;
}

}  // namespace laconic::torch
