#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "laconic/collective/mean.h"
#include "laconic/collective/state_mirror.h"
#include "laconic/core/error.h"
#include "laconic/device/memory.h"
#include "laconic/transport/metered.h"
#include "laconic/transport/threads.h"
#include "python/optimizer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace laconic::python {
namespace {

// An option of a mean as Python gives it. `read` throws nb::cast_error for another type or word.
struct MeanOption {
  std::string_view name, allowed;
  void (*read)(MeanConfig&, nb::handle);
};
template <typename E>
struct Choice {
  std::string_view text;
  E value;
};

template <auto kMember>
void value(MeanConfig& config, nb::handle given) {
  config.*kMember = nb::cast<std::remove_cvref_t<decltype(config.*kMember)>>(given);
}
template <auto kMember, const auto& kChoices>
void choice(MeanConfig& config, nb::handle given) {
  const auto text = nb::cast<std::string>(given);
  for (const auto& [word, value] : kChoices)
    if (word == text) {
      config.*kMember = value;
      return;
    }
  throw nb::cast_error();
}

constexpr Choice<kernels::Norm> kNorms[] = {{"l1", kernels::Norm::kL1}, {"l2", kernels::Norm::kL2}};
constexpr Choice<Feedback> kFeedbacks[] = {{"full", Feedback::kFull},
                                           {"ema", Feedback::kEma},
                                           {"decay", Feedback::kDecay},
                                           {"none", Feedback::kNone}};
constexpr Choice<RandomForm> kForms[] = {{"two-round", RandomForm::kTwoRound},
                                         {"single-round", RandomForm::kSingleRound},
                                         {"count", RandomForm::kCount}};
constexpr std::string_view kWhole = "a whole number >= 0", kNumber = "a number";

// One line per option. make_mean() checks ranges.
constexpr MeanOption kOptions[] = {
    {"scale_block", kWhole, value<&MeanConfig::scale_block>},
    {"scale_norm", "l1 or l2", choice<&MeanConfig::scale_norm, kNorms>},
    {"quant_block", kWhole, value<&MeanConfig::quant_block>},
    {"top_k", kWhole, value<&MeanConfig::top_k>},
    {"codec_down", "a codec", value<&MeanConfig::codec_down>},
    {"feedback", "full, ema, decay or none", choice<&MeanConfig::feedback, kFeedbacks>},
    {"feedback_beta", kNumber, value<&MeanConfig::feedback_beta>},
    {"feedback_reset", kWhole, value<&MeanConfig::feedback_reset>},
    {"feedback_decay", kNumber, value<&MeanConfig::feedback_decay>},
    {"form", "two-round, single-round or count", choice<&MeanConfig::form, kForms>},
    {"seed", kWhole, value<&MeanConfig::seed>},
    {"bucket", kWhole, value<&MeanConfig::bucket>},
};

// None leaves an option as it is by default.
MeanConfig config_of(const std::string& codec, std::size_t elements, const nb::kwargs& options) {
  MeanConfig config{.codec = codec, .elements = elements};
  for (const auto& [key, given] : options) {
    const auto name = nb::cast<std::string>(key);
    const auto* const known = std::ranges::find(kOptions, name, &MeanOption::name);
    if (known == std::end(kOptions)) fail(Code::kInvalidArgument, "a mean has no option {}", name);
    if (given.is_none()) continue;
    try {
      known->read(config, given);
    } catch (const nb::cast_error&) {
      fail(Code::kInvalidArgument, "{}={}: it must be {}", name, nb::repr(given).c_str(),
           known->allowed);
    }
  }
  return config;
}

// A mean of its own: the whole chain below an optimizer, for comm hooks and measurements.
class OneMean {
 public:
  OneMean(const MeanConfig& config, Transport& transport, int ranks_per_node, int threads,
          const std::string& device)
      : metered_(make_metered(transport, traffic_, std::max(0, ranks_per_node))),
        nodes_(make_nodes(*metered_, ranks_per_node)),
        device_(make_device(device, threads)),
        mean_(make_mean(config, nodes_, *device_)),
        mirror_(*device_),
        copy_(*device_, device_->is_host() ? 0 : config.elements) {}
  // The lock is taken again to let go of the groups that nodes were split into.
  ~OneMean() {
    nb::gil_scoped_release unlocked;
    mean_.reset();
    nodes_ = {};
    metered_.reset();
  }
  OneMean(const OneMean&) = delete;
  OneMean& operator=(const OneMean&) = delete;

