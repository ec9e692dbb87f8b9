#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "app/commands/commands.h"
#include "app/report/file.h"
#include "app/report/html.h"

namespace laconic::app::commands {
namespace {

struct ReportOptions {
  std::vector<std::filesystem::path> folders;
  std::filesystem::path out;
};

void run(const ReportOptions& options) {
  auto out = options.out;
  if (out.empty())
    out = options.folders.size() == 1 ? options.folders.front() / "report.html" : "report.html";
  report::replace_text(out, report::render(options.folders));
  fmt::print("{}\n", out.string());
}

}  // namespace

void add_report(CLI::App& app) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* report = app.add_subcommand("report", "Write one HTML page about runs and comparisons");
  report->add_option("DIR", options->folders, "Folders that laconic train or laconic compare wrote")
      ->required();
  report->add_option("--out", options->out,
                     "The page; DIR/report.html for one folder, report.html for several");
  report->footer(
      "Examples:\n"
      "  laconic report runs/compare\n"
      "  laconic report runs/adamw runs/sgdm --out adam.html");
  report->callback([options] { run(*options); });
}

}  // namespace laconic::app::commands
