#pragma once

#include "app/models/layers.h"
#include "app/models/model.h"

namespace laconic::app::models {

// Devlin et al. 2019: norms after each part, GELU. With classes: a pooler and a classifier on the
// first token; else logits for each token from the table of tokens. Names are those of the
// published files; what both kinds have is named the same. REQUIRES: no size is 0.
std::shared_ptr<Network> make_bert(const ModelConfig& config, const data::DataShape& shape,
                                   Draw& draw);

}  // namespace laconic::app::models
