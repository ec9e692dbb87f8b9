#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "app/commands/commands.h"
#include "app/machine.h"
#include "app/training/evaluation.h"
#include "app/training/run_config.h"
#include "laconic/checkpoint/safetensors.h"
#include "laconic/core/error.h"

namespace laconic::app::commands {
namespace {

struct EvalOptions {
  std::filesystem::path folder;
  std::string data;
  int threads = 0;
  bool json = false;
};

training::RunConfig config_of(const std::filesystem::path& file) {
  const auto metadata = SafetensorsFile(file).metadata();
  const auto text = metadata.find("config");
  if (text == metadata.end())
    fail(Code::kInvalidArgument,
         "{} was not written by laconic train: it does not name the model it is of", file.string());
  training::RunConfig config;
  for (const auto& one :
       nlohmann::json::parse(text->second).get<std::map<std::string, std::string>>())
    if (!one.second.empty()) training::assign(config, one);
  return config;
}

void run(const EvalOptions& options) {
  const auto file = options.folder / "model.safetensors";
  training::RunConfig config = config_of(file);
  if (!options.data.empty()) config.data.path = options.data;
  const auto data = data::open_dataset(config.data);
  const training::Quality quality =
      training::evaluate_file(file, config, *data, options.threads > 0 ? options.threads : cores());
  const char* metric = training::metric_name(data->shape());
  if (options.json)
    fmt::print("{}\n", nlohmann::json{{"task", config.data.task},
                                      {"model", config.model.name},
                                      {"data", data->describe()},
                                      {"loss", quality.loss},
                                      {"metric", metric},
                                      {"value", quality.metric}}
                           .dump(2));
  else
    fmt::print("{}\n{}: loss {:.4f}, {} {:.4f}\n", data->describe(), config.model.name,
               quality.loss, metric, quality.metric);
}

}  // namespace

void add_eval(CLI::App& app) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App* command =
      app.add_subcommand("eval", "Loss and metric of a saved model on the validation set");
  command->footer("Example: laconic eval runs/fashion-mnist-resnet8-adamw");
  command->add_option("DIR", options->folder, "The folder of a run, with model.safetensors")
      ->required();
  command->add_option("--data", options->data, "Other data than the run's")->type_name("PATH");
  command->add_option("--threads", options->threads, "Threads (default: all cores)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", options->json, "An object instead of text");
  command->callback([options] { run(*options); });
}

}  // namespace laconic::app::commands
