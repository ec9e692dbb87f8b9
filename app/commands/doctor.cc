#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/commands/commands.h"
#include "app/machine.h"
#include "app/mpi.h"
#include "app/plan/probe.h"
#include "app/units.h"
#include "laconic/core/error.h"
#include "laconic/device/self_test.h"
#include "laconic/kernels/target.h"
#include "laconic/plan/recipes.h"

namespace laconic::app::commands {
namespace {

using nlohmann::json;

constexpr double kBertBase = 109'482'240;

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return all.empty() ? "none" : all;
}

json coding() {
  const laconic::plan::Speeds speeds = plan::measure_speeds();
  const MethodCost::Seconds& one_bit = speeds.methods.at(laconic::plan::kEveryStep).coded;
  return {{"target", kernels::target()},
          {"encode_gelements_per_s", 1e-9 / speeds.encode},
          {"decode_gelements_per_s", 1e-9 / speeds.decode},
          {"one_bit_step_gelements_per_s",
           1e-9 / (speeds.encode + speeds.decode + one_bit.before + one_bit.after)}};
}

// The best instruction set, on which everything runs, and the next: what a CPU without it does.
json coding_of_targets() {
  json all = json::array();
  const std::vector<std::string> targets = kernels::targets();
  for (std::size_t i = 0; i < std::min<std::size_t>(2, targets.size()); ++i) {
    kernels::set_target(targets[i]);
    all.push_back(coding());
  }
  kernels::set_target("");
  return all;
}

// Powers of two up to all cores.
json scaling() {
  json all = json::array();
  for (int threads = 1;; threads = std::min(2 * threads, cores())) {
    all.push_back(
        {{"threads", threads}, {"gelements_per_s", 1e-9 * plan::measure_encoding(threads)}});
    if (threads == cores()) return all;
  }
}

json hardware() {
  const plan::MemorySpeed memory = plan::measure_memory();
  const json coding = coding_of_targets();
  return {{"cpu", processor()},
          {"cores", cores()},
          {"cpu_features", processor_features()},
          {"kernel_target", kernels::target()},
          {"kernel_targets", kernels::targets()},
          {"memory_bytes", memory_bytes()},
          {"memory_read_gb_per_s", memory.read / 1e9},
          {"memory_update_gb_per_s", memory.update / 1e9},
          {"encode_gelements_per_s", coding[0]["encode_gelements_per_s"]},
          {"decode_gelements_per_s", coding[0]["decode_gelements_per_s"]},
          {"one_bit_step_gelements_per_s", coding[0]["one_bit_step_gelements_per_s"]},
          {"coding", coding},
          {"scaling", scaling()}};
}

json network() {
  json all{{"interfaces", json::array()}, {"infiniband", infiniband()}, {"use", nullptr}};
  const auto devices = interfaces();
  for (const Interface& one : devices)
    all["interfaces"].push_back(
        {{"name", one.name},
         {"up", one.up},
         {"loopback", one.loopback},
         {"default_route", one.default_route},
         {"bit_per_second", one.bits_per_second > 0 ? json(one.bits_per_second) : json(nullptr)}});
  if (const Interface* best = best_interface(devices)) {
    all["use"] = best->name;
    all["environment"] = fmt::format(
        "export OMPI_MCA_btl_tcp_if_include={0} GLOO_SOCKET_IFNAME={0} NCCL_SOCKET_IFNAME={0}",
        best->name);
  }
  return all;
}

json links(Transport& world) {
  const auto hosts = plan::hosts_of(world);
  json all{{"ranks", world.size()}, {"hosts", json::array()}, {"links", json::array()}};
  std::vector<std::string> host_of(static_cast<std::size_t>(world.size()));
  for (const plan::Host& host : hosts) {
    all["hosts"].push_back({{"name", host.name}, {"ranks", host.ranks}});
    for (const int rank : host.ranks) host_of[static_cast<std::size_t>(rank)] = host.name;
  }
  const auto measured = plan::measure_links(world, plan::pairs_of(hosts));
  const auto name = [&](int rank) {
    return hosts.size() > 1 ? host_of[static_cast<std::size_t>(rank)]
                            : fmt::format("rank {}", rank);
  };
  for (const plan::PairLink& pair : measured)
    all["links"].push_back({{"one", name(pair.one)},
                            {"other", name(pair.other)},
                            {"latency_seconds", pair.link.latency_seconds},
                            {"bit_per_second", 8 * pair.link.bytes_per_second}});
  all["between"] = hosts.size() > 1 ? "hosts" : "ranks of one host";
  if (measured.empty()) return all;
  const auto slowest = std::min_element(measured.begin(), measured.end(),
                                        [](const plan::PairLink& a, const plan::PairLink& b) {
                                          return a.link.bytes_per_second < b.link.bytes_per_second;
                                        });
  all["slowest"] = all["links"][static_cast<std::size_t>(slowest - measured.begin())];
  return all;
}

void print_machine(const json& m) {
  fmt::print("cpu        {}, {} core(s) to use; {}\n", m["cpu"].get<std::string>(),
             m["cores"].get<int>(), joined(m["cpu_features"]));
  fmt::print("kernels    run on {} (compiled and possible here: {})\n",
             m["kernel_target"].get<std::string>(), joined(m["kernel_targets"]));
  fmt::print("memory     {:.1f} GB; one thread reads {:.1f} GB/s, updates {:.1f} GB/s\n",
             m["memory_bytes"].get<double>() / 1e9, m["memory_read_gb_per_s"].get<double>(),
             m["memory_update_gb_per_s"].get<double>());
  for (const json& one : m["coding"])
    fmt::print(
        "coding     on {}: one thread codes {:.2f} and decodes {:.2f} billion elements/s; a coded "
        "step of BERT-Base takes {:.0f} ms\n",
        one["target"].get<std::string>(), one["encode_gelements_per_s"].get<double>(),
        one["decode_gelements_per_s"].get<double>(),
        kBertBase / one["one_bit_step_gelements_per_s"].get<double>() / 1e6);
  fmt::print("threads    encode momentum together, billion elements/s:");
  for (const json& one : m["scaling"])
    fmt::print(" {} {:.2f}{}", one["threads"].get<int>(), one["gelements_per_s"].get<double>(),
               &one == &m["scaling"].back() ? "\n" : ",");
}

void print_network(const json& n) {
  for (const json& one : n["interfaces"])
    fmt::print("network    {:<10} {:<5} {}{}{}\n", one["name"].get<std::string>(),
               one["up"].get<bool>() ? "up" : "down",
               one["bit_per_second"].is_null() ? "speed unknown"
                                               : rate_text(one["bit_per_second"].get<double>() / 8),
               one["loopback"].get<bool>() ? ", loopback" : "",
               one["default_route"].get<bool>() ? ", default route" : "");
  for (const json& one : n["infiniband"]) fmt::print("infiniband {}\n", one.get<std::string>());
  if (n["use"].is_null()) {
    fmt::print("use        none: no interface is up with a route; ranks must share this host\n");
    return;
  }
  fmt::print(
      "use        {}: the fastest that is up and has a route. To hold MPI, Gloo and NCCL to it:\n"
      "           {}\n",
      n["use"].get<std::string>(), n["environment"].get<std::string>());
}

void print_links(const json& l) {
  fmt::print("\n{} ranks on {} host(s)\n", l["ranks"].get<int>(), l["hosts"].size());
  for (const json& host : l["hosts"])
    fmt::print("  {}: {} rank(s)\n", host["name"].get<std::string>(), host["ranks"].size());
  if (l["links"].empty()) return;
  const bool ranks = l["between"] != "hosts";
  fmt::print("links between {}{}\n", l["between"].get<std::string>(),
             ranks ? ": memory, not a network; start ranks on several hosts to see that" : "");
  const auto line = [](const json& one) {
    return fmt::format("{} - {}: {}, {}", one["one"].get<std::string>(),
                       one["other"].get<std::string>(),
                       rate_text(one["bit_per_second"].get<double>() / 8),
                       time_text(one["latency_seconds"].get<double>()));
  };
  for (const json& one : l["links"]) fmt::print("  {}\n", line(one));
  fmt::print("slowest    {}\n", line(l["slowest"]));
}

json software() {
  return {{"mpi", mpi_version()},
          {"torch", *LACONIC_TORCH_VERSION != '\0'
                        ? "LibTorch " LACONIC_TORCH_VERSION
                        : "built without LibTorch: build it with -DLACONIC_WITH_TORCH=ON "
                          "(`./run build` installs torch); bench, plan and doctor do without"}};
}

// Opens the first GPU, compares its kernels with the CPU, bit for bit, and measures them.
json gpu() {
  try {
    const DeviceReport report = check_device("cuda");
    json speeds = json::object();
    for (const KernelSpeed& one : report.speeds) speeds[one.kernel] = one.gb_per_second;
    return {{"name", report.name},
            {"gb_per_second", speeds},
            {"identity", report.identity},
            {"checks", report.checks.size()},
            {"equal", report.equal},
            {"text", report.equal
                         ? fmt::format("{}: every kernel gives the CPU's bits", report.identity)
                         : fmt::format("not used, since bits differ: {}", describe(report))}};
  } catch (const Error& error) {
    return {{"name", nullptr}, {"equal", false}, {"text", error.what()}};
  }
}

void print(const json& all) {
  print_machine(all["machine"]);
  fmt::print("mpi        {}\n", all["software"]["mpi"].get<std::string>());
  fmt::print("torch      {}\n", all["software"]["torch"].get<std::string>());
  fmt::print("gpu        {}\n", all["gpu"]["text"].get<std::string>());
  const json speeds = all["gpu"].value("gb_per_second", json::object());
  for (const auto& [kernel, speed] : speeds.items())
    fmt::print("  {:<24}{:>9.1f} GB/s\n", kernel, speed.get<double>());
  print_network(all["network"]);
  if (all.contains("group")) print_links(all["group"]);
}

void show(const json& all, bool as_json) { as_json ? fmt::print("{}\n", all.dump(2)) : print(all); }

void run(bool as_json) {
  if (!under_mpirun()) {
    show(
        {{"machine", hardware()}, {"software", software()}, {"gpu", gpu()}, {"network", network()}},
        as_json);
    if (!as_json) fmt::print("\nUnder mpirun this command also measures the links.\n");
    return;
  }
  run_under_mpi([&](MpiSession& mpi) {
    Transport& world = mpi.world();
    json all{
        {"machine", hardware()}, {"software", software()}, {"gpu", gpu()}, {"network", network()}};
    all["group"] = links(world);
    if (world.rank() == 0) show(all, as_json);
  });
}

}  // namespace

void add_doctor(CLI::App& app) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("doctor", "This machine, its software and its links, before a run");
  command->footer("Examples:\n  laconic doctor\n  mpirun -n 4 --host a:2,b:2 laconic doctor");
  command->add_flag("--json", *as_json, "An object instead of text");
  command->callback([as_json] { run(*as_json); });
}

}  // namespace laconic::app::commands
