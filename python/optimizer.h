#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <span>
#include <vector>

#include "laconic/collective/mean.h"

namespace laconic::python {

// Arrays are taken as they are: of another type, strided or on another device they are refused,
// never copied, since the caller's memory is what must change.
using Floats =
    nanobind::ndarray<float, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

using Doubles =
    nanobind::ndarray<double, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

inline std::span<float> span_of(const Floats& array) { return {array.data(), array.size()}; }

// (name, spread, begin, values, optional) of each; values are the memory of `owner`, which they keep alive.
nanobind::list pieces(const std::vector<State>& states, nanobind::handle owner);

void bind_device(nanobind::module_& module);
void bind_means(nanobind::module_& module);
void bind_methods(nanobind::module_& module);
void bind_optimizer(nanobind::module_& module);
void bind_plan(nanobind::module_& module);

}  // namespace laconic::python
