#include "ps/shard_variable_store.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"
#include "proto/v1/identity.pb.h"
#include "runtime/cluster/task.h"
#include "runtime/rpc/retry.h"

namespace shoal {
namespace {

// The pause before another attempt.
constexpr absl::Duration kWait = absl::Milliseconds(20);
constexpr absl::Duration kBusyWait = absl::Milliseconds(2);

}  // namespace

// The memory of one exchange. All of it is allocated at construction, because a group may have two
// exchanges under way for the first time only much later.
class ShardVariableStore::Flight : public PullWaiter {
 public:
  Flight(ShardVariableStore* store, const ExchangeGroup* group) : group(group), store_(store) {
    const size_t size = group->slices.size();
    slices.reserve(size);
    answers.reserve(size);
    outcomes.reserve(size);
    pulls.reserve(size);
    places.reserve(size);
    if (group->buckets) rows.reserve(size);
    identity.set_run_id(store->options_.run_id);
    *identity.mutable_member() = ToProto(TaskId{Job::kWorker, store->options_.worker_index});
    identity.set_incarnation(store->options_.incarnation);
  }

  void OnPulled() override { store_->OnPulled(this); }

  bool IsUnsettled(size_t place) const {
    return outcomes[place] == PushOutcome::kNone || outcomes[place] == PushOutcome::kBusy;
  }

  const ExchangeGroup* const group;
  // Used by the store's thread, from Start on.
  Exchange exchange;
  Done done;
  v1::Identity identity;
  uint64_t receiver_incarnation = 0;
  ParameterShard::Access access;
  std::vector<PushOutcome> outcomes;
  std::vector<PulledSlice> pulls;
  std::vector<uint32_t> places;  // in the group, of the slices that are being pulled
  absl::Time started;
  // The store's lock guards the members below.
  Stage stage = Stage::kFree;
  uint64_t order = 0;
  absl::Time wake;

