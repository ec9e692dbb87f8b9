#pragma once

#include "app/data/dataset.h"
#include "app/models/model.h"
#include "laconic/transport/transport.h"

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

}  // namespace laconic::app::training