  // Memory of the host, or through a copy on a device that has its own.
  void reduce(Floats values) {
    if (values.size() != mean_->elements()) return mean_->reduce(span_of(values));  // refused
    if (device_->is_host()) return reduce_here(values);
    device_->follow_caller(nullptr);
    device_->release();
    device_->bring(values.data(), copy_.data(), copy_.span().size_bytes());
    reduce_in_order(copy_.span());
    device_->bring_back(copy_.data(), values.data(), copy_.span().size_bytes());
  }
  // Memory of the device, in the order of the caller's stream.
  void reduce_there(std::uintptr_t address, std::size_t elements, std::uintptr_t stream) {
    device_->follow_caller(reinterpret_cast<void*>(stream));
    reduce_in_order({reinterpret_cast<float*>(address), elements});
  }
  // Values of the host; what is written there counts from restored() on.
  std::vector<State> state() { return mirror_.show(mean_->state()); }
  void restored() { mirror_.take_up(); }
  std::string describe() const { return mean_->describe(); }
  // Empty: the CPU.
  std::string device() const { return device_->is_host() ? "" : device_->describe(); }
  std::uint64_t bytes() const { return traffic_.total().bytes(); }
  std::uint64_t bad_blocks() {
    device_->settle();
    return mean_->bad_blocks();
  }

 private:
  void reduce_here(const Floats& values) {
    try {
      mean_->reduce(span_of(values));
    } catch (...) {
      new Floats(values);  // for good: another rank may still write to it
      throw;
    }
  }
  void reduce_in_order(std::span<float> values) {
    device_->mark(0);
    device_->wait(0);
    mean_->reduce(values);
    device_->release();
  }

  Traffic traffic_;
  std::unique_ptr<Transport> metered_;
  Nodes nodes_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Mean> mean_;
  StateMirror mirror_;
  Memory<float> copy_;  // of values of the host, where the device has memory of its own
};

// Those that average gradients: nothing is left out, or it is kept as a residual.
std::vector<std::string> gradient_codecs() {
  const auto alone = make_threads(1);
  std::vector<std::string> all;
  for (const std::string_view codec : mean_codecs()) {
    OneMean mean({.codec = std::string(codec), .elements = 1}, *alone.front(), kFlat, 1, "cpu");
    if (is_exact(codec) || !mean.state().empty()) all.emplace_back(codec);
  }
  return all;
}

}  // namespace

void bind_means(nb::module_& module) {
  using Release = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<OneMean>(module, "Mean")
      .def(
          "__init__",
          [](OneMean* self, const std::string& codec, std::size_t elements, Transport& transport,
             int ranks_per_node, int threads, const std::string& device,
             const nb::kwargs& options) {
            const MeanConfig config = config_of(codec, elements, options);
            nb::gil_scoped_release unlocked;
            new (self) OneMean(config, transport, ranks_per_node, threads, device);
          },
          "codec"_a, "elements"_a, "transport"_a, nb::kw_only(), "ranks_per_node"_a = 0,
          "threads"_a = 1, "device"_a = "cpu", "options"_a, nb::keep_alive<1, 4>())
      .def("reduce", &OneMean::reduce, nb::arg("values").noconvert(), Release())
      .def("reduce", &OneMean::reduce_there, "address"_a, "elements"_a, "stream"_a, Release())
      .def("restored", &OneMean::restored, Release())
      .def_prop_ro("device", &OneMean::device)
      .def("state", [](nb::object self) { return pieces(nb::cast<OneMean&>(self).state(), self); })
      .def("describe", &OneMean::describe)
      .def_prop_ro("bytes_sent", &OneMean::bytes)
      .def_prop_ro("bad_blocks", &OneMean::bad_blocks);
  module.def("gradient_codecs", &gradient_codecs);
  module.def("mean_codecs", [] {
    const auto all = mean_codecs();
    return std::vector<std::string>(all.begin(), all.end());
  });
}

}  // namespace laconic::python
