#pragma once

#include "app/models/layers.h"
#include "app/models/model.h"

// Residual networks (He et al. 2015) under torchvision's names. REQUIRES of all: no size is 0, but
// for the depth, which then is the published number of blocks of each stage.
namespace laconic::app::models {

// For small images: a 3x3 stem, three stages, shortcuts without parameters (the paper's option A).
std::shared_ptr<Network> make_small_resnet(const ModelConfig& config, const data::DataShape& shape,
                                           Draw& draw);

// For large images: a 7x7 stem, max-pooling, four stages, 1x1 projections where sizes change
// (option B). Blocks are two 3x3 convolutions, or bottlenecks that stride in their 3x3.
std::shared_ptr<Network> make_basic_resnet(const ModelConfig& config, const data::DataShape& shape,
                                           Draw& draw);
std::shared_ptr<Network> make_bottleneck_resnet(const ModelConfig& config,
                                                const data::DataShape& shape, Draw& draw);

}  // namespace laconic::app::models
