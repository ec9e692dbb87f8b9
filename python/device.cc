#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "laconic/device/self_test.h"
#include "python/optimizer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace laconic::python {
namespace {

nb::dict checked(const std::string& name) {
  DeviceReport report;
  {
    nb::gil_scoped_release unlocked;
    report = check_device(name);
  }
  nb::list kernels;
  for (const KernelCheck& one : report.checks) {
    nb::dict row;
    row["kernel"] = one.kernel;
    row["with"] = one.with;
    row["elements"] = one.elements;
    row["equal"] = one.difference.empty();
    row["difference"] = one.difference;
    kernels.append(row);
  }
  nb::dict speeds;
  for (const KernelSpeed& one : report.speeds) speeds[one.kernel.c_str()] = one.gb_per_second;
  nb::dict all;
  all["gb_per_second"] = speeds;
  all["device"] = report.name;
  all["identity"] = report.identity;
  all["kernels"] = kernels;
  all["equal"] = report.equal;
  return all;
}

}  // namespace

void bind_device(nb::module_& module) { module.def("check_device", &checked, "name"_a); }

}  // namespace laconic::python
