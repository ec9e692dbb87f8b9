#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "laconic/collective/mean.h"
#include "laconic/core/error.h"
#include "laconic/transport/metered.h"
#include "python/optimizer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace laconic::python {
namespace {

MeanConfig config_of(const std::string& kind, std::size_t elements, std::size_t scale_block,
                     const std::string& scale_norm, bool bf16, std::uint32_t seed,
                     std::uint32_t bucket) {
  MeanConfig config{
      .elements = elements, .scale_block = scale_block, .seed = seed, .bucket = bucket};
  if (scale_norm != "l1" && scale_norm != "l2")
    fail(Code::kInvalidArgument, "scale_norm is `{}`: l1 or l2", scale_norm);
  config.scale_norm = scale_norm == "l1" ? kernels::Norm::kL1 : kernels::Norm::kL2;
  const std::pair<const char*, std::pair<const char*, RandomForm>> kinds[] = {
      {"dense", {bf16 ? "bf16" : "fp32", RandomForm::kTwoRound}},
      {"one-bit", {"sign", RandomForm::kTwoRound}},
      {"two-round", {"random-sign", RandomForm::kTwoRound}},
      {"single-round", {"random-sign", RandomForm::kSingleRound}},
      {"count", {"random-sign", RandomForm::kCount}}};
  for (const auto& [text, chosen] : kinds)
    if (kind == text) {
      config.codec = chosen.first;
      config.form = chosen.second;
      return config;
    }
  fail(Code::kInvalidArgument, "no mean `{}`: dense, one-bit, two-round, single-round or count",
       kind);
}

// A mean of its own: the whole chain below an optimizer, for comm hooks and measurements.
class OneMean {
 public:
  OneMean(const MeanConfig& config, Transport& transport, int ranks_per_node, int threads)
      : metered_(make_metered(transport, traffic_, std::max(0, ranks_per_node))),
        nodes_(make_nodes(*metered_, ranks_per_node)),
        device_(make_host_device(threads)),
        mean_(make_mean(config, nodes_, *device_)) {}
  // The lock is taken again to let go of the groups that nodes were split into.
  ~OneMean() {
    nb::gil_scoped_release unlocked;
    mean_.reset();
    nodes_ = {};
    metered_.reset();
  }
  OneMean(const OneMean&) = delete;
  OneMean& operator=(const OneMean&) = delete;

  void reduce(Floats values) { mean_->reduce(span_of(values)); }
  std::vector<State> state() { return mean_->state(); }
  std::string describe() const { return mean_->describe(); }
  std::uint64_t bytes() const { return traffic_.total().bytes(); }

 private:
  Traffic traffic_;
  std::unique_ptr<Transport> metered_;
  Nodes nodes_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Mean> mean_;
};

}  // namespace

void bind_means(nb::module_& module) {
  using Release = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<OneMean>(module, "Mean")
      .def(
          "__init__",
          [](OneMean* self, const std::string& kind, std::size_t elements, Transport& transport,
             std::size_t scale_block, const std::string& scale_norm, bool bf16, std::uint32_t seed,
             std::uint32_t bucket, int ranks_per_node, int threads) {
            const MeanConfig config =
                config_of(kind, elements, scale_block, scale_norm, bf16, seed, bucket);
            nb::gil_scoped_release unlocked;
            new (self) OneMean(config, transport, ranks_per_node, threads);
          },
          "kind"_a, "elements"_a, "transport"_a, nb::kw_only(), "scale_block"_a = 4096,
          "scale_norm"_a = "l2", "bf16"_a = false, "seed"_a = 0, "bucket"_a = 0,
          "ranks_per_node"_a = 0, "threads"_a = 1, nb::keep_alive<1, 4>())
      .def("reduce", &OneMean::reduce, nb::arg("values").noconvert(), Release())
      .def("state", [](nb::object self) { return pieces(nb::cast<OneMean&>(self).state(), self); })
      .def("describe", &OneMean::describe)
      .def_prop_ro("bytes_sent", &OneMean::bytes);
}

}  // namespace laconic::python
