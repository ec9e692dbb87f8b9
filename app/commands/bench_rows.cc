#include "app/commands/bench_rows.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "app/timing.h"
#include "laconic/kernels/target.h"

namespace laconic::app::commands {

void add_target(CLI::App& command, std::string& target) {
  command.add_option("--target", target,
                     "Run on this instruction set: avx512, avx2, sse4, neon, scalar; the best");
}

void run_on(const std::string& target) {
  std::string name = target;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  for (const std::string& each : kernels::targets())
    if (name == "AVX512" && each.starts_with("AVX3")) return kernels::set_target(each);
  kernels::set_target(name);
}

Rows::Rows(std::size_t elements, int repeats, bool json)
    : elements_(elements),
      repeats_(repeats),
      json_(json),
      rows_(std::make_unique<nlohmann::json>(nlohmann::json::array())) {
  if (json_) return;
  fmt::print(
      "# on {}, {} elements, one thread, median of {}\n"
      "# limit: a plain vector loop with the same reads and writes, in the same run\n"
      "{:<20} {:>10} {:>9} {:>7} {:>8} {:>8} {:>9} {:>6}\n",
      kernels::target(), elements_, repeats_, "name", "class", "ms", "B/elem", "GB/s", "limit",
      "Gelem/s", "ratio");
}

Rows::~Rows() {
  if (json_) fmt::print("{}\n", rows_->dump(2));
}

void Rows::measure(const char* name, const char* limit, const std::vector<kernels::Traffic>& sweeps,
                   FunctionRef<void()> work) {
  double width = 0;
  for (const kernels::Traffic& traffic : sweeps) width += traffic.bytes_per_element();
  const auto plain = [&] {
    for (const kernels::Traffic& traffic : sweeps) kernels::move(traffic, elements_);
  };
  work();
  plain();
  std::vector<double> ours, theirs, ratios;
  for (int r = 0; r < repeats_; ++r) {
    ours.push_back(seconds_of(work));
    theirs.push_back(seconds_of(plain));
    ratios.push_back(theirs.back() / ours.back());
  }
  const Sample took(ours), least(theirs), ratio(ratios);
  const double bytes = width * static_cast<double>(elements_);
  const double rate = static_cast<double>(elements_) / took.median / 1e9;
  rows_->push_back({{"name", name},
                    {"class", limit},
                    {"elements", elements_},
                    {"seconds", took.median},
                    {"seconds_least", took.least},
                    {"seconds_most", took.most},
                    {"bytes_per_element", width},
                    {"gb_per_s", bytes / took.median / 1e9},
                    {"limit_gb_per_s", bytes / least.median / 1e9},
                    {"gelements_per_s", rate},
                    {"ratio", ratio.median},
                    {"target", kernels::target()}});
  if (json_) return;
  fmt::print("{:<20} {:>10} {:>9.2f} {:>7.2f} {:>8.1f} {:>8.1f} {:>9.2f} {:>6.2f}\n", name, limit,
             1e3 * took.median, width, bytes / took.median / 1e9, bytes / least.median / 1e9, rate,
             ratio.median);
  std::fflush(stdout);
}

}  // namespace laconic::app::commands
