// The main of a suite whose ranks torchrun started: holds an interpreter, which joins the process
// group (torch_ranks.py) and calls `run` below with what opens a laconic.transport.Group.

#include <gtest/gtest.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/transport.h"
#include "tests/support/failure_printer.h"
#include "tests/support/ranks.h"

namespace nb = nanobind;

namespace {

// True when every test passed on this rank. open(milliseconds): a new group of all ranks.
bool run(std::vector<std::string> arguments, int rank, int size, nb::handle open) {
  laconic::use_processes(
      size,
      [open](const laconic::RunOptions& options) {
        const nb::gil_scoped_acquire lock;
        return std::make_unique<laconic::python::PythonTransport>(open(options.timeout.count()));
      },
      {.allocates = true, .trusts_lengths = true});
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  int count = static_cast<int>(words.size());
  words.push_back(nullptr);
  testing::InitGoogleTest(&count, words.data());
  if (rank != 0) laconic::FailurePrinter::install(rank);
  const nb::gil_scoped_release unlocked;
  return RUN_ALL_TESTS() == 0;
}

NB_MODULE(laconic_suite, module) { module.def("run", &run); }

void check(PyStatus status) {
  if (PyStatus_Exception(status)) Py_ExitStatusException(status);
}

}  // namespace

int main(int argc, char** argv) {
  PyImport_AppendInittab("laconic_suite", PyInit_laconic_suite);
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.parse_argv = 0;
  check(PyConfig_SetBytesString(&config, &config.program_name, SUITE_PYTHON));
  check(PyConfig_SetBytesString(&config, &config.run_filename, SUITE_SCRIPT));
  check(PyConfig_SetBytesArgv(&config, argc, argv));
  check(Py_InitializeFromConfig(&config));
  PyConfig_Clear(&config);
  return Py_RunMain();
}