 private:
  ShardVariableStore* const store_;
};

ShardVariableStore::ShardVariableStore(ParameterShard* shard, Options options, const Clock* clock)
    : shard_(shard), options_(std::move(options)), clock_(clock) {
  for (const ExchangeGroup& group : options_.groups) {
    for (int i = 0; i < kFlightsPerGroup; ++i) {
      flights_.push_back(std::make_unique<Flight>(this, &group));
    }
  }
  thread_ = std::thread([this] { Run(); });
}

ShardVariableStore::~ShardVariableStore() {
  Shutdown();
  {
    MutexLock lock(&mutex_);
    closed_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void ShardVariableStore::Start(const Exchange& exchange, Done done) {
  MutexLock lock(&mutex_);
  Flight* flight = nullptr;
  for (int i = 0; i < kFlightsPerGroup && flight == nullptr; ++i) {
    Flight* candidate = flights_[exchange.group * kFlightsPerGroup + i].get();
    if (candidate->stage == Stage::kFree) flight = candidate;
  }
  CHECK(flight != nullptr) << "group " << exchange.group << ": too many exchanges under way";
  ++active_;
  flight->exchange = exchange;
  flight->done = std::move(done);
  const size_t size = flight->group->slices.size();
  flight->outcomes.assign(exchange.push ? size : 0, PushOutcome::kNone);
  flight->pulls.assign(exchange.pull ? size : 0, PulledSlice());
  flight->missing_positions.clear();
  flight->started = clock_->Now();
  flight->stage = Stage::kQueued;
  flight->order = next_order_++;
  flight->wake = absl::InfinitePast();
  changed_.NotifyAll();
}

void ShardVariableStore::SetView(const StoreView& view) {
  MutexLock lock(&mutex_);
  const auto age = [](const StoreView& v) { return std::make_tuple(v.term, v.lineage, v.view); };
  if (closing_ || (has_view_ && age(view) < age(view_))) return;
  has_view_ = true;
  view_ = view;
  for (const auto& flight : flights_) flight->wake = absl::InfinitePast();
  changed_.NotifyAll();
}

void ShardVariableStore::Shutdown() {
  MutexLock lock(&mutex_);
  closing_ = true;
  for (const auto& flight : flights_) flight->wake = absl::InfinitePast();
  changed_.NotifyAll();
  while (active_ > 0) changed_.Wait(&mutex_);
}

absl::Status ShardVariableStore::WhyStopped(const Flight& flight) const {
  if (closing_) return absl::CancelledError("the store is shut down");
  if (!has_view_ || flight.exchange.lineage != view_.lineage) return absl::AbortedError("moved");
  return absl::OkStatus();
}

ShardVariableStore::Flight* ShardVariableStore::NextFlight(absl::Time now, absl::Time* wake) {
  *wake = absl::InfiniteFuture();
  Flight* next = nullptr;
  for (const auto& flight : flights_) {
    const bool is_queued = flight->stage == Stage::kQueued;
    if (!is_queued && flight->stage != Stage::kPulled) continue;
    if (is_queued && flight->wake > now) {
      *wake = std::min(*wake, flight->wake);
    } else if (next == nullptr || flight->order < next->order) {
      next = flight.get();
    }
  }
  return next;
}

void ShardVariableStore::Run() {
  while (true) {
    Flight* flight = nullptr;
    bool is_pulled = false;
    absl::Status stopped;
    {
      MutexLock lock(&mutex_);
      absl::Time wake;
      flight = NextFlight(clock_->Now(), &wake);
      if (flight == nullptr) {
        if (closed_) return;
        clock_->WaitUntil(wake, &mutex_, &changed_);
        continue;
      }
      is_pulled = flight->stage == Stage::kPulled;
      flight->stage = Stage::kWorking;
      stopped = WhyStopped(*flight);
      flight->identity.set_term(view_.term);
      flight->identity.set_view(view_.view);
      flight->receiver_incarnation = view_.ps_incarnations.empty() ? 0 : view_.ps_incarnations[0];
    }
    if (!stopped.ok()) {
      End(flight, stopped);
    } else if (is_pulled) {
      if (flight->status.ok()) TakeValues(flight);
      EndOrRepeat(flight, flight->status);
    } else {
      Attempt(flight);
    }
  }
}

void ShardVariableStore::Attempt(Flight* flight) {
  flight->identity.set_lineage(flight->exchange.lineage);
  absl::StatusOr<ParameterShard::Access> access =
      shard_->Enter(flight->identity, flight->receiver_incarnation);
  if (!access.ok()) {
    EndOrRepeat(flight, access.status());
    return;
  }
  flight->access = *std::move(access);
  const absl::Status pushed = flight->exchange.push ? PushAll(flight) : absl::OkStatus();
  if (!pushed.ok() || !flight->exchange.pull) {
    EndOrRepeat(flight, pushed);
  } else {
    Pull(flight);
  }
}

absl::Status ShardVariableStore::PushAll(Flight* flight) {
  const Exchange& exchange = flight->exchange;
  const ExchangeGroup& group = *flight->group;
  for (size_t place = 0; place < group.slices.size(); ++place) {
    if (exchange.push_data[place] == nullptr || !flight->IsUnsettled(place)) continue;
    SlicePush push;
    push.slice = group.slices[place];
    if (exchange.push_kinds != nullptr) push.kind = exchange.push_kinds[place];
    push.batch = exchange.batch;
    push.step = exchange.step;
    push.position = exchange.position;
    push.examples = exchange.batch_examples;
    if (exchange.pulled_versions != nullptr) push.pulled_version = exchange.pulled_versions[place];
    push.data = exchange.push_data[place];
    push.bytes = exchange.push_bytes != nullptr ? exchange.push_bytes[place]
                                                : (*flight->access.table)[push.slice].num_bytes();
    push.report = &exchange.report;
    ASSIGN_OR_RETURN(flight->outcomes[place], shard_->Push(flight->access, push));
    if (flight->outcomes[place] == PushOutcome::kCorrupt) {
      return absl::InternalError("a contribution does not fit its slice");
    }
  }
  return absl::OkStatus();
}

void ShardVariableStore::Pull(Flight* flight) {
  const Exchange& exchange = flight->exchange;
  flight->slices.clear();
  flight->rows.clear();
  flight->places.clear();
  for (uint32_t place = 0; place < flight->group->slices.size(); ++place) {
    const bool wanted =
        exchange.versions_only || flight->group->buckets || exchange.pull_data[place] != nullptr;
    if (!wanted || flight->pulls[place].has_value) continue;
    flight->slices.push_back(flight->group->slices[place]);
    flight->places.push_back(place);
    if (flight->group->buckets && !exchange.versions_only) {
      flight->rows.push_back(exchange.pull_rows[place]);
    }
  }
  flight->version = exchange.pull_version;
  flight->versions_only = exchange.versions_only;
  // The caller has to act first if a push came to anything else.
  const bool may_wait =
      std::all_of(flight->outcomes.begin(), flight->outcomes.end(), [](PushOutcome outcome) {
        return outcome == PushOutcome::kNone || outcome == PushOutcome::kAccepted ||
               outcome == PushOutcome::kDuplicate;
      });
  flight->park = may_wait ? exchange.park : absl::ZeroDuration();
  {
    MutexLock lock(&mutex_);
    flight->stage = Stage::kParked;
  }
  shard_->Pull(flight->access, flight);
}

// Runs on any thread.
void ShardVariableStore::OnPulled(Flight* flight) {
  MutexLock lock(&mutex_);
  flight->stage = Stage::kPulled;
  changed_.NotifyAll();
}

void ShardVariableStore::TakeValues(Flight* flight) {
  for (size_t i = 0; i < flight->places.size(); ++i) {
    const uint32_t place = flight->places[i];
    const PullAnswer& answer = flight->answers[i];
    PulledSlice& pulled = flight->pulls[place];
    pulled.version = answer.version;
    if (answer.state != PullAnswer::kValue) continue;
    pulled.value_version = answer.value_version;
    pulled.has_value = true;
    if (flight->group->buckets) continue;  // The shard has written the rows' values.
    std::memcpy(flight->exchange.pull_data[place], answer.value->data(),
                answer.value->size() * sizeof(float));
  }
  flight->answers.clear();
}

void ShardVariableStore::EndOrRepeat(Flight* flight, const absl::Status& status) {
  flight->access = {};
  // ABORTED: the shard is at a newer lineage, term or incarnation than we; the chief will tell us
  // too.
  if (MayHeal(status)) {
    Repeat(flight, kWait);
    return;
  }
  const bool is_busy = std::find(flight->outcomes.begin(), flight->outcomes.end(),
                                 PushOutcome::kBusy) != flight->outcomes.end();
  if (status.ok() && is_busy && clock_->Now() - flight->started < kBusyPatience) {
    Repeat(flight, kBusyWait);
    return;
  }
  if (!status.ok()) LOG(WARNING) << "an exchange with this process's shard fails: " << status;
  End(flight, status);
}

void ShardVariableStore::Repeat(Flight* flight, absl::Duration wait) {
  MutexLock lock(&mutex_);
  flight->stage = Stage::kQueued;
  flight->wake = WhyStopped(*flight).ok() ? clock_->Now() + wait : absl::InfinitePast();
}

void ShardVariableStore::End(Flight* flight, const absl::Status& status) {
  flight->answers.clear();
  absl::Status final_status;
  {
    MutexLock lock(&mutex_);
    final_status = WhyStopped(*flight);
    if (final_status.ok()) final_status = status;
    flight->stage = Stage::kEnding;
  }
  const Done done = std::move(flight->done);
  done({final_status, flight->outcomes, flight->pulls, flight->missing_positions});
  MutexLock lock(&mutex_);
  flight->stage = Stage::kFree;
  --active_;
  changed_.NotifyAll();
}

}  // namespace shoal
