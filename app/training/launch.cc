#include "app/training/launch.h"

#include <csignal>

#include "app/failure.h"
#include "app/machine.h"
#include "app/mpi.h"
#include "app/units.h"
#include "laconic/checkpoint/checkpoint.h"
#include "laconic/core/error.h"
#include "laconic/transport/threads.h"

namespace laconic::app::training {
namespace {

namespace fs = std::filesystem;

std::atomic<int> asked_to_stop{0};
static_assert(std::atomic<int>::is_always_lock_free);

// Signals stop the run while this lives.
class StopOnSignal {
 public:
  StopOnSignal() {
    asked_to_stop = 0;
    for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, handle);
  }
  ~StopOnSignal() {
    for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
  }
  StopOnSignal(const StopOnSignal&) = delete;

 private:
  static void handle(int signal) {
    asked_to_stop = signal;
    std::signal(signal, SIG_DFL);
  }
};

std::shared_ptr<laconic::Network> network_of(const RunConfig& config, bool shared) {
  if (config.emulate.empty()) return nullptr;
  std::vector<Link> links = parse_links(config.emulate);
  const int per_node = std::max(1, config.optimizer.ranks_per_node),
            nodes = config.ranks / per_node;
  if (links.size() > 1 && links.size() != static_cast<std::size_t>(nodes))
    fail(Code::kInvalidArgument,
         "run.emulate has {} links for {} nodes: give one for all, or one each", links.size(),
         nodes);
  if (!shared)  // processes cannot share a card: each has its share
    for (Link& link : links) link.bytes_per_second /= per_node;
  auto network = std::make_shared<laconic::Network>(config.ranks, per_node, links.front());
  for (std::size_t n = 1; n < links.size(); ++n)
    network->set_between_nodes(static_cast<int>(n), links[n]);
  return network;
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::max(1.0, seconds * 1e3)));
}

// A fresh run finds no results, or removes them.
void prepare_folder(const fs::path& out, bool overwrite) {
  for (const char* name :
       {"summary.json", "metrics.jsonl", "checkpoint", "checkpoint.laconic-old"}) {
    if (!fs::exists(out / name)) continue;
    if (!overwrite)
      fail(Code::kInvalidArgument,
           "{} has results already: --resume goes on with them, --out chooses another folder, "
           "--overwrite replaces them",
           out.string());
    fs::remove_all(out / name);
  }
}

}  // namespace

struct Launcher::Mpi : MpiSession {
  using MpiSession::MpiSession;
};

Launcher::Launcher(std::string command, double timeout)
    : command_(std::move(command)),
      mpi_(under_mpirun() ? std::make_unique<Mpi>(milliseconds(timeout)) : nullptr) {}
Launcher::~Launcher() = default;

int Launcher::ranks(int wanted) const {
  if (!mpi_) return wanted > 0 ? wanted : 2;
  const int started = mpi_->world().size();
  if (wanted > 0 && wanted != started)
    fail(Code::kInvalidArgument,
         "--ranks {} but mpirun started {}: leave --ranks out or make them equal", wanted, started);
  return started;
}

bool Launcher::speaks() const { return !mpi_ || mpi_->world().rank() == 0; }

Training Launcher::prepared(RunConfig config, Start start) const {
  config.ranks = ranks(config.ranks);
  if (config.threads == 0) config.threads = std::max(1, cores() / config.ranks);
  if (start != Start::kResume && speaks()) prepare_folder(config.out, start == Start::kOverwrite);
  return {.config = config,
          .data = data::open_dataset(config.data),
          .network = network_of(config, !mpi_),
          .stop = &asked_to_stop,
          .resume = start == Start::kResume,
          .command = command_,
          .engine = mpi_ ? "MPI processes" : "threads of one process"};
}

// The first rank's result.
template <typename Result>
Result Launcher::on_ranks(RunConfig config, Start start,
                          Result (*work)(const Training&, Transport&)) {
  const StopOnSignal guard;
  if (mpi_) try {
      return work(prepared(std::move(config), start), mpi_->world());
    } catch (...) {  // others may be waiting for this rank
      mpi_->abort(report_failure(mpi_->world().rank()));
    }
  const Training run = prepared(std::move(config), start);
  Result result;
  run_threads(
      run.config.ranks,
      [&](Transport& engine) {
        Result mine = work(run, engine);
        if (engine.rank() == 0) result = std::move(mine);
      },
      milliseconds(run.config.timeout));
  return result;
}

Outcome Launcher::run(RunConfig config, Start start) {
  return on_ranks(std::move(config), start, train);
}

Rehearsal Launcher::rehearse(RunConfig config, Start start) {
  return on_ranks(std::move(config), start, training::rehearse);
}

double Launcher::of_speaker(double value) const {
  return mpi_ ? mpi_->world().gather(value).front() : value;
}

RunConfig resumed_config(const fs::path& out, const std::vector<Assignment>& given) {
  const Manifest manifest = read_manifest(out / "checkpoint");
  const auto text = manifest.extra.find("config");
  if (text == manifest.extra.end())
    fail(Code::kInvalidArgument, "{} was not written by laconic train", manifest.folder.string());
  const auto saved = nlohmann::json::parse(text->second).get<std::map<std::string, std::string>>();
  RunConfig config;
  for (const auto& one : saved)
    if (!one.second.empty()) assign(config, one);
  for (const Assignment& one : given) assign(config, one);
  // What followed from the length of the run stays, even if that is raised now.
  for (const auto& [field, value] : manifest.config) {
    const std::string key = "optimizer." + field;
    const bool asked =
        std::ranges::any_of(given, [&](const Assignment& one) { return one.first == key; });
    if (!asked) set(config.optimizer, field, value);
  }
  config = resolved(std::move(config));
  check_resumable(saved, to_text(config));
  return config;
}

}  // namespace laconic::app::training
