#include "runtime/exchange/remote_exchanges.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/log.h"
#include "runtime/cluster/task.h"
#include "runtime/exchange/exchange_attempts.h"
#include "runtime/exchange/exchange_flight.h"
#include "runtime/rpc/refused_connection.h"
#include "runtime/rpc/retry.h"

namespace shoal {
namespace {

// The time between two log lines about an exchange that has no answer.
constexpr absl::Duration kLogPeriod = absl::Seconds(10);
// The time between two checks of channels that are still used.
constexpr absl::Duration kLookAgain = absl::Milliseconds(10);

}  // namespace

RemoteExchanges::RemoteExchanges(const SliceTable& table, Options options, const Clock* clock,
                                 std::function<void()> on_due)
    : table_(table),
      options_(std::move(options)),
      clock_(clock),
      on_due_(std::move(on_due)),
      busy_steps_(options_.groups.size()) {
  for (const ExchangeGroup& group : options_.groups) {
    for (int i = 0; i < VariableStore::kFlightsPerGroup; ++i) {
      const uint64_t seed = options_.incarnation << 32 | flights_.size();
      flights_.push_back(std::make_unique<Flight>(this, &group, seed, /*probe=*/false));
    }
    if (group.ps >= calls_.size()) calls_.resize(group.ps + 1);
  }
  std::set<uint32_t> seen;
  for (const ExchangeGroup& group : options_.groups) {
    if (!seen.insert(group.ps).second) continue;
    const uint64_t seed = options_.incarnation << 32 | flights_.size();
    flights_.push_back(std::make_unique<Flight>(this, &group, seed, /*probe=*/true));
  }
}

RemoteExchanges::~RemoteExchanges() = default;

absl::Status RemoteExchanges::WhyStopped(const Flight& flight) const {
  if (closing_) return absl::CancelledError("the store is shut down");
  if (flight.is_probe) return absl::OkStatus();
  if (!links_.has_view() || flight.lineage != links_.view().lineage) {
    return absl::AbortedError("moved");
  }
  return absl::OkStatus();
}

void RemoteExchanges::Start(const Exchange& exchange, Done done) {
  Flight* flight = nullptr;
  bool send = false;
  {
    MutexLock lock(&mutex_);
    for (int i = 0; i < VariableStore::kFlightsPerGroup && flight == nullptr; ++i) {
      Flight* candidate = flights_[exchange.group * VariableStore::kFlightsPerGroup + i].get();
      if (candidate->stage == Stage::kFree) flight = candidate;
    }
    CHECK(flight != nullptr) << "group " << exchange.group << ": too many exchanges under way";
    ++active_;
    flight->done = std::move(done);
    flight->lineage = exchange.lineage;
    flight->started = clock_->Now();
    flight->wait.Reset();
    flight->busy_wait.Reset();
    flight->next_log = flight->started + kLogPeriod;
    send = WhyStopped(*flight).ok();
    flight->stage = send ? Stage::kSending : Stage::kWaiting;
    flight->wake = absl::InfinitePast();
    flight->attempts.Reset(exchange);
    const BusyStep& busy = busy_steps_[exchange.group];
    if (exchange.push && busy.lineage == exchange.lineage && busy.step == exchange.step) {
      flight->attempts.AskForRoom(VariableStore::kBusyPatience);
    }
    if (!send) on_due_();
  }
  if (send) Send(flight);
}

std::vector<RemoteExchanges::Link> RemoteExchanges::CheckLinks() {
  MutexLock lock(&mutex_);
  if (closing_) return {};
  for (const auto& flight : flights_) {
    if (!flight->is_probe || flight->stage != Stage::kFree) continue;
    if (flight->ps >= links_.all().size() || links_.all()[flight->ps].is_proven) continue;
    if (links_.channel(flight->ps) == nullptr) continue;
    Exchange exchange;
    exchange.group = static_cast<uint32_t>(flight->attempts.group() - options_.groups.data());
    exchange.lineage = links_.view().lineage;
    exchange.pull = true;
    exchange.versions_only = true;
    ++active_;
    flight->attempts.Reset(exchange);
    flight->started = clock_->Now();
    flight->wait.Reset();
    flight->next_log = flight->started + kLogPeriod;
    flight->stage = Stage::kWaiting;
    flight->wake = absl::InfinitePast();
    on_due_();
  }
  // A ps without slices is never asked for anything.
  std::vector<Link> links(links_.all().size(), Link{/*is_proven=*/true});
  for (const auto& flight : flights_) {
    if (flight->is_probe && flight->ps < links.size()) links[flight->ps] = links_.all()[flight->ps];
  }
  return links;
}

void RemoteExchanges::NoteLink(const Flight& flight, bool answered) {
  if (!answered && (flight.cut_short || closing_)) return;  // We have ended the attempt.
  links_.NoteResult(flight.ps, flight.channel, answered, flight.sent, clock_->Now());
}

void RemoteExchanges::Send(Flight* flight) {
  std::shared_ptr<BulkChannel> channel;
  uint64_t receiver_incarnation = 0;
  uint64_t send = 0;
  const auto parking = flight->attempts.parking();
  bool may_park = false;
  {
    MutexLock lock(&mutex_);
    channel = links_.channel(flight->ps);
    const bool must_park = parking == ExchangeAttempts::Parking::kAlways;
    if (channel != nullptr && !HasPlace(flight->ps, must_park)) {
      flight->stage = Stage::kWaiting;
      flight->wake = absl::InfiniteFuture();
      flight->queued = ++last_queued_;
      flight->must_park = must_park;
      ++calls_[flight->ps].queued;
      return;
    }
    if (channel != nullptr) {
      receiver_incarnation = links_.incarnation(flight->ps);
      may_park = parking != ExchangeAttempts::Parking::kNever && HasPlace(flight->ps, true);
      ++calls_[flight->ps].all;
      calls_[flight->ps].parked += may_park ? 1 : 0;
    }
    flight->is_parked = may_park;
    const StoreView& view = links_.view();
    flight->identity.set_term(view.term);
    flight->identity.set_view(view.view);
    flight->channel = channel;
    flight->cut_short = false;
    flight->sent = clock_->Now();
    flight->identity.set_lineage(flight->is_probe ? view.lineage : flight->lineage);
    send = ++flight->sends;
  }
  if (channel == nullptr) {
    EndOrWait(flight, absl::UnavailableError("the ps is not there"));
    return;
  }
  flight->identity.set_run_id(options_.run_id);
  *flight->identity.mutable_member() = ToProto(TaskId{Job::kWorker, options_.worker_index});
  flight->identity.set_incarnation(options_.incarnation);
  flight->with_checksums = channel->needs_checksums();
  flight->attempts.FillRequest(flight->identity, receiver_incarnation, flight->with_checksums,
                               may_park, flight);
  channel->Start(flight);
  // A view that came meanwhile could not cancel what had not been started.
  MutexLock lock(&mutex_);
  if (flight->sends == send && flight->cut_short) channel->Cancel(flight);
}

void RemoteExchanges::OnReply(Flight* flight, const absl::Status& status, absl::string_view header,
                              PayloadReader* payload) {
  {
    MutexLock lock(&mutex_);
    // A ps may answer UNAVAILABLE itself, because it does not know the worker's incarnation yet.
    NoteLink(*flight, flight->is_answered || !IsOutcomeUnknown(status));
    OnCallEnded(flight);
  }
  if (absl::IsDataLoss(status)) {
    const absl::Status damage = flight->attempts.TakeDamagedHeader();
    EndOrWait(flight, damage.ok() ? absl::UnavailableError(status.message()) : damage);
    return;
  }
  if (!status.ok()) {
    EndOrWait(flight, status);
    return;
  }
  if (flight->is_probe) {
    End(flight, status);
    return;
  }
  auto next = ExchangeAttempts::Next::kDone;
  const absl::Status taken =
      flight->attempts.TakeReply(header, payload, flight->with_checksums, &next);
  if (!taken.ok()) {
    EndOrWait(flight, taken);
    return;
  }
  switch (next) {
    case ExchangeAttempts::Next::kDone:
      End(flight, taken);
      break;
    case ExchangeAttempts::Next::kRetry:
      WaitAndSend(flight, flight->wait.Next());
      break;
    case ExchangeAttempts::Next::kSend:
      WaitAndSend(flight, absl::ZeroDuration());
      break;
    case ExchangeAttempts::Next::kRetryBusy:
      AskForRoom(flight, absl::ZeroDuration());
      break;
    case ExchangeAttempts::Next::kNoRoom:
      AskForRoom(flight, flight->busy_wait.Next());
      break;
  }
}

void RemoteExchanges::AskForRoom(Flight* flight, absl::Duration wait) {
  const absl::Duration patience =
      VariableStore::kBusyPatience - (clock_->Now() + wait - flight->started);
  const Exchange& exchange = flight->attempts.exchange();
  {
    MutexLock lock(&mutex_);
    busy_steps_[exchange.group] = {exchange.lineage, exchange.step};
  }
  if (patience <= absl::ZeroDuration()) {
    End(flight, absl::OkStatus());
    return;
  }
  flight->attempts.AskForRoom(patience);
  WaitAndSend(flight, wait);
}

void RemoteExchanges::EndOrWait(Flight* flight, const absl::Status& status) {
  // ABORTED: the ps knows a newer lineage, term or incarnation than we; the chief will tell us too.
  const bool is_answer = flight->is_probe && !IsOutcomeUnknown(status);
  if (!is_answer && MayHeal(status)) {
    const absl::Time now = clock_->Now();
    if (now >= flight->next_log) {
      flight->next_log = now + kLogPeriod;
      LogFailure(*flight, now - flight->started, status);
    }
    WaitAndSend(flight, flight->wait.Next());
  } else {
    if (!is_answer) LOG(WARNING) << "exchange with ps/" << flight->ps << " fails: " << status;
    End(flight, status);
  }
}

void RemoteExchanges::LogFailure(const Flight& flight, absl::Duration age,
                                 const absl::Status& status) {
  std::string address;
  {
    MutexLock lock(&mutex_);
    address = links_.address(flight.ps);
  }
  LOG(WARNING) << "ps/" << flight.ps << " has not accepted an exchange for "
               << absl::FormatDuration(absl::Trunc(age, absl::Seconds(1))) << ": "
               << DescribeFailure(status, address, options_.secure);
}

void RemoteExchanges::WaitAndSend(Flight* flight, absl::Duration wait) {
  MutexLock lock(&mutex_);
  flight->wake = WhyStopped(*flight).ok() ? clock_->Now() + wait : absl::InfinitePast();
  flight->channel = nullptr;
  flight->stage = Stage::kWaiting;
  on_due_();
}

void RemoteExchanges::End(Flight* flight, const absl::Status& status) {
  Done done;
  absl::Status final_status;
  {
    MutexLock lock(&mutex_);
    final_status = WhyStopped(*flight);
    if (final_status.ok()) final_status = status;
    flight->channel = nullptr;
    flight->stage = Stage::kEnding;
    done = std::move(flight->done);
  }
  if (!flight->is_probe) done(flight->attempts.result(final_status));
  MutexLock lock(&mutex_);
  flight->stage = Stage::kFree;
  --active_;
  if (closing_) on_due_();
}

void RemoteExchanges::SetView(const StoreView& view) {
  MutexLock one_at_a_time(&setting_view_);
  std::vector<bool> moved;
  {
    MutexLock lock(&mutex_);
    if (closing_ || links_.IsOutdated(view)) return;
    moved = links_.FindMoved(view);
  }
  // Connects without the lock, because a ps that does not answer takes a while.
  std::vector<std::shared_ptr<BulkChannel>> channels(moved.size());
  for (size_t ps = 0; ps < view.ps_addresses.size(); ++ps) {
    const std::string& address = view.ps_addresses[ps];
    if (moved[ps] && !address.empty()) channels[ps] = options_.connect(address);
  }
  MutexLock lock(&mutex_);
  if (closing_) return;
  links_.Take(view, moved, std::move(channels));
  CancelStoppedFlights(moved);
  on_due_();
}

void RemoteExchanges::CancelStoppedFlights(const std::vector<bool>& ps_moved) {
  for (const auto& flight : flights_) {
    const bool moved = flight->ps < ps_moved.size() && ps_moved[flight->ps];
    if (!moved && WhyStopped(*flight).ok()) continue;
    if (flight->stage == Stage::kWaiting) flight->wake = absl::InfinitePast();
    if (flight->stage != Stage::kSending) continue;
    flight->cut_short = true;
    if (flight->channel != nullptr) flight->channel->Cancel(flight.get());
  }
}

void RemoteExchanges::Close() {
  MutexLock lock(&mutex_);
  closing_ = true;
  CancelStoppedFlights({});
  links_.Close();
  on_due_();
}

bool RemoteExchanges::is_idle() {
  MutexLock lock(&mutex_);
  return active_ == 0 && !links_.has_retired() && !dropping_;
}

void RemoteExchanges::OnCallEnded(Flight* flight) {
  --calls_[flight->ps].all;
  calls_[flight->ps].parked -= flight->is_parked ? 1 : 0;
  flight->is_parked = false;
  if (calls_[flight->ps].queued > 0) on_due_();
}

bool RemoteExchanges::HasPlace(uint32_t ps, bool must_park) const {
  return calls_[ps].all < kMaxCallsOfPs && (!must_park || calls_[ps].parked < kMaxParkedCallsOfPs);
}

RemoteExchanges::Flight* RemoteExchanges::NextWaiting(absl::Time now, absl::Time* wake) {
  *wake = absl::InfiniteFuture();
  Flight* next = nullptr;
  for (const auto& flight : flights_) {
    if (flight->stage != Stage::kWaiting) continue;
    if (flight->wake <= now) return flight.get();
    *wake = std::min(*wake, flight->wake);
    if (flight->queued == 0 || !HasPlace(flight->ps, flight->must_park)) continue;
    if (next == nullptr || flight->queued < next->queued) next = flight.get();
  }
  return next;
}

absl::Time RemoteExchanges::RunDue() {
  while (true) {
    DropRetired();
    Flight* flight = nullptr;
    absl::Status stopped;
    {
      MutexLock lock(&mutex_);
      const absl::Time now = clock_->Now();
      absl::Time wake;
      flight = NextWaiting(now, &wake);
      if (flight == nullptr) return links_.has_retired() ? std::min(wake, now + kLookAgain) : wake;
      flight->stage = Stage::kSending;
      if (std::exchange(flight->queued, 0) > 0) --calls_[flight->ps].queued;
      stopped = WhyStopped(*flight);
    }
    if (stopped.ok()) {
      Send(flight);
    } else {
      End(flight, stopped);
    }
  }
}

void RemoteExchanges::DropRetired() {
  std::vector<std::shared_ptr<BulkChannel>> dropped;
  {
    MutexLock lock(&mutex_);
    dropped = links_.TakeUnused();
    if (dropped.empty()) return;
    dropping_ = true;
  }
  dropped.clear();
  MutexLock lock(&mutex_);
  dropping_ = false;
}

}  // namespace shoal
