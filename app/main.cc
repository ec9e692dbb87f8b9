#include <CLI/CLI.hpp>
#include <cstdio>

#include "app/commands/commands.h"
#include "laconic/core/error.h"

// Exit codes: 0 done, 1 failed while running, 2 wrong usage or a missing part, 3 a rank was lost.
namespace {

int exit_code(laconic::Code code) {
  switch (code) {
    case laconic::Code::kInvalidArgument:
    case laconic::Code::kUnavailable: return 2;
    case laconic::Code::kTimeout: return 3;
    default: return 1;
  }
}

int report(const char* message, int code) {
  std::fflush(stdout);
  std::fprintf(stderr, "laconic: %s\n", message);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("laconic: train on many machines while saying very little");
  app.footer("Each command has its own --help with examples.");
  app.require_subcommand(1);
  laconic::app::add_bench(app);
  laconic::app::add_plan(app);
  laconic::app::add_doctor(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const laconic::Error& error) {
    return report(error.what(), exit_code(error.code()));
  } catch (const std::bad_alloc&) {
    return report("out of memory: try fewer elements or ranks", 1);
  } catch (const std::exception& error) {
    return report(error.what(), 1);
  }
}
