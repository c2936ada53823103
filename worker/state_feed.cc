#include "worker/state_feed.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"

#include "base/periodic_task.h"
#include "runtime/rpc/run_state.h"
#include "worker/async_trainer.h"
#include "worker/heartbeat_links.h"
#include "worker/sync_trainer.h"

namespace shoal {
namespace {

// Time between two reports of the progress.
constexpr absl::Duration kActivityPeriod = absl::Milliseconds(200);

// The time that the current batch may still take after the chief has given this worker's place away
// or is lost.
constexpr absl::Duration kLastBatch = absl::Seconds(10);

std::unique_ptr<Trainer> MakeTrainer(bool synchronous, const TrainerOptions& options) {
  if (synchronous) return std::make_unique<SyncTrainer>(options);
  return std::make_unique<AsyncTrainer>(options);
}

}  // namespace

StateFeed::StateFeed(const Clock* clock, std::function<void(const absl::Status&)> abandon)
    : clock_(clock), abandon_(std::move(abandon)) {}

void StateFeed::OnRunState(const v1::RunState& state) {
  MutexLock lock(&mutex_);
  if (!ended_.ok()) return;
  state_ = state;
  if (trainer_ != nullptr) trainer_->OnState(state);
  changed_.NotifyAll();
}

absl::StatusOr<v1::RunState> StateFeed::WaitForPlan() {
  MutexLock lock(&mutex_);
  while (true) {
    if (!ended_.ok()) return ended_;
    if (state_.has_value()) {
      if (state_->phase() == v1::RunState::PHASE_FAILED) return GetFailure(*state_);
      if (state_->phase() == v1::RunState::PHASE_DONE || state_->has_plan()) return *state_;
    }
    changed_.Wait(&mutex_);
  }
}

void StateFeed::Attach(Trainer* trainer) {
  MutexLock lock(&mutex_);
  trainer_ = trainer;
  changed_.NotifyAll();
  if (trainer == nullptr) return;
  if (state_.has_value()) trainer->OnState(*state_);
  if (!ended_.ok()) EndTrainer();
}

void StateFeed::End(const absl::Status& status) {
  MutexLock lock(&mutex_);
  if (!ended_.ok()) return;
  ended_ = status;
  if (trainer_ != nullptr) EndTrainer();
  changed_.NotifyAll();
}

absl::Status StateFeed::ended() const {
  MutexLock lock(&mutex_);
  return ended_;
}

void StateFeed::EndForGood(const absl::Status& status) {
  End(status);
  if (abandon_ == nullptr) return;
  {
    MutexLock lock(&mutex_);
    const absl::Time until = clock_->Now() + kLastBatch;
    while (trainer_ != nullptr && clock_->WaitUntil(until, &mutex_, &changed_)) {
    }
    if (trainer_ == nullptr) return;
  }
  abandon_(status);
}

void StateFeed::EndTrainer() {
  v1::RunState state = state_.value_or(v1::RunState());
  state.set_phase(v1::RunState::PHASE_FAILED);
  state.set_message(std::string(ended_.message()));
  state.set_failure_code(static_cast<uint32_t>(ended_.code()));
  trainer_->OnState(state);
}

absl::Status TrainUntilOver(bool synchronous, const TrainerOptions& options,
                            const ProgressLinks& links, StateFeed* feed) {
  const std::unique_ptr<Trainer> trainer = MakeTrainer(synchronous, options);
  feed->Attach(trainer.get());
  absl::Status status;
  {
    PeriodicTask report("activity", kActivityPeriod, *options.clock, [&] {
      const Trainer::Progress progress = trainer->progress();
      ChiefSession::Activity activity;
      activity.step = progress.step;
      activity.words = progress.activity;
      activity.batch = progress.batch;
      activity.computing = progress.computing;
      activity.computed = progress.computed;
      if (links.check_links != nullptr)
        AddLinks(links.check_links(), options.clock->Now(), &activity);
      if (links.on_progress != nullptr) links.on_progress(progress);
      links.session->SetActivity(std::move(activity));
    });
    status = trainer->Run();
  }
  feed->Attach(nullptr);
  options.store->Shutdown();  // Exchanges that are under way still call the trainer.
  const absl::Status ended = feed->ended();
  return ended.ok() ? status : ended;
}

}  // namespace shoal
