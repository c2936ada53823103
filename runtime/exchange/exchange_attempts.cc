#include "runtime/exchange/exchange_attempts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "base/crc32c.h"
#include "base/status_macros.h"
#include "proto/v1/bulk.pb.h"
#include "runtime/variables/metric_messages.h"

namespace shoal {
namespace {

// Damage in transit happens once; damage every time is a bug that must be reported to the caller.
constexpr int kMaxDamagedReplies = 8;

// Two seconds, and time for the bytes over a slow network.
absl::Duration TimeoutFor(uint64_t bytes) {
  const absl::Duration transfer = absl::Microseconds(static_cast<int64_t>(bytes / 20));
  return std::min(absl::Seconds(2) + transfer, absl::Seconds(60));
}

}  // namespace

ExchangeAttempts::ExchangeAttempts(const SliceTable* table, const ExchangeGroup* group)
    : table_(table),
      group_(group),
      has_report_slice_(std::find(group->slices.begin(), group->slices.end(),
                                  table->report_slice()) != group->slices.end()),
      request_(std::make_unique<v1::ExchangeRequest>()),
      response_(std::make_unique<v1::ExchangeResponse>()) {}

ExchangeAttempts::~ExchangeAttempts() = default;

void ExchangeAttempts::Reset(const Exchange& exchange) {
  exchange_ = exchange;
  damaged_replies_ = 0;
  asks_for_room_ = false;
  const size_t size = group_->slices.size();
  outcomes_.assign(exchange.push ? size : 0, PushOutcome::kNone);
  pulls_.assign(exchange.pull ? size : 0, PulledSlice());
  pull_settled_.assign(size, 0);
  missing_positions_.clear();
}

void ExchangeAttempts::AskForRoom(absl::Duration park) {
  asks_for_room_ = true;
  room_park_ = park;
  for (uint32_t place = 0; place < outcomes_.size(); ++place) {
    const bool is_sent = exchange_.push_data[place] != nullptr;
    if (is_sent && outcomes_[place] == PushOutcome::kNone) outcomes_[place] = PushOutcome::kBusy;
  }
}

bool ExchangeAttempts::IsUnsettled(PushOutcome outcome) const {
  return outcome == PushOutcome::kNone || outcome == PushOutcome::kBusy ||
         (outcome == PushOutcome::kCorrupt && damaged_replies_ < kMaxDamagedReplies);
}

bool ExchangeAttempts::HasUnsettledPush() const {
  for (size_t place = 0; place < outcomes_.size(); ++place) {
    if (exchange_.push_data[place] != nullptr && IsUnsettled(outcomes_[place])) return true;
  }
  return false;
}

ExchangeAttempts::Parking ExchangeAttempts::parking() const {
  if (asks_for_room_) return Parking::kOptional;
  if (!PullsWait()) return Parking::kNever;
  return HasUnsettledPush() ? Parking::kOptional : Parking::kAlways;
}

void ExchangeAttempts::FillRequest(const v1::Identity& sender, uint64_t receiver_incarnation,
                                   bool with_checksums, bool may_park, BulkCall* call) {
  request_->Clear();
  *request_->mutable_identity() = sender;
  request_->set_receiver_incarnation(receiver_incarnation);
  call->payloads.clear();
  uint64_t bytes = 0;  // those of the payloads, and of the values in the reply
  ChooseParts(may_park);
  const bool pulls = exchange_.pull && !asks_for_room_ && !(has_more_ && sent_pulls_.empty());
  if (pulls) AddPulls(with_checksums, call);
  if (exchange_.push) AddPushes(with_checksums, call);
  for (const PayloadRef& payload : call->payloads) bytes += payload.bytes;
  for (const uint32_t place : sent_pulls_) {
    if (!exchange_.versions_only) bytes += PulledBytes(place);
  }
  absl::Duration park;
  if (asks_for_room_ && may_park) park = room_park_;
  if (pulls && PullsWait()) park = exchange_.park;
  request_->set_park_milliseconds(static_cast<uint32_t>(absl::ToInt64Milliseconds(park)));
  request_->set_asks_for_room(asks_for_room_);
  call->header.clear();
  request_->AppendToString(&call->header);
  call->timeout = TimeoutFor(bytes) + park;
}

void ExchangeAttempts::ChooseParts(bool may_park) {
  sent_pushes_.clear();
  sent_pulls_.clear();
  has_more_ = false;
  const bool is_divided = group_->buckets && !asks_for_room_;
  uint64_t request_bytes = 0, reply_bytes = 0;
  // Returns whether the message has room; its first part always does.
  const auto has_room = [is_divided](uint64_t bytes, uint64_t more) {
    return !is_divided || bytes == 0 || bytes + more <= kDefaultMaxBulkPayloadBytes;
  };
  for (uint32_t place = 0; exchange_.push && place < group_->slices.size(); ++place) {
    if (exchange_.push_data[place] == nullptr || !IsUnsettled(outcomes_[place])) continue;
    const uint64_t bytes = PushedBytes(place);
    has_more_ = !has_room(request_bytes, bytes);
    if (has_more_) return;
    request_bytes += bytes;
    sent_pushes_.push_back(place);
  }
  if (!exchange_.pull || asks_for_room_) return;
  has_more_ = !may_park && !sent_pushes_.empty() && PullsWait();
  if (has_more_) return;
  for (uint32_t place = 0; place < group_->slices.size(); ++place) {
    const bool wanted =
        exchange_.versions_only || group_->buckets || exchange_.pull_data[place] != nullptr;
    if (!wanted || pull_settled_[place]) continue;
    const bool has_keys = group_->buckets && !exchange_.versions_only;
    const uint64_t key_bytes =
        has_keys ? exchange_.pull_rows[place].num_keys * sizeof(uint64_t) : 0;
    const uint64_t bytes = has_keys ? PulledBytes(place) : 0;
    has_more_ = !has_room(request_bytes, key_bytes) || !has_room(reply_bytes, bytes);
    if (has_more_) return;
    request_bytes += key_bytes;
    reply_bytes += bytes;
    sent_pulls_.push_back(place);
  }
}

bool ExchangeAttempts::PullsWait() const {
  if (!exchange_.pull || exchange_.versions_only || exchange_.park <= absl::ZeroDuration()) {
    return false;
  }
  return std::all_of(outcomes_.begin(), outcomes_.end(), [this](PushOutcome outcome) {
    return outcome == PushOutcome::kAccepted || outcome == PushOutcome::kDuplicate ||
           IsUnsettled(outcome);
  });
}

void ExchangeAttempts::AddPushes(bool with_checksums, BulkCall* call) {
  *request_->mutable_batch() = ToProto(exchange_.batch);
  request_->set_batch_examples(exchange_.batch_examples);
  request_->set_step(exchange_.step);
  request_->set_position(exchange_.position);
  for (const uint32_t place : sent_pushes_) {
    const void* data = exchange_.push_data[place];
    const uint64_t bytes = PushedBytes(place);
    v1::ExchangeRequest::Push* push = request_->add_pushes();
    push->set_slice(group_->slices[place]);
    push->set_kind(exchange_.push_kinds != nullptr
                       ? static_cast<v1::ContributionKind>(exchange_.push_kinds[place])
                       : v1::CONTRIBUTION_KIND_DENSE);
    push->set_payload_bytes(static_cast<uint32_t>(bytes));
    if (asks_for_room_) continue;
    if (with_checksums) push->set_crc32c(Crc32c(data, bytes));
    if (exchange_.pulled_versions != nullptr) {
      push->set_pulled_version(exchange_.pulled_versions[place]);
    }
    call->payloads.push_back({data, bytes, nullptr, nullptr});
  }
  if (!has_report_slice_ || asks_for_room_) return;
  v1::ExchangeRequest::BatchReport* report = request_->mutable_report();
  report->set_loss_sum(exchange_.report.loss_sum);
  report->set_regularization(exchange_.report.regularization);
  report->set_correct(exchange_.report.correct);
  report->set_examples(exchange_.report.examples);
  ToProto(exchange_.report.metrics, report->mutable_metrics());
}

void ExchangeAttempts::AddPulls(bool with_checksums, BulkCall* call) {
  request_->set_pull_version(exchange_.pull_version);
  request_->set_versions_only(exchange_.versions_only);
  for (const uint32_t place : sent_pulls_) {
    request_->add_pulls(group_->slices[place]);
    if (group_->buckets && !exchange_.versions_only) {
      request_->add_pull_keys(exchange_.pull_rows[place].num_keys);
      AddKeys(exchange_.pull_rows[place], call);
    }
  }
  if (!with_checksums) return;
  uint32_t crc = 0;
  for (const PayloadRef& keys : call->payloads) crc = ExtendCrc32c(crc, keys.data, keys.bytes);
  request_->set_pull_keys_crc32c(crc);
}

// The keys of consecutive buckets usually lie side by side; then they are one payload.
void ExchangeAttempts::AddKeys(const RowPull& rows, BulkCall* call) {
  if (rows.num_keys == 0) return;
  const size_t bytes = rows.num_keys * sizeof(uint64_t);
  if (!call->payloads.empty()) {
    PayloadRef& last = call->payloads.back();
    if (static_cast<const char*>(last.data) + last.bytes ==
        reinterpret_cast<const char*>(rows.keys)) {
      last.bytes += bytes;
      return;
    }
  }
  call->payloads.push_back({rows.keys, bytes, nullptr, nullptr});
}

absl::Status ExchangeAttempts::TakeReply(absl::string_view header, PayloadReader* payload,
                                         bool with_checksums, Next* next) {
  if (!response_->ParseFromArray(header.data(), static_cast<int>(header.size()))) {
    return absl::InternalError("bulk reply: the header is not an ExchangeResponse");
  }
  missing_positions_.assign(response_->missing_positions().begin(),
                            response_->missing_positions().end());
  if (asks_for_room_) {
    *next = TakeRoom();
    return absl::OkStatus();
  }
  bool push_damaged = false;
  bool pull_damaged = false;
  if (exchange_.push) RETURN_IF_ERROR(TakeOutcomes(&push_damaged));
  if (exchange_.pull) RETURN_IF_ERROR(TakePulls(payload, with_checksums, &pull_damaged));
  if (push_damaged || pull_damaged) ++damaged_replies_;
  if (pull_damaged && damaged_replies_ >= kMaxDamagedReplies) {
    return absl::DataLossError("values arrive damaged each time that they are sent");
  }
  bool damaged = pull_damaged;
  bool busy = false;
  if (exchange_.push) {
    for (uint32_t place : sent_pushes_) {
      if (!IsUnsettled(outcomes_[place])) continue;
      (outcomes_[place] == PushOutcome::kBusy ? busy : damaged) = true;
    }
  }
  // A ps that does not have the version of one pull does not have that of the others.
  const bool goes_on = has_more_ && std::all_of(sent_pulls_.begin(), sent_pulls_.end(),
                                                [this](uint32_t p) { return pull_settled_[p]; });
  *next = damaged ? Next::kRetry : busy ? Next::kRetryBusy : goes_on ? Next::kSend : Next::kDone;
  return absl::OkStatus();
}

ExchangeAttempts::Next ExchangeAttempts::TakeRoom() {
  if (!response_->has_room()) return Next::kNoRoom;
  asks_for_room_ = false;
  return Next::kSend;
}

absl::Status ExchangeAttempts::TakeDamagedHeader() {
  if (++damaged_replies_ < kMaxDamagedReplies) return absl::OkStatus();
  return absl::DataLossError("headers arrive damaged each time that they are sent");
}

absl::Status ExchangeAttempts::TakeOutcomes(bool* damaged) {
  if (static_cast<size_t>(response_->outcomes_size()) != sent_pushes_.size()) {
    return absl::InternalError(absl::StrCat("bulk reply: ", response_->outcomes_size(),
                                            " outcomes for ", sent_pushes_.size(), " pushes"));
  }
  for (size_t i = 0; i < sent_pushes_.size(); ++i) {
    const int outcome = response_->outcomes(static_cast<int>(i));
    if (outcome <= 0 || !v1::PushOutcome_IsValid(outcome)) {
      return absl::InternalError(absl::StrCat("bulk reply: no push outcome has number ", outcome));
    }
    outcomes_[sent_pushes_[i]] = static_cast<PushOutcome>(outcome);
    if (outcome == v1::PUSH_OUTCOME_CORRUPT) *damaged = true;
  }
  return absl::OkStatus();
}

uint64_t ExchangeAttempts::PushedBytes(uint32_t place) const {
  return exchange_.push_bytes != nullptr ? exchange_.push_bytes[place] : BytesOf(place);
}

uint64_t ExchangeAttempts::PulledBytes(uint32_t place) const {
  if (!group_->buckets) return BytesOf(place);
  const uint32_t variable = (*table_)[group_->slices[place]].variable;
  return exchange_.pull_rows[place].num_keys * table_->row_elements_of(variable) * sizeof(float);
}

absl::Status ExchangeAttempts::TakePulls(PayloadReader* payload, bool with_checksums,
                                         bool* damaged) {
  if (static_cast<size_t>(response_->pulls_size()) != sent_pulls_.size()) {
    return absl::InternalError(absl::StrCat("bulk reply: ", response_->pulls_size(), " slices for ",
                                            sent_pulls_.size(), " pulls"));
  }
  for (size_t i = 0; i < sent_pulls_.size(); ++i) {
    const v1::ExchangeResponse::Pull& pull = response_->pulls(static_cast<int>(i));
    const uint32_t place = sent_pulls_[i];
    const uint64_t bytes = pull.payload_bytes();
    const bool has_value = group_->buckets ? pull.has_value() : bytes != 0;
    if (pull.slice() != group_->slices[place] || (bytes != 0 && !has_value) ||
        (has_value && (exchange_.versions_only || bytes != PulledBytes(place)))) {
      return absl::InternalError(absl::StrCat("bulk reply: slice ", pull.slice(), " with ", bytes,
                                              " bytes in answer to slice ", group_->slices[place]));
    }
    PulledSlice& pulled = pulls_[place];
    pulled.version = pull.version();
    pulled.value_version = pull.value_version();
    pull_settled_[place] = has_value;
    pulled.has_value = has_value;
    if (bytes == 0) continue;
    uint32_t crc = 0;
    float* const to =
        group_->buckets ? exchange_.pull_rows[place].values : exchange_.pull_data[place];
    if (!payload->Copy(to, bytes, with_checksums ? &crc : nullptr)) {
      return absl::InternalError("bulk reply: the payload ends too early");
    }
    if (with_checksums && crc != pull.crc32c()) {
      *damaged = true;
      pulled = PulledSlice();
      pull_settled_[place] = false;
    }
  }
  return absl::OkStatus();
}

ExchangeResult ExchangeAttempts::result(const absl::Status& status) const {
  return {status, outcomes_, pulls_, missing_positions_};
}

}  // namespace shoal
