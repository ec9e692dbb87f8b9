#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/optim/option.h"
#include "laconic/optim/policy.h"

namespace laconic::inline optim {

class Rule;
class Schedule;
struct Bucket;

// What a method costs beside its exchanges; plan reads it.
struct MethodCost {
  // Bytes of state per parameter: held by every rank, divided by the ranks of a node, divided by
  // all ranks.
  double state = 0, state_of_node = 0, state_of_all = 0;
  // Seconds per element on one core: what an exchange adds before it encodes and after it decodes,
  // and a local step in all. Of the machine of bench/results/kernels.json.
  struct Seconds {
    double before = 0, after = 0;
  };
  Seconds exact, coded;
  double local = 0;
};

// Passes over memory that `bench step` and `plan --probe` time, by the names in app/sweeps.cc:
// after an exact mean, before and after a coded one, of a whole local step, and before and after a
// mean in four bits where the codec is the user's choice. Empty: not timed.
struct Sweeps {
  std::string exact = {}, before = {}, after = {}, local = {};
  std::string before_int4 = {}, after_int4 = {};
};

// How exchanges lie in time: parts of the model that are exchanged at steps of their own, steps from
// the start of an exchange to its use, and steps from one exchange to the next, the longest.
struct Spacing {
  int fragments = 1;
  std::int64_t delay = 0, interval = 1;
};

// Slices of a mean of methods with a spacing. Each pair of slices costs a latency, which is long where ranks
// exchange seldom, and there is little to overlap.
inline constexpr int kSlicesWhereSeldom = 2;

// A further name of a method, with defaults of its own for some options.
struct Preset {
  std::string name, title, summary, paper;
  std::map<std::string_view, std::string_view> defaults;
  std::string python;  // the class; empty: none
};

// A registered optimizer. All that differs between methods is here; nothing else in the library,
// the command or the Python package depends on a method's name.
struct Method {
  std::string name;                  // "one-bit-adam"
  std::string title;                 // "1-bit Adam"
  std::string summary;               // one line
  std::string paper;                 // authors, title, where
  std::string exchanges;             // what is exchanged, and when
  std::string codec;                 // of its coded means; "fp32" where all means are exact
  std::string python;                // the class, "OneBitAdam"; empty: none
  std::vector<Option> options = {};  // beside shared_options()
  std::map<std::string, std::string> aliases = {};  // other names of options: DeepSpeed's
  // Of Python's signature, where they differ; lr = 1e-3 unless it is here, and empty text: none.
  std::map<std::string, std::string> defaults = {};
  std::map<std::string, double> rates = {};  // tuned learning rates, by the command's models

  // The part of the state that holds the weights of the last sync, from which the method goes on;
  // empty: weights are equal on all ranks after every step.
  std::string synced_weights = {};
  // Every mean is exact: steps can be deferred, and there is nothing to choose. Where options decide,
  // as they are by default.
  bool exact = false;
  // Compared and planned where no methods are named: a few, since each takes a training.
  bool shown = false;
  // The codec of its means under a config; null: `codec` is.
  std::string (*coded_with)(const OptimizerConfig&) = nullptr;
  // The codecs among which exchange = auto chooses, the configured one among them; null: none but
  // that one.
  std::vector<std::string> (*choices)(const OptimizerConfig&) = nullptr;
  // The codec of a lossy mean on its way back under a config; null, or empty: MeanConfig decides.
  std::string (*down_with)(const OptimizerConfig&) = nullptr;
  // The codec of its dense rounds under a config; null: they are exact.
  std::string (*dense_with)(const OptimizerConfig&) = nullptr;
  // The codec of the averages of momenta that Rounds::momentum counts, without feedback.
  std::string momentum_codec = {};
  // Its update can be another method's inner one: make_rule for a bucket that is alone.
  bool inner = false;
  std::vector<Preset> presets = {};  // registered after it
  std::string preset_of = {};        // the method whose preset this is; empty: of none
  MethodCost cost = {};
  Sweeps sweeps = {};

  // Fills in what follows from total_steps; null: nothing does. May throw
  // Error(kInvalidArgument).
  void (*complete)(OptimizerConfig&) = nullptr;
  // Of a completed config; null: the whole model at once, within the step.
  Spacing (*spacing)(const OptimizerConfig&) = nullptr;
  std::unique_ptr<Rule> (*make_rule)(const Bucket&) = nullptr;
  std::unique_ptr<Schedule> (*make_schedule)(const OptimizerConfig&) = nullptr;
  // Exchanges of a whole run, from a completed config.
  Rounds (*rounds)(const OptimizerConfig&, std::int64_t steps) = nullptr;

  // `codec` and `exact` under a config, the codec on the way back (empty: MeanConfig decides), and
  // the codec of dense rounds.
  std::string codec_of(const OptimizerConfig& config) const;
  std::string codec_down_of(const OptimizerConfig& config) const;
  bool exact_with(const OptimizerConfig& config) const;
  // `choices` where exchange = auto and not strict, else empty.
  std::vector<std::string> choices_of(const OptimizerConfig& config) const;
  std::string dense_codec_of(const OptimizerConfig& config) const;
  // Bits per parameter of a round of each kind, headers left out.
  double coded_bits(const OptimizerConfig& config) const;
  double dense_bits(const OptimizerConfig& config) const;
  // Its own, then the shared ones.
  std::vector<Option> all_options() const;
  const Option* find(std::string_view name) const;  // null: it has none of this name
};

// All methods: the library's in a fixed order, then registered ones. They live as long as the
// program.
std::vector<const Method*> methods();
// Error(kInvalidArgument) with the nearest name.
const Method& method_named(std::string_view name);
// Adds a method of the caller's own, before other threads use the registry. Error(kInvalidArgument)
// when the name is taken or something is missing.
void register_method(Method method);

}  // namespace laconic::inline optim
