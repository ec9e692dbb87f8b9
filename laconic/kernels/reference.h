#pragma once

#include "laconic/kernels/dense.h"
#include "laconic/kernels/integer.h"
#include "laconic/kernels/random_sign.h"
#include "laconic/kernels/sign.h"
#include "laconic/kernels/top_k.h"
#include "laconic/kernels/update.h"
#include "laconic/kernels/vote.h"

// The scalar truth: each kernel again, under the contract of its own header, as a plain loop. Every
// SIMD target gives these bits (the payload and sign of a NaN apart).
namespace laconic::kernels::reference {

// sign.h
float fold(const Lanes& lanes) noexcept;
float scale_of(float sum, std::size_t count, Norm norm) noexcept;
void measure(const float* a, const float* e, const float* live, std::size_t count, Norm norm,
             float* p, Lanes& lanes) noexcept;
void code(const float* p, const float* live, std::size_t count, float scale, float gain, float* e,
          std::uint8_t* bits) noexcept;
std::size_t encode_signs(const float* a, const float* e, const float* live, std::size_t count,
                         std::size_t block, Norm norm, float gain, float* left, float* scales,
                         std::uint8_t* bits) noexcept;
void serve(const Coded* coded, int codes, float factor, const float* e, const float* live,
           std::size_t count, Norm norm, float* q, Lanes& lanes) noexcept;
void decode(Coded coded, std::size_t count, float* out) noexcept;
std::size_t count_live(const float* live, std::size_t count) noexcept;

// integer.h
void measure_largest(const float* a, const float* e, const float* live, std::size_t count, float* p,
                     Lanes& lanes) noexcept;
float largest_of(const Lanes& lanes) noexcept;
void to_integers(const float* p, const float* live, std::size_t count, int bits, float scale,
                 float gain, float* e, std::uint8_t* codes) noexcept;
std::size_t encode_integers(const float* a, const float* e, const float* live, std::size_t count,
                            std::size_t block, int bits, float most, float gain, float* left,
                            float* scales, std::uint8_t* codes) noexcept;
void sum_integers(const Integers* from, int ranks, int bits, float factor, const float* e,
                  const float* live, std::size_t count, float* q, Lanes& lanes) noexcept;
void from_integers(Integers from, int bits, std::size_t count, float* out) noexcept;

// top_k.h
void to_top_k(const float* p, const float* live, std::size_t count, std::size_t slots,
              float largest, float gain, float* e, std::uint8_t* places) noexcept;
void sum_top_k(const Integers* from, int ranks, std::size_t slots, float factor, const float* e,
               const float* live, std::size_t begin, std::size_t count, float* q,
               Lanes& lanes) noexcept;
void from_top_k(Integers from, std::size_t slots, std::size_t begin, std::size_t count,
                float* out) noexcept;

// random_sign.h
void draw(const Draw& draw, std::uint64_t begin, const float* m, const float* b, std::size_t count,
          std::uint8_t* bits) noexcept;
bool birder_moments(const BirderMoments& step, const float* g, float* m, float* b,
                    std::size_t count, const Draw& draw, std::uint64_t begin, std::uint64_t wanted,
                    std::uint8_t* bits, std::uint64_t* active) noexcept;
void count_signs(const std::uint8_t* const* bits, const std::uint8_t* const* active, int ranks,
                 std::size_t words, std::uint8_t* counts, std::uint16_t* voters) noexcept;
void redraw(const Draw& draw, std::uint64_t begin, const std::uint8_t* counts,
            const std::uint16_t* voters, int planes, std::size_t count,
            std::uint8_t* bits) noexcept;
void signs_to_floats(const std::uint8_t* bits, const std::uint8_t* active, std::size_t count,
                     float* out) noexcept;
void sign_update(float lr, float decay, const std::uint8_t* bits, const std::uint8_t* active,
                 float* x, std::size_t count) noexcept;
void counts_to_floats(const std::uint8_t* counts, const std::uint16_t* voters, int planes,
                      std::size_t count, float* out) noexcept;
void ratio_to_bf16(const float* m, const float* b, std::size_t count, std::uint16_t* out) noexcept;
void ratio(const float* m, const float* b, std::size_t count, float* out) noexcept;
std::uint64_t activity(const float* values, std::size_t count) noexcept;

// vote.h
void lion_step(const LionStep& step, const float* g, float* m, float* x,
               std::size_t count) noexcept;
bool lion_votes(const LionMoments& step, Ties ties, const float* g, float* m, std::size_t count,
                std::uint8_t* bits, std::uint64_t* active) noexcept;
void vote(Ties ties, const float* c, std::size_t count, std::uint8_t* bits) noexcept;
std::uint64_t majority(Ties ties, const std::uint8_t* const* bits,
                       const std::uint8_t* const* active, int ranks, std::size_t words,
                       std::uint8_t* out) noexcept;
std::uint64_t majority_of(Ties ties, const std::uint8_t* counts, const std::uint16_t* voters,
                          int planes, std::size_t words, std::uint8_t* out) noexcept;
void add_counts(const std::uint8_t* const* counts, const std::uint8_t* const* voters, int messages,
                int planes, std::size_t words, int planes_out, std::uint8_t* out,
                std::uint16_t* voters_out) noexcept;

// dense.h
void add(const float* a, std::size_t count, float* acc) noexcept;
void scale(float* a, std::size_t count, float factor) noexcept;
void blend(float keep, const float* r, const float* live, std::size_t count, float* e) noexcept;
void sum(const float* const* in, int inputs, std::size_t count, float factor, float* out) noexcept;
void mean_bf16(const std::uint16_t* const* in, int inputs, std::size_t count, float factor,
               float* values, std::uint16_t* out) noexcept;
void sum_bf16(const std::uint16_t* const* in, int inputs, std::size_t count, float factor,
              float* out) noexcept;
void to_bf16(const float* in, std::size_t count, std::uint16_t* out) noexcept;
void from_bf16(const std::uint16_t* in, std::size_t count, float* out) noexcept;
bool all_finite(const float* g, std::size_t count) noexcept;
float sum_of_squares(const float* a, std::size_t count) noexcept;

// update.h
void sgdm(const SgdmStep& step, const float* g, float* m, float* x, std::size_t count) noexcept;
void adamw(const AdamStep& step, const float* g, float* m, float* v, float* x,
           std::size_t count) noexcept;
void adam_moments(const AdamStep& step, const float* g, float* m, float* v, std::size_t count,
                  Lanes& lanes) noexcept;
void adam_apply(const AdamStep& step, float* m, const float* v, float* x, float* copy,
                std::size_t count) noexcept;
void momentum(const AdamStep& step, const float* g, const float* m, float* out,
              std::size_t count) noexcept;
void one_bit_apply(const AdamStep& step, const float* mean, float* m, const float* v, float* x,
                   std::size_t count) noexcept;
void zero_one_message(const AdamStep& step, float shrink, const float* g, const float* m,
                      const float* pending, float* out, std::size_t count) noexcept;
void zero_one_local(const AdamStep& step, float shrink, const float* g, float* m, const float* v,
                    float* pending, float* x, std::size_t count) noexcept;
void zero_one_sync(const AdamStep& step, float inverse_gain, const float* mean, float* m,
                   const float* v, float* x_sync, float* x, std::size_t count) noexcept;
void trust_squares(const TrustStep& step, const float* m, const float* v, const float* x,
                   std::size_t count, std::size_t at, Lanes& of_u, Lanes& of_x) noexcept;
void trust_apply(const TrustStep& step, float rate, const float* m, const float* v, float* x,
                 std::size_t count) noexcept;
void birder_update(float lr, float decay, const float* r, float* x, std::size_t count) noexcept;

// outer.h
void displacement(const float* x_sync, const float* x, std::size_t count, float* out) noexcept;
void outer_update(const OuterStep& step, const float* mean, float* momentum, const float* snapshot,
                  float* x_sync, float* x, std::size_t count) noexcept;

}  // namespace laconic::kernels::reference
