#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "laconic/core/error.h"
#include "laconic/optim/spelling.h"
#include "laconic/plan/cost.h"
#include "laconic/plan/recipes.h"
#include "python/optimizer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace laconic::python {
namespace {

// Seconds and bytes a second.
struct Scene {
  plan::Cluster cluster;
  plan::Work work;
  plan::Speeds speeds;
};

void set_speed(Scene& scene, const std::string& name, double seconds) {
  for (const auto& [field, value] : scene.speeds.fields())
    if (name == field) {
      *value = seconds;
      return;
    }
  fail(Code::kInvalidArgument, "no speed `{}`: take those of `laconic plan --json`", name);
}

template <typename Value, std::size_t n>
Value chosen(const char* what, const std::string& text,
             const std::pair<const char*, Value> (&values)[n]) {
  std::string names;
  for (const auto& [name, value] : values) {
    if (text == name) return value;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  fail(Code::kInvalidArgument, "no {} `{}`: {}", what, text, names);
}

using Options = std::map<std::string, std::string>;

// A method with options of its own, before the length of the run is known.
struct Planned {
  OptimizerConfig config;
  plan::MethodStep step;  // but for what depends on the options
};

Planned planned(const std::string& optimizer, const std::string& exchange, const std::string& form,
                bool bf16, const std::string& dense_codec, const Options& options) {
  using plan::Topology;
  const std::pair<const char*, Topology> topologies[] = {
      {"all-reduce", Topology::kAllReduce}, {"flat", Topology::kFlat}, {"nodes", Topology::kNodes}};
  const std::pair<const char*, RandomForm> forms[] = {{"two-round", RandomForm::kTwoRound},
                                                      {"single-round", RandomForm::kSingleRound},
                                                      {"count", RandomForm::kCount}};
  const Method& method = method_named(optimizer);
  OptimizerConfig config{.algorithm = method.name};
  for (const auto& [name, value] : options) set(config, name, value);
  if (!dense_codec.empty()) {
    if (!method.dense_with)
      fail(Code::kInvalidArgument, "dense_codec = {}: {} has no such option; leave it out",
           dense_codec, method.name);
    OptimizerConfig unused{.algorithm = method.name};
    set(unused, "dense_codec", dense_codec);
  }
  return {.config = config,
          .step = {.algorithm = method.name,
                   .topology = chosen("exchange", exchange, topologies),
                   .bf16 = bf16,
                   .form = chosen("form", form, forms),
                   .dense_codec = dense_codec}};
}

plan::MethodStep step_of(const Planned& method, std::int64_t steps) {
  OptimizerConfig config = method.config;
  config.total_steps = steps;
  plan::MethodStep step = plan::method_of(validated(config));
  step.topology = method.step.topology;
  step.bf16 = step.bf16 || method.step.bf16;
  step.form = method.step.form;
  if (!method.step.dense_codec.empty()) step.dense_codec = method.step.dense_codec;
  return step;
}

Rounds rounds_of(const Planned& method, std::int64_t steps, const std::string& recipe) {
  return recipe.empty() ? plan::rounds_of(method.config, steps)
                        : plan::recipe(recipe).rounds(method.config.algorithm);
}

nb::dict dict_of(const plan::Forecast& forecast) {
  nb::dict out;
  out["seconds"] = forecast.seconds;
  out["exposed_seconds"] = forecast.exposed;
  out["coding_seconds"] = forecast.coding;
  out["bytes_inside_node"] = forecast.bytes_inside;
  out["bytes_between_nodes"] = forecast.bytes_between;
  out["beside_seconds"] = forecast.beside;
  return out;
}

nb::dict predict(const Scene& scene, const plan::MethodStep& method, const Rounds& rounds) {
  const plan::Average all = plan::predict(scene.cluster, scene.work, scene.speeds, method, rounds);
  nb::dict out = dict_of(all.mean);
  out["memory_bytes"] = plan::memory_bytes(scene.cluster, scene.work, method);
  out["dense_share"] = all.dense_share;
  out["coded_share"] = all.coded_share;
  out["silent_share"] = all.silent_share;
  nb::dict steps;
  if (all.dense_share > 0) steps["dense"] = dict_of(all.dense);
  if (all.coded_share > 0) steps["coded"] = dict_of(all.coded);
  if (all.silent_share > 0) steps["silent"] = dict_of(all.silent);
  out["steps"] = steps;
  return out;
}

double break_even(const Scene& scene, const plan::MethodStep& method, const Rounds& rounds,
                  bool bf16) {
  const Rounds dense{rounds.steps, rounds.steps, 0};
  const plan::MethodStep all_reduce{.topology = plan::Topology::kAllReduce, .bf16 = bf16};
  const auto seconds = [&](const plan::MethodStep& of, const Rounds& in, const plan::Cluster& at) {
    return plan::predict(at, scene.work, scene.speeds, of, in).mean.seconds;
  };
  return plan::break_even(
      scene.cluster, [&](const plan::Cluster& at) { return seconds(method, rounds, at); },
      [&](const plan::Cluster& at) { return seconds(all_reduce, dense, at); });
}

nb::dict dict_of(const Rounds& rounds) {
  nb::dict out;
  out["dense_rounds"] = rounds.dense;
  out["coded_rounds"] = rounds.coded;
  out["rounds"] = rounds.rounds();
  out["bits_per_parameter_per_step"] = rounds.bits_per_parameter_per_step(16, 1);
  return out;
}

nb::dict recipe(const std::string& name) {
  const plan::Recipe& of = plan::recipe(name);
  nb::dict out;
  out["recipe"] = of.name;
  out["steps"] = of.steps;
  out[spelled(plan::kEveryStep).c_str()] = dict_of(of.every_step());
  out[spelled(plan::kLocalSteps).c_str()] = dict_of(of.local_steps());
  out["volume_reduction"] = of.volume_reduction(16, 1);
  out["round_reduction"] = of.round_reduction();
  return out;
}

}  // namespace

void bind_plan(nb::module_& module) {
  nb::class_<Scene>(module, "Scene")
      .def(nb::init<>())
      .def_prop_rw(
          "nodes", [](const Scene& s) { return s.cluster.nodes; },
          [](Scene& s, int nodes) { s.cluster.nodes = nodes; })
      .def_prop_rw(
          "per_node", [](const Scene& s) { return s.cluster.per_node; },
          [](Scene& s, int per_node) { s.cluster.per_node = per_node; })
      .def("set_inter",
           [](Scene& s, double rate, double latency) {
             s.cluster.inter = {rate, latency};
           })
      .def("set_inter_of",
           [](Scene& s, const std::vector<std::pair<double, double>>& links) {
             s.cluster.inter_of.clear();
             for (const auto& [rate, latency] : links)
               s.cluster.inter_of.push_back({rate, latency});
           })
      .def("set_stragglers",
           [](Scene& s, double spread, double slowest) {
             s.work.spread = spread;
             s.work.slowest = slowest;
           })
      .def("set_intra",
           [](Scene& s, double rate, double latency) {
             s.cluster.intra = {rate, latency};
           })
      .def("set_work",
           [](Scene& s, std::size_t parameters, double seconds, double backward, std::size_t bucket,
              int slices, bool shares_cores) {
             s.work = {.parameters = parameters,
                       .step_seconds = seconds,
                       .backward_share = backward,
                       .bucket_elements = bucket,
                       .useful_slices = slices,
                       .shares_cores = shares_cores};
           })
      .def("shard", [](Scene& s, int shards) { plan::shard(s.cluster, s.work, shards); })
      .def("set_ready",
           [](Scene& s, std::vector<double> ready) { s.work.ready = std::move(ready); })
      .def("set_speed", &set_speed)
      .def("code_faster", [](Scene& s, double times) { s.speeds = s.speeds.faster(times); });
  nb::class_<Planned>(module, "Method")
      .def("__init__", [](Planned* self, const std::string& optimizer, const std::string& exchange,
                          const std::string& form, bool bf16, const std::string& dense_codec,
                          const Options& options) {
        new (self) Planned(planned(optimizer, exchange, form, bf16, dense_codec, options));
      });
  module.def("plan_predict", [](const Scene& scene, const Planned& method, std::int64_t steps,
                                const std::string& of_recipe) {
    const Rounds rounds = rounds_of(method, steps, of_recipe);
    return predict(scene, step_of(method, rounds.steps), rounds);
  });
  module.def("plan_break_even", [](const Scene& scene, const Planned& method, std::int64_t steps,
                                   const std::string& of_recipe, bool bf16) {
    const Rounds rounds = rounds_of(method, steps, of_recipe);
    return break_even(scene, step_of(method, rounds.steps), rounds, bf16);
  });
  module.def("plan_recipe", &recipe);
}

}  // namespace laconic::python
