#pragma once

#include <memory>

#include "laconic/optim/rule.h"
#include "laconic/optim/shards.h"

namespace laconic::inline optim {

// Moves the weights tensor by tensor, for methods whose step has a length that the whole tensor
// decides (Rule::by_tensor). A tensor is what lies between two neighbouring ends of the model's
// ranges and groups: a named range as a rule, a group where the model names none. It may span
// buckets, and a bucket may hold many.
class Tensors {
 public:
  // `model` is completed. `buckets` follow each other and cover it. Both outlive this.
  Tensors(const Model& model, std::span<const Bucket> buckets);

  // Every bucket has its moments: x -= lr*trust*u per tensor that does not rest, with trust =
  // ‖x‖/‖u‖ within the bounds of the configuration, 1 where a norm is 0. `rest` null: none does.
  // Norms are those of whole tensors, over the shards of the model too: then one round.
  void move(const Step& step, std::span<const std::unique_ptr<Rule>> rules, const Rest* rest,
            Shards& shards);

 private:
  struct Tensor {
    std::size_t range;  // where ranges may rest, or the model has shards
    std::size_t at;     // in squares_
    std::size_t first_part, parts, first_piece, pieces;
  };

  void add(const Model& model, std::size_t begin, std::size_t end);
  void add_pieces(const Tensor& tensor);
  void sum_pieces(Shards& shards);
  double trust_of(const Tensor& tensor) const;

  std::span<const Bucket> buckets_;
  std::vector<Tensor> tensors_;
  std::vector<TensorPart> parts_;
  std::vector<std::size_t> bucket_of_;  // of each part
  std::vector<TensorPiece> pieces_;
  std::vector<double> x_, u_;    // squared norms of each piece
  std::vector<double> squares_;  // of each tensor, of each range over shards: of x, then of u
};

}  // namespace laconic::inline optim
