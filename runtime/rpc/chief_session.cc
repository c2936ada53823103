#include "runtime/rpc/chief_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "proto/v1/chief_service.grpc.pb.h"
#include "runtime/process/protocol_version.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/control_timeout.h"
#include "runtime/rpc/refused_connection.h"

namespace shoal {
namespace {

constexpr absl::Duration kLogWaitingEvery = absl::Seconds(5);
// The pause between two attempts to get a place that seems to be taken.
constexpr absl::Duration kDuplicatePause = absl::Milliseconds(200);

// The pause between heartbeats once the run is over, when the chief answers at once.
constexpr absl::Duration kPauseAtEnd = absl::Milliseconds(200);

// The part of the chief's lease in which a task may act: it must have stopped before the lease
// ends.
constexpr double kSafePart = 0.8;

// If the thread has not run for this time, the task was paused: it is longer than a heartbeat
// takes, even if the chief does not answer, and longer than the pause after it.
constexpr absl::Duration kLongestBeat = absl::Seconds(15);
static_assert(kLongestBeat > kControlTimeout, "a silent chief is not a pause of this task");

// Returns whether repeating a heartbeat is useless after this error, because one side does not
// accept the request or the answer of the other.
bool IsForGood(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || IsTooLarge(status);
}

// Refuses a request that gRPC would refuse with RESOURCE_EXHAUSTED. The chief's plan gives the same
// error for models that can be sent, but do not fit together with the run.
absl::Status CheckFitsAMessage(const v1::RegisterTaskRequest& request) {
  const size_t bytes = request.ByteSizeLong();
  if (bytes <= kMaxControlMessageBytes) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the model has ", request.model().variables_size(),
      " variables; their names and shapes take ", bytes, " bytes of a message that holds ",
      kMaxPlanBytes, ": use fewer variables or shorter names"));
}

}  // namespace

ChiefSession::ChiefSession(ChiefClient* client, const Clock* clock, Options options,
                           Observer* observer)
    : client_(client),
      clock_(clock),
      options_(std::move(options)),
      observer_(observer),
      retry_(clock),
      backoff_(Fingerprint64(options_.nonce)),
      identity_(std::make_unique<v1::Identity>()) {
  CHECK_GT(options_.lease, absl::ZeroDuration()) << "the run's times are not set";
  *identity_->mutable_member() = ToProto(options_.task);
}

ChiefSession::~ChiefSession() { Stop(); }

absl::Status ChiefSession::Check(const v1::ModelDeclaration& model) {
  return RegisterOnce(&model, /*only_check=*/true);
}

absl::Status ChiefSession::Register(const v1::ModelDeclaration* model) {
  absl::Status status = RegisterOnce(model);
  // Counts from the chief's first answer: a chief that was suspended has not seen the holder's
  // lease expire yet.
  const absl::Time give_up = clock_->Now() + options_.lease + options_.duplicate_patience;
  while (absl::IsAlreadyExists(status) && clock_->Now() < give_up) {
    LogWaiting(status);
    if (!retry_.Sleep(clock_->Now() + kDuplicatePause)) {
      return absl::CancelledError("stopped while another task has this place");
    }
    status = RegisterOnce(model);
  }
  return status;
}

void ChiefSession::StopRegistering() { retry_.Stop(); }

void ChiefSession::LogWaiting(const absl::Status& status) {
  const absl::Time now = clock_->Now();
  if (now < next_waiting_log_) return;
  next_waiting_log_ = now + kLogWaitingEvery;
  LOG(WARNING) << "waiting for the chief to register this task: " << status;
}

