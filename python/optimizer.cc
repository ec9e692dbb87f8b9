#include "python/optimizer.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <set>

#include "laconic/checkpoint/checkpoint.h"
#include "laconic/core/error.h"
#include "laconic/optim/bucket_tracker.h"
#include "laconic/optim/method.h"
#include "laconic/optim/optimizer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace laconic::python {
namespace {

using Options = std::map<std::string, std::string>;
// Name, elements, compress, holder.
using GroupTuple = std::tuple<std::string, std::size_t, bool, int>;
using RangeTuple = std::tuple<std::string, std::size_t, std::size_t>;  // name, begin, count

// An optimizer and the memory that it works on.
class Handle {
 public:
  Handle(const Options& options, Floats weights, Floats gradient,
         const std::vector<GroupTuple>& groups, const std::vector<RangeTuple>& ranges,
         bool deferred, bool watched, Transport& transport, Transport* shards)
      : weights_(std::move(weights)), gradient_(std::move(gradient)) {
    make(options,
         {.weights = span_of(weights_),
          .gradient = span_of(gradient_),
          .groups = {},
          .ranges = {},
          .watched = watched,
          .shards = shards},
         groups, ranges, deferred, transport);
  }
  // Addresses of `elements` floats each in memory of the options' device, which the caller keeps.
  Handle(const Options& options, std::uintptr_t weights, std::uintptr_t gradient,
         std::size_t elements, const std::vector<GroupTuple>& groups,
         const std::vector<RangeTuple>& ranges, bool deferred, bool watched, Transport& transport,
         Transport* shards) {
    make(options,
         {.weights = {reinterpret_cast<float*>(weights), elements},
          .gradient = {reinterpret_cast<float*>(gradient), elements},
          .groups = {},
          .ranges = {},
          .watched = watched,
          .on_device = true,
          .shards = shards},
         groups, ranges, deferred, transport);
  }
  // Its thread may be waiting for the lock, and what it splits takes it.
  ~Handle() {
    living().erase(this);
    nb::gil_scoped_release unlocked;
    optimizer_.reset();
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  Optimizer& operator*() const noexcept { return *optimizer_; }
  Optimizer* operator->() const noexcept { return optimizer_.get(); }

  // Before the interpreter ends: a thread that asks for its lock later is ended in the middle of
  // what it does, and takes the process with it.
  static void close_all() {
    std::vector<nb::object> all;  // which keeps them alive
    for (Handle* one : living()) all.push_back(nb::find(*one));
    for (const nb::object& one : all) {
      Handle& handle = nb::cast<Handle&>(one);
      nb::gil_scoped_release unlocked;
      handle->close();
    }
  }

 private:
  void make(const Options& options, Model model, const std::vector<GroupTuple>& groups,
            const std::vector<RangeTuple>& ranges, bool deferred, Transport& transport) {
    OptimizerConfig config;
    for (const auto& [field, value] : options) set(config, field, value);
    model.may_rest = true;
    model.deferred = deferred;
    for (const auto& [name, elements, compress, holder] : groups)
      model.groups.push_back(
          {.name = name, .elements = elements, .compress = compress, .holder = holder});
    for (const auto& [name, begin, count] : ranges) model.ranges.push_back({name, begin, count});
    {
      nb::gil_scoped_release unlocked;
      optimizer_ = make_optimizer(config, model, transport);
    }
    living().insert(this);
  }

  static std::set<Handle*>& living() {
    static std::set<Handle*> all;  // under the interpreter's lock
    return all;
  }

  Floats weights_, gradient_;
  std::unique_ptr<Optimizer> optimizer_;
};

using Extents = std::vector<std::pair<std::size_t, std::size_t>>;  // begin, count
using Rates = std::vector<std::pair<double, double>>;              // lr, weight decay of each group

std::vector<GroupStep> steps_of(const Rates& groups) {
  std::vector<GroupStep> steps;
  for (const auto& [lr, weight_decay] : groups) steps.push_back({lr, weight_decay});
  return steps;
}

void begin(Handle& self, const Rates& groups) {
  const std::vector<GroupStep> steps = steps_of(groups);
  nb::gil_scoped_release unlocked;
  self->begin(steps);
}

void change_rates(Handle& self, const Rates& groups) { self->change_rates(steps_of(groups)); }

void absent(Handle& self, const std::vector<std::size_t>& ranges) {
  for (const std::size_t range : ranges) self->absent(range);
}

Finish finish_of(const std::string& name) {
  if (name == "apply") return Finish::kApply;
  if (name == "exchange again") return Finish::kExchangeAgain;
  if (name == "abandon") return Finish::kAbandon;
  fail(Code::kInvalidArgument, "a step ends with `{}`: apply, exchange again or abandon", name);
}

template <typename T>
nb::object view(std::span<T> values, nb::handle owner) {
  return nb::cast(nb::ndarray<T, nb::ndim<1>>(values.data(), {values.size()}, owner));
}

nb::list state(nb::object self) {
  Handle& handle = nb::cast<Handle&>(self);
  std::vector<State> states;
  {
    nb::gil_scoped_release unlocked;
    states = handle->state();
  }
  return pieces(states, self);
}

nb::dict stats(const Handle& self) {
  const StepStats& stats = self->stats();
  nb::list shadow;
  for (const Gauge& gauge : stats.shadow) {
    nb::dict one;
    one["name"] = gauge.name;
    one["cosine"] = gauge.cosine;
    one["sign_agreement"] = gauge.sign_agreement;
    one["relative_error"] = gauge.relative_error;
    shadow.append(one);
  }
  nb::dict all;
  all["step"] = stats.step;
  all["kind"] = stats.kind;
  all["bytes_inside"] = stats.bytes_inside;
  all["bytes_between"] = stats.bytes_between;
  all["bad_blocks"] = stats.bad_blocks;
  all["grad_norm"] = stats.grad_norm;
  all["residual_ratio"] = stats.residual_ratio;
  all["exchange"] = stats.exchange;
  all["waited_seconds"] = stats.waited_seconds;
  all["shadow"] = shadow;
  return all;
}

nb::dict totals(const Handle& self) {
  const Totals& totals = self->totals();
  nb::dict all;
  all["steps"] = totals.steps;
  all["dense"] = totals.dense;
  all["coded"] = totals.coded;
  all["silent"] = totals.silent;
  all["skipped"] = totals.skipped;
  all["rounds"] = totals.rounds();
  all["bytes_sent"] = totals.bytes;
  all["bytes_inside"] = totals.bytes_inside;
  all["bytes_between"] = totals.bytes_between;
  all["bad_blocks"] = totals.bad_blocks;
  all["waited_seconds"] = totals.waited_seconds;
  return all;
}

Extents buckets(const Handle& self) {
  Extents all;
  for (int b = 0; b < self->buckets(); ++b) {
    const NamedRange range = self->bucket(b);
    all.emplace_back(range.begin, range.count);
  }
  return all;
}

void redistribute(Handle& self, int bucket, const std::map<std::string, Floats>& whole) {
  std::map<std::string, std::vector<float>> copies;
  for (const auto& [name, values] : whole)
    copies[name].assign(values.data(), values.data() + values.size());
  self->redistribute(bucket, copies);
}

std::vector<NamedRange> ranges_of(const Extents& extents) {
  std::vector<NamedRange> all;
  for (const auto& [begin, count] : extents) all.push_back({{}, begin, count});
  return all;
}

void bind_tracker(nb::module_& module) {
  nb::class_<BucketTracker>(module, "BucketTracker")
      .def(
          "__init__",
          [](BucketTracker* self, const Extents& ranges, const Extents& buckets) {
            new (self) BucketTracker(ranges_of(ranges), ranges_of(buckets));
          },
          "ranges"_a, "buckets"_a)
      .def("begin", &BucketTracker::begin, "expected"_a, "waits_for_all"_a)
      .def("arrived", &BucketTracker::arrived, "range"_a)
      .def("release", &BucketTracker::release, "range"_a)
      .def("released", &BucketTracker::released, "range"_a)
      .def("inside", &BucketTracker::inside, "bucket"_a)
      .def_prop_ro("started", &BucketTracker::started)
      .def_prop_ro("arrivals", &BucketTracker::arrivals);
}

void bind_checkpoints(nb::module_& module) {
  using Release = nb::call_guard<nb::gil_scoped_release>;
  module.def(
      "save_checkpoint",
      [](const std::string& path, Handle& optimizer, const Options& extra, Doubles own) {
        save_checkpoint(path, *optimizer, extra, {own.data(), own.size()});
      },
      "path"_a, "optimizer"_a, "extra"_a, nb::arg("own").noconvert(), Release());
  module.def(
      "load_checkpoint",
      [](const std::string& path, Handle& optimizer, Doubles own) {
        return load_checkpoint(path, *optimizer, {own.data(), own.size()}) == Resume::kExact;
      },
      "path"_a, "optimizer"_a, nb::arg("own").noconvert(), Release());
  module.def(
      "checkpoint_extra", [](const std::string& path) { return read_manifest(path).extra; },
      "path"_a, Release());
}

}  // namespace

nb::list pieces(const std::vector<State>& states, nb::handle owner) {
  static constexpr const char* kSpreads[] = {"same", "mean", "owned", "scalar", "rank"};
  nb::list all;
  for (const State& one : states)
    all.append(nb::make_tuple(
        one.name, kSpreads[static_cast<std::size_t>(one.spread)], one.begin,
        one.scalars.empty() ? view(one.values, owner) : view(one.scalars, owner), one.optional));
  return all;
}

void bind_optimizer(nb::module_& module) {
  using Release = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<Handle>(module, "Optimizer")
      .def(nb::init<const Options&, Floats, Floats, const std::vector<GroupTuple>&,
                    const std::vector<RangeTuple>&, bool, bool, Transport&, Transport*>(),
           nb::arg("options"), nb::arg("weights").noconvert(), nb::arg("gradient").noconvert(),
           nb::arg("groups"), nb::arg("ranges"), nb::arg("deferred"), nb::arg("watched"),
           nb::arg("transport"), nb::arg("shards") = nb::none(), nb::keep_alive<1, 9>(),
           nb::keep_alive<1, 10>())
      .def(nb::init<const Options&, std::uintptr_t, std::uintptr_t, std::size_t,
                    const std::vector<GroupTuple>&, const std::vector<RangeTuple>&, bool, bool,
                    Transport&, Transport*>(),
           "options"_a, "weights"_a, "gradient"_a, "elements"_a, "groups"_a, "ranges"_a,
           "deferred"_a, "watched"_a, "transport"_a, "shards"_a.none(), nb::keep_alive<1, 10>(),
           nb::keep_alive<1, 11>())
      .def(
          "follow",
          [](Handle& self, std::uintptr_t stream) {
            self->follow(reinterpret_cast<void*>(stream));
          },
          "stream"_a)
      .def("begin", &begin, "groups"_a)
      .def("change_rates", &change_rates, "groups"_a)
      .def("absent", &absent, "ranges"_a)
      .def(
          "take_up_weights", [](Handle& self) { self->take_up_weights(); }, Release())
      .def(
          "written", [](Handle& self, std::size_t range) { self->written(range); }, Release(),
          "range"_a)
      .def_prop_ro("defers", [](const Handle& self) { return self->defers(); })
      .def_prop_ro("exchanges_next", [](const Handle& self) { return self->exchanges_next(); })
      .def_prop_ro("in_sync", [](const Handle& self) { return self->in_sync(); })
      .def(
          "ready", [](Handle& self, int bucket) { self->ready(bucket); }, "bucket"_a, Release())
      .def(
          "step", [](Handle& self, const std::string& finish) { self->step(finish_of(finish)); },
          "finish"_a = "apply", Release())
      .def(
          "synchronize", [](Handle& self) { self->synchronize(); }, Release())
      .def(
          "synced_weights",
          [](const Handle& self, Floats out) { self->synced_weights(span_of(out)); },
          nb::arg("out").noconvert(), Release())
      .def_prop_ro("buckets", &buckets)
      .def("redistribute", &redistribute, nb::arg("bucket"), nb::arg("whole").noconvert())
      .def(
          "restored", [](Handle& self) { self->restored(); }, Release())
      .def("stats", &stats)
      .def("totals", &totals)
      .def(
          "trace", [](Handle& self, bool on) { self->trace(on); }, "on"_a)
      .def("traced", [](const Handle& self) { return self->traced(); })
      .def("describe", [](const Handle& self) { return self->describe(); })
      .def("config", [](const Handle& self) { return to_text(self->config()); })
      .def("state", &state);
  module.def("close_optimizers", &Handle::close_all);
  bind_tracker(module);
  bind_checkpoints(module);
}

}  // namespace laconic::python
