#pragma once

#include <filesystem>

#include "app/data/dataset.h"
#include "app/training/run_config.h"
#include "laconic/transport/transport.h"

namespace laconic::app::models {
class Network;
}

namespace laconic::app::training {

struct Quality {
  double loss = 0;
  double metric = 0;  // accuracy, or the perplexity of language models
};

// "accuracy" or "perplexity".
const char* metric_name(const data::DataShape& shape);

// Of the first `examples` of the validation set (0: of all), each rank looking at its share.
// Collective; the same numbers on every rank.
Quality evaluate(models::Network& model, const data::Dataset& data, std::int64_t examples,
                 std::int64_t batch, Transport& world);

// Of the model that a run with this config wrote to `file`, on all of the validation set. Throws
// what read_model and make_blank_model throw.
Quality evaluate_file(const std::filesystem::path& file, const RunConfig& config,
                      const data::Dataset& data, int threads);

}  // namespace laconic::app::training