absl::Status ChiefSession::Judge(const absl::Status& answer) {
  if (IsOutcomeUnknown(answer) && options_.is_over != nullptr && options_.is_over()) {
    return absl::OutOfRangeError("the run is over");
  }
  const RefusedConnection refused = FindRefusal(answer, options_.secure);
  if (refused.why.empty()) {
    refused_since_ = absl::InfiniteFuture();
    if (IsOutcomeUnknown(answer)) LogWaiting(answer);
    return answer;
  }
  const absl::Time now = clock_->Now();
  refused_since_ = refused.certain ? std::min(refused_since_, now) : absl::InfiniteFuture();
  const std::string& address = options_.chief_address;
  const std::string why = absl::StrCat(
      address.empty() ? "" : "--chief_host: ", "no connection to the chief",
      address.empty() ? "" : " at ", address, ": ", refused.why, " (", ShortReason(answer), ")");
  if (refused.certain && now - refused_since_ >= options_.refused_patience) {
    return absl::FailedPreconditionError(why);
  }
  const absl::Status status = absl::UnavailableError(why);
  LogWaiting(status);
  return status;
}

absl::Status ChiefSession::NoAnswer(const absl::Status& last) const {
  const bool is_silent = absl::IsUnavailable(last) || absl::IsDeadlineExceeded(last);
  const bool says_all = absl::StartsWith(last.message(), "--chief_host: ");
  if (!is_silent || says_all || options_.chief_address.empty()) return last;
  return absl::Status(
      last.code(), absl::StrCat("--chief_host: ", options_.chief_address, " did not answer for ",
                                absl::FormatDuration(options_.register_patience), " (",
                                ShortReason(last), "); correct the address, or start the chief"));
}

absl::Status ChiefSession::RegisterOnce(const v1::ModelDeclaration* model, bool only_check) {
  v1::RegisterTaskRequest request;
  *request.mutable_identity() = identity();
  request.set_address(options_.address);
  if (model != nullptr) *request.mutable_model() = *model;
  if (options_.shared_run != nullptr) *request.mutable_run() = *options_.shared_run;
  request.set_run_directory(options_.run_directory);
  request.set_protocol(kProtocolVersion);
  request.set_num_ps_tasks(options_.num_ps_tasks);
  request.set_num_replicas(options_.num_replicas);
  request.set_nonce(options_.nonce);
  request.set_process_id(options_.process_id);
  request.set_host(options_.host);
  request.set_only_check(only_check);
  if (!options_.chief_address.empty()) RETURN_IF_ERROR(CheckFitsAMessage(request));
  v1::RegisterTaskResponse response;
  absl::Time sent;
  const absl::Status status = retry_.Run(options_.register_patience, backoff_, [&] {
    sent = clock_->Now();
    return Judge(client_->Call(&v1::ChiefService::Service::RegisterTask, request, &response));
  });
  if (!status.ok()) return NoAnswer(status);
  if (only_check) return absl::OkStatus();
  MutexLock lock(&mutex_);
  identity_->set_run_id(response.run_id());
  identity_->set_term(response.term());
  identity_->set_incarnation(response.incarnation());
  renewed_ = sent;
  return absl::OkStatus();
}

void ChiefSession::Start() {
  thread_ = std::thread([this] { Run(); });
}

void ChiefSession::Stop(Departure departure, const std::string& error) {
  retry_.Stop();
  {
    MutexLock lock(&mutex_);
    if (stopped_) return;
    stopping_ = stopped_ = true;
    changed_.NotifyAll();
  }
  if (!thread_.joinable()) return;
  thread_.join();
  if (departure == Departure::kNone) return;
  SendHeartbeat(departure, error, absl::ZeroDuration()).IgnoreError();
}

void ChiefSession::SetActivity(Activity activity) {
  MutexLock lock(&mutex_);
  activity_ = std::move(activity);
}

v1::Identity ChiefSession::identity() const {
  MutexLock lock(&mutex_);
  return *identity_;
}

bool ChiefSession::is_lease_valid() const {
  MutexLock lock(&mutex_);
  return clock_->Now() < renewed_ + kSafePart * options_.lease;
}

void ChiefSession::Run() {
  while (true) {
    const Beat beat = BeatOnce();
    if (beat == Beat::kEnd) return;
    absl::Duration wait = absl::ZeroDuration();
    if (beat == Beat::kRetry) {
      wait = backoff_.Next();
    } else if (is_over_) {
      wait = kPauseAtEnd;
    }
    if (!SleepUnlessStopped(wait)) return;
  }
}

