#include "laconic/device/cuda/decode.h"

// Messages to means and means to what is done with them: no float is stored that is not state.
namespace laconic::cuda {
namespace {

struct StoreSink {
  const StoreArguments& of;

  __device__ void take(std::int64_t k, float mean) { of.to[k] = mean; }
};

struct SgdmSink {
  const SgdmArguments& of;

  __device__ void take(std::int64_t k, float mean) {
    float m = of.m[k], x = of.x[k];
    sgdm_element(of.step, mean, m, x);
    of.m[k] = m;
    of.x[k] = x;
  }
  __device__ void leave(std::int64_t) {}
};

struct LionSink {
  const LionArguments& of;

  __device__ void take(std::int64_t k, float mean) {
    float m = of.m[k], x = of.x[k];
    lion_element(of.step, mean, m, x);
    of.m[k] = m;
    of.x[k] = x;
  }
  __device__ void leave(std::int64_t) {}
};

class AdamWSink {
 public:
  __device__ AdamWSink(const AdamWArguments& arguments, std::int64_t first)
      : of_(arguments),
        part_(of_.parts == nullptr ? 0 : last_begun(of_.part_count, first, [&](std::int64_t i) {
          return of_.parts[i].begin;
        })) {}
  __device__ void take(std::int64_t k, float mean) {
    if (of_.parts == nullptr) return update(of_.step, k, mean);
    while (part_ < of_.part_count && k >= of_.parts[part_].begin + of_.parts[part_].count) ++part_;
    if (part_ < of_.part_count && k >= of_.parts[part_].begin)
      update(of_.parts[part_].step, k, mean);
  }
  __device__ void leave(std::int64_t) {}

 private:
  __device__ void update(const AdamStep& step, std::int64_t k, float mean) const {
    float m = of_.m[k], v = of_.v[k], x = of_.x[k];
    adamw_element(step, mean, m, v, x);
    of_.m[k] = m;
    of_.v[k] = v;
    of_.x[k] = x;
  }

  const AdamWArguments& of_;
  std::int64_t part_;
};

struct MomentsSink {
  const MomentsArguments& of;

  __device__ void take(std::int64_t k, float mean) {
    of.m[k] = next_momentum(of.step, mean, of.m[k]);
    of.v[k] = next_variance(of.step, mean, of.v[k]);
  }
  __device__ void leave(std::int64_t k) {
    if (k % kWord == 0) of.left[k / kWord] = 1;
  }
};

struct MomentumStoreSink {
  const MomentumStoreArguments& of;

  __device__ void take(std::int64_t k, float mean) { of.m[k] = of.v[k] == 0 ? 0.0F : mean; }
};

struct MomentumApplySink {
  const MomentumApplyArguments& of;
  FloorCursor floors;

  __device__ void take(std::int64_t k, float mean) {
    AdamStep step = of.step;
    step.floor = floors.at(k);
    float m = mean, x = of.x[k];
    adam_apply_element(step, of.v[k], m, x);
    of.m[k] = m;
    of.x[k] = x;
  }
};

struct PendingSyncSink {
  const PendingSyncArguments& of;
  FloorCursor floors;

  __device__ void take(std::int64_t k, float mean) {
    AdamStep step = of.step;
    step.floor = floors.at(k);
    of.x[k] = of.x_sync[k] = pending_sync(step, of.inverse_gain, mean, of.v[k], of.x_sync[k],
                                          of.m != nullptr ? of.m + k : nullptr);
  }
};

struct SignUpdateSink {
  const SignUpdateArguments& of;

  __device__ void take(std::int64_t k, float mean) {
    of.x[k] = signed_step(of.lr, of.decay, mean, of.x[k]);
  }
};

struct OuterSink {
  const OuterArguments& of;

  __device__ void take(std::int64_t k, float mean) {
    float momentum = of.momentum != nullptr ? of.momentum[k] : 0.0F;
    const float x_sync = outer_weight(of.step, mean, of.x_sync[k], momentum);
    if (of.momentum != nullptr) of.momentum[k] = momentum;
    of.x_sync[k] = x_sync;
    of.x[k] = following(of.step, x_sync, of.x[k], of.snapshot != nullptr ? of.snapshot[k] : 0.0F);
  }
};

}  // namespace

LACONIC_KERNEL decode_store(StoreArguments of) {
  __shared__ Decoded shared;
  decode(of.of, shared, StoreSink{of});
}
LACONIC_KERNEL decode_sgdm(SgdmArguments of) {
  __shared__ Decoded shared;
  decode_checked(of.of, of.bad, shared, SgdmSink{of});
}
LACONIC_KERNEL decode_lion(LionArguments of) {
  __shared__ Decoded shared;
  decode_checked(of.of, of.bad, shared, LionSink{of});
}
LACONIC_KERNEL decode_adamw(AdamWArguments of) {
  __shared__ Decoded shared;
  decode_checked(of.of, of.bad, shared, AdamWSink(of, decoded_span(of.of.rows).at));
}
LACONIC_KERNEL decode_moments(MomentsArguments of) {
  __shared__ Decoded shared;
  decode_checked(of.of, of.bad, shared, MomentsSink{of});
}
LACONIC_KERNEL decode_momentum_store(MomentumStoreArguments of) {
  __shared__ Decoded shared;
  decode(of.of, shared, MomentumStoreSink{of});
}
LACONIC_KERNEL decode_momentum_apply(MomentumApplyArguments of) {
  __shared__ Decoded shared;
  decode(of.of, shared, MomentumApplySink{of, {of.floors, decoded_span(of.of.rows).at}});
}
LACONIC_KERNEL decode_pending_sync(PendingSyncArguments of) {
  __shared__ Decoded shared;
  decode(of.of, shared, PendingSyncSink{of, {of.floors, decoded_span(of.of.rows).at}});
}
LACONIC_KERNEL decode_sign_update(SignUpdateArguments of) {
  __shared__ Decoded shared;
  decode(of.of, shared, SignUpdateSink{of});
}
LACONIC_KERNEL decode_outer(OuterArguments of) {
  __shared__ Decoded shared;
  decode(of.of, shared, OuterSink{of});
}

}  // namespace laconic::cuda