void ChiefSession::NoticePause() {
  const absl::Time now = clock_->Now();
  if (now - last_look_ > kLongestBeat) resumed_ = now;
  last_look_ = now;
}

ChiefSession::Beat ChiefSession::BeatOnce() {
  NoticePause();
  const absl::Status status = SendHeartbeat(Departure::kNone, "", options_.heartbeat_wait);
  if (status.ok()) {
    backoff_.Reset();
    return Beat::kGood;
  }
  if (absl::IsAborted(status) || absl::IsFailedPrecondition(status)) {
    observer_->OnFenced(status);
    return Beat::kEnd;
  }
  if (IsForGood(status)) {
    observer_->OnFenced(absl::FailedPreconditionError(
        absl::StrCat("a heartbeat to the chief cannot be answered: ", status.message())));
    return Beat::kEnd;
  }
  NoticePause();
  const absl::Duration patience = std::max(options_.chief_lost_after, options_.lease);
  absl::Time renewed;
  {
    MutexLock lock(&mutex_);
    if (stopping_) return Beat::kEnd;
    renewed = renewed_;
  }
  if (last_look_ < std::max(renewed, resumed_) + patience) return Beat::kRetry;
  const std::string& address = options_.chief_address;
  observer_->OnChiefLost(absl::UnavailableError(absl::StrCat(
      "the chief", address.empty() ? "" : " at ", address, " is lost: it did not answer for ",
      absl::FormatDuration(patience), " (", ShortReason(status),
      "); restart it, then this task: the run resumes from its newest checkpoint")));
  return Beat::kEnd;
}

absl::Status ChiefSession::SendHeartbeat(Departure departure, const std::string& error,
                                         absl::Duration wait) {
  v1::HeartbeatRequest request;
  const absl::Time sent = clock_->Now();
  {
    MutexLock lock(&mutex_);
    *request.mutable_identity() = *identity_;
    request.set_known_state(known_state_);
    request.set_step(activity_.step);
    request.set_activity(activity_.words);
    request.set_computing(activity_.computing);
    request.set_computed(activity_.computed);
    for (const uint32_t ps : activity_.silent_ps) request.add_silent_ps(ps);
    request.set_reaches_all_ps(activity_.reaches_all_ps);
    if (activity_.batch.has_value()) *request.mutable_batch() = ToProto(*activity_.batch);
  }
  if (options_.add_to_heartbeat != nullptr) options_.add_to_heartbeat(&request);
  const bool leaving = departure != Departure::kNone;
  request.set_leaving(leaving);
  request.set_asked_to_leave(departure == Departure::kAskedToLeave);
  request.set_leaving_because(error);
  request.set_wait_milliseconds(static_cast<uint32_t>(absl::ToInt64Milliseconds(wait)));
  v1::HeartbeatResponse response;
  const absl::Status status =
      client_->Call(&v1::ChiefService::Service::Heartbeat, request, &response);
  if (!status.ok()) return status;
  {
    // Counts from the moment of sending: the chief cannot have counted from an earlier time.
    MutexLock lock(&mutex_);
    renewed_ = sent;
  }
  if (response.has_state() && !leaving) Take(response.state());
  return absl::OkStatus();
}

void ChiefSession::Take(const v1::RunState& state) {
  {
    MutexLock lock(&mutex_);
    if (state.number() <= known_state_) return;
    known_state_ = state.number();
    identity_->set_view(state.view());
    identity_->set_lineage(state.lineage());
  }
  is_over_ =
      state.phase() == v1::RunState::PHASE_DONE || state.phase() == v1::RunState::PHASE_FAILED;
  observer_->OnRunState(state);
}

bool ChiefSession::SleepUnlessStopped(absl::Duration wait) {
  const absl::Time until = clock_->Now() + wait;
  MutexLock lock(&mutex_);
  while (!stopping_ && clock_->WaitUntil(until, &mutex_, &changed_)) {
  }
  return !stopping_;
}

}  // namespace shoal
