#include "ps/exchange_service.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "base/crc32c.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "proto/v1/bulk.pb.h"
#include "ps/scratch_pool.h"
#include "runtime/variables/metric_messages.h"

namespace shoal {
namespace {

// The longest time to park a call: no client asks for more, so longer parking would only keep dead
// calls.
constexpr absl::Duration kLongestPark = absl::Seconds(30);

constexpr size_t kAlignment = 64;

}  // namespace

// Checksums of the values that are pulled now: many workers pull the same ones. Thread-safe.
class ValueChecksums {
 public:
  uint32_t Of(uint32_t slice, uint64_t lineage, const PullAnswer& answer) {
    {
      MutexLock lock(&mutex_);
      if (slice >= entries_.size()) entries_.resize(slice + 1);
      const Entry& entry = entries_[slice];
      if (entry.lineage == lineage && entry.value_version == answer.value_version) {
        return entry.crc32c;
      }
    }
    const VersionBuffer& value = *answer.value;
    const uint32_t crc32c = Crc32c(value.data(), value.size() * sizeof(float));
    MutexLock lock(&mutex_);
    entries_[slice] = {lineage, answer.value_version, crc32c};
    return crc32c;
  }

 private:
  struct Entry {
    uint64_t lineage = UINT64_MAX;
    uint64_t value_version = UINT64_MAX;
    uint32_t crc32c = 0;
  };
  Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

// A pool of Work objects. The one that was used last is taken first, because its scratch memory is
// still in the cache.
class ExchangeService::WorkPool {
 public:
  WorkPool(ParameterShard* shard, size_t max_payload_bytes, PsMetrics* metrics, size_t most_scratch)
      : shard(shard),
        max_payload_bytes(max_payload_bytes),
        metrics(metrics),
        scratch(most_scratch) {}

  std::unique_ptr<Work> Take() {
    MutexLock lock(&mutex_);
    if (free_.empty()) return nullptr;
    std::unique_ptr<Work> work = std::move(free_.back());
    free_.pop_back();
    return work;
  }
  void Give(std::unique_ptr<Work> work) {
    MutexLock lock(&mutex_);
    if (!closed_) free_.push_back(std::move(work));
  }
  // Works hold the pool, so it must let go of them.
  void Close() {
    std::vector<std::unique_ptr<Work>> free;
    MutexLock lock(&mutex_);
    closed_ = true;
    free.swap(free_);
  }

  ParameterShard* const shard;
  const size_t max_payload_bytes;
  PsMetrics* const metrics;
  ScratchPool scratch;
  ValueChecksums checksums;

 private:
  Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<Work>> free_ ABSL_GUARDED_BY(mutex_);
};

// One call from its arrival until the transport has released the last value of its reply.
class ExchangeService::Work : public PullWaiter, public ShardStrand::Job {
 public:
  explicit Work(std::shared_ptr<WorkPool> pool) : pool_(std::move(pool)) {}

  // Gives `work` back to its pool in the end.
  static void Serve(std::unique_ptr<Work> work, ServedCall* call);
  void OnPulled() override;
  // The pushes, then the pulls.
  void Run() override;
  void Keep() override;

 private:
  absl::Status Check();
  absl::Status CheckPushes();
  absl::Status CheckPulls();
  // Reads the keys of pulled buckets, and makes room for their rows' values.
  absl::Status TakeKeys();
  void AddRows(size_t index, v1::ExchangeResponse::Pull* pull);
  void AskForRoom();
  absl::Status PushAll();
  absl::StatusOr<PushOutcome> PushOne(const v1::ExchangeRequest::Push& push, const void* data);
  SlicePush DescribePush(const v1::ExchangeRequest::Push& push) const;
  // The next payload of the request, in place or in the scratch; null if it is damaged.
  const void* ReadPayload(const v1::ExchangeRequest::Push& push);
  // The same, always at `to`.
  const void* CopyPayload(const v1::ExchangeRequest::Push& push, char* to);
  void FillReply();
  void Reply(const absl::Status& status);
  void ReleaseOne();
  static void OnReleased(void* work) { static_cast<Work*>(work)->ReleaseOne(); }

  const std::shared_ptr<WorkPool> pool_;
  ServedCall* call_ = nullptr;
  absl::Time arrived_;
  bool with_checksums_ = true;
  v1::ExchangeRequest request_;
  v1::ExchangeResponse response_;
  std::vector<uint32_t> pushed_slices_;
  std::vector<uint32_t> busy_missing_;
  std::vector<uint64_t> keys_;  // The keys of all pulled buckets.
  std::vector<float> values_;   // The values of the rows of these keys.
  ParameterShard::Access access_;
  BatchReport report_;
  bool is_whole_ = false;  // The payload has as many bytes as the pushes say.
  std::vector<char> scratch_;
  bool is_kept_ = false;
  std::vector<const void*> kept_;  // Indexed by push: the payloads in scratch_, null if damaged.
  std::atomic<int> held_{0};  // Values that the transport still reads, and one for this object.
};

void ExchangeService::Work::Serve(std::unique_ptr<Work> owned, ServedCall* call) {
  Work* work = owned.release();
  work->held_.store(1, std::memory_order_relaxed);
  work->call_ = call;
  work->arrived_ = work->pool_->shard->clock()->Now();
  work->pool_->metrics->bytes_in.Add(call->payload()->remaining());
  work->with_checksums_ = call->needs_checksums();
  work->response_.Clear();
  work->is_kept_ = false;
  const absl::Status status = work->Check();
  if (!status.ok()) {
    work->Reply(status);
  } else if (work->request_.asks_for_room()) {
    work->AskForRoom();
  } else if (work->request_.pushes().empty()) {
    work->pool_->shard->Pull(work->access_, work);
  } else {
    work->scratch_ = work->pool_->scratch.Take();
    work->pool_->shard->RunJob(work->access_, work->pushed_slices_, work);
  }
}

void ExchangeService::Work::Run() {
  const absl::Status pushed = PushAll();
  pool_->scratch.Give(std::move(scratch_));
  if (pushed.ok()) {
    pool_->shard->Pull(access_, this);
  } else {
    Reply(pushed);
  }
}

void ExchangeService::Work::Keep() {
  is_kept_ = true;
  if (!is_whole_) return;
  const auto room_for = [](size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  };
  size_t bytes = 0;
  for (const v1::ExchangeRequest::Push& push : request_.pushes()) {
    bytes += room_for(push.payload_bytes());
  }
  if (scratch_.size() < bytes) scratch_.resize(bytes);
  kept_.clear();
  char* to = scratch_.data();
  for (const v1::ExchangeRequest::Push& push : request_.pushes()) {
    kept_.push_back(CopyPayload(push, to));
    to += room_for(push.payload_bytes());
  }
}

absl::Status ExchangeService::Work::Check() {
  const absl::string_view header = call_->header();
  if (!request_.ParseFromArray(header.data(), static_cast<int>(header.size()))) {
    return absl::InvalidArgumentError("the header is not an ExchangeRequest");
  }
  ASSIGN_OR_RETURN(access_,
                   pool_->shard->Enter(request_.identity(), request_.receiver_incarnation()));
  RETURN_IF_ERROR(TakeKeys());
  RETURN_IF_ERROR(CheckPushes());
  return CheckPulls();
}

absl::Status ExchangeService::Work::TakeKeys() {
  rows.clear();
  if (request_.pull_keys().empty()) return absl::OkStatus();
  if (request_.pull_keys_size() != request_.pulls_size()) {
    return absl::InvalidArgumentError(absl::StrCat("pull_keys: ", request_.pull_keys_size(),
                                                   " numbers for ", request_.pulls_size(),
                                                   " pulls"));
  }
  uint64_t num_keys = 0;
  for (const uint32_t count : request_.pull_keys()) num_keys += count;
  if (num_keys * sizeof(uint64_t) > call_->payload()->remaining()) {
    return absl::DataLossError("the keys of a pull arrived incomplete");
  }
  keys_.resize(num_keys);
  uint32_t crc32c = 0;
  call_->payload()->Copy(keys_.data(), num_keys * sizeof(uint64_t),
                         with_checksums_ ? &crc32c : nullptr);
  if (with_checksums_ && num_keys > 0 && crc32c != request_.pull_keys_crc32c()) {
    return absl::DataLossError("the keys of a pull arrived damaged");
  }
  const SliceTable& table = *access_.table;
  uint64_t num_values = 0;
  const uint64_t* keys = keys_.data();
  for (int i = 0; i < request_.pulls_size(); ++i) {
    const uint32_t slice = request_.pulls(i);
    const uint32_t count = request_.pull_keys(i);
    if (slice >= table.size() || !table[slice].is_bucket) {
      return absl::InvalidArgumentError(
          absl::StrCat("pull_keys: slice ", slice, " is not a bucket of a table"));
    }
    for (uint32_t k = 0; k < count; ++k) {
      if (table.BucketOf(table[slice].variable, keys[k]) == slice) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("pull_keys: key ", keys[k], " is not of bucket ", slice));
    }
    rows.push_back({keys, count, nullptr});
    keys += count;
    num_values += count * table.row_elements_of(table[slice].variable);
  }
  if (num_values * sizeof(float) > pool_->max_payload_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("pull_keys: rows of ", num_values * sizeof(float),
                     " bytes in one call, at most ", pool_->max_payload_bytes));
  }
  values_.resize(num_values);
  float* values = values_.data();
  for (RowPull& row : rows) {
    row.values = values;
    const uint32_t slice = request_.pulls(static_cast<int>(&row - rows.data()));
    values += row.num_keys * table.row_elements_of(table[slice].variable);
  }
  return absl::OkStatus();
}

absl::Status ExchangeService::Work::CheckPushes() {
  pushed_slices_.clear();
  uint64_t bytes = 0;
  for (const v1::ExchangeRequest::Push& push : request_.pushes()) {
    if (push.kind() == v1::CONTRIBUTION_KIND_UNSPECIFIED ||
        !v1::ContributionKind_IsValid(push.kind())) {
      return absl::InvalidArgumentError(
          absl::StrCat("slice ", push.slice(), ": no contribution has ", "kind ", push.kind()));
    }
    pushed_slices_.push_back(push.slice());
    bytes += push.payload_bytes();
  }
  // A truncated payload cannot be divided into slices with certainty.
  is_whole_ = bytes == call_->payload()->remaining();
  if (pushed_slices_.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(pool_->shard->CheckExamples(access_, ToBatchKey(request_.batch()),
                                              request_.batch_examples()));
  return pool_->shard->CheckOwnsAll(access_, pushed_slices_);
}

absl::Status ExchangeService::Work::CheckPulls() {
  slices.assign(request_.pulls().begin(), request_.pulls().end());
  if (request_.asks_for_room() && !slices.empty()) {
    return absl::InvalidArgumentError("asks_for_room: a request for room must not pull");
  }
  RETURN_IF_ERROR(pool_->shard->CheckOwnsAll(access_, slices));
  uint64_t bytes = 0;
  for (const uint32_t slice : slices) {
    const Slice& pulled = (*access_.table)[slice];
    if (pulled.is_bucket && rows.empty() && !request_.versions_only()) {
      return absl::InvalidArgumentError(
          absl::StrCat("pulls: slice ", slice, " is a bucket, whose rows are pulled by keys"));
    }
    if (!pulled.is_bucket) bytes += pulled.num_bytes();
  }
  if (!request_.versions_only() && bytes > pool_->max_payload_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("pulls: ", bytes, " bytes in one call, at most ", pool_->max_payload_bytes));
  }
  version = request_.pull_version();
  versions_only = request_.versions_only();
  park = std::min(absl::Milliseconds(request_.park_milliseconds()), kLongestPark);
  return absl::OkStatus();
}

void ExchangeService::Work::AskForRoom() {
  asks.clear();
  for (const v1::ExchangeRequest::Push& push : request_.pushes()) {
    asks.push_back(DescribePush(push));
  }
  pool_->shard->AskForRoom(access_, this);
}

absl::Status ExchangeService::Work::PushAll() {
  report_.loss_sum = request_.report().loss_sum();
  report_.regularization = request_.report().regularization();
  report_.correct = request_.report().correct();
  report_.examples = request_.report().examples();
  RETURN_IF_ERROR(FromProto(request_.report().metrics(), &report_.metrics));
  for (int i = 0; i < request_.pushes_size(); ++i) {
    const v1::ExchangeRequest::Push& push = request_.pushes(i);
    const void* data = nullptr;
    if (is_whole_) data = is_kept_ ? kept_[static_cast<size_t>(i)] : ReadPayload(push);
    PushOutcome outcome = PushOutcome::kCorrupt;
    if (data != nullptr) {
      ASSIGN_OR_RETURN(outcome, PushOne(push, data));
    }
    response_.add_outcomes(static_cast<v1::PushOutcome>(outcome));
    pool_->metrics->pushes[static_cast<size_t>(outcome)].Add();
    // The caller has to act before it waits.
    if (outcome == PushOutcome::kBusy && response_.missing_positions().empty()) {
      busy_missing_.clear();
      pool_->shard->AppendMissingPositions(access_, push.slice(), &busy_missing_);
      for (const uint32_t position : busy_missing_) response_.add_missing_positions(position);
    }
    if (outcome != PushOutcome::kAccepted && outcome != PushOutcome::kDuplicate) {
      park = absl::ZeroDuration();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<PushOutcome> ExchangeService::Work::PushOne(const v1::ExchangeRequest::Push& push,
                                                           const void* data) {
  SlicePush slice_push = DescribePush(push);
  slice_push.data = data;
  slice_push.report = request_.has_report() ? &report_ : nullptr;
  return pool_->shard->Push(access_, slice_push);
}

SlicePush ExchangeService::Work::DescribePush(const v1::ExchangeRequest::Push& push) const {
  SlicePush slice_push;
  slice_push.slice = push.slice();
  slice_push.kind = static_cast<ContributionKind>(push.kind());
  slice_push.batch = ToBatchKey(request_.batch());
  slice_push.step = request_.step();
  slice_push.position = request_.position();
  slice_push.examples = request_.batch_examples();
  slice_push.pulled_version = push.pulled_version();
  slice_push.bytes = push.payload_bytes();
  return slice_push;
}

const void* ExchangeService::Work::ReadPayload(const v1::ExchangeRequest::Push& push) {
  static constexpr char kNothing[1] = {};
  const size_t bytes = push.payload_bytes();
  if (bytes == 0) return kNothing;
  const char* data = call_->payload()->Borrow(bytes);
  if (data == nullptr) {
    if (scratch_.size() < bytes) scratch_.resize(bytes);
    return CopyPayload(push, scratch_.data());
  }
  return with_checksums_ && Crc32c(data, bytes) != push.crc32c() ? nullptr : data;
}

const void* ExchangeService::Work::CopyPayload(const v1::ExchangeRequest::Push& push, char* to) {
  uint32_t crc32c = 0;
  const size_t bytes = push.payload_bytes();
  if (!call_->payload()->Copy(to, bytes, with_checksums_ ? &crc32c : nullptr)) return nullptr;
  return with_checksums_ && bytes > 0 && crc32c != push.crc32c() ? nullptr : to;
}

void ExchangeService::Work::OnPulled() {
  if (status.ok()) FillReply();
  Reply(status);
}

void ExchangeService::Work::FillReply() {
  response_.set_incarnation(request_.receiver_incarnation());
  response_.set_lineage(lineage);
  response_.set_has_room(has_room);
  if (response_.missing_positions().empty()) {
    for (const uint32_t position : missing_positions) response_.add_missing_positions(position);
  }
  uint64_t bytes_out = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    const PullAnswer& answer = answers[i];
    v1::ExchangeResponse::Pull* pull = response_.add_pulls();
    pull->set_slice(slices[i]);
    pull->set_version(answer.version);
    if (answer.state != PullAnswer::kValue) continue;
    pull->set_value_version(answer.value_version);
    if (!rows.empty()) {
      AddRows(i, pull);
      bytes_out += pull->payload_bytes();
      continue;
    }
    const size_t bytes = answer.value->size() * sizeof(float);
    pull->set_payload_bytes(static_cast<uint32_t>(bytes));
    bytes_out += bytes;
    if (with_checksums_) pull->set_crc32c(pool_->checksums.Of(slices[i], lineage, answer));
    held_.fetch_add(1, std::memory_order_relaxed);
    call_->reply_payloads.push_back({answer.value->data(), bytes, &OnReleased, this});
  }
  pool_->metrics->bytes_out.Add(bytes_out);
  response_.AppendToString(&call_->reply_header);
}

void ExchangeService::Work::AddRows(size_t index, v1::ExchangeResponse::Pull* pull) {
  pull->set_has_value(true);
  const RowPull& row = rows[index];
  const SliceTable& table = *access_.table;
  const size_t bytes =
      row.num_keys * table.row_elements_of(table[slices[index]].variable) * sizeof(float);
  pull->set_payload_bytes(static_cast<uint32_t>(bytes));
  if (bytes == 0) return;
  if (with_checksums_) pull->set_crc32c(Crc32c(row.values, bytes));
  // The values of consecutive buckets lie side by side, so they are one payload.
  const char* const begin = reinterpret_cast<const char*>(row.values);
  std::vector<PayloadRef>& payloads = call_->reply_payloads;
  if (!payloads.empty() &&
      static_cast<const char*>(payloads.back().data) + payloads.back().bytes == begin) {
    payloads.back().bytes += bytes;
    return;
  }
  held_.fetch_add(1, std::memory_order_relaxed);
  payloads.push_back({begin, bytes, &OnReleased, this});
}

void ExchangeService::Work::Reply(const absl::Status& reply_status) {
  PsMetrics& metrics = *pool_->metrics;
  (reply_status.ok() ? metrics.exchange_seconds : metrics.refused_seconds)
      .Observe(absl::ToDoubleSeconds(pool_->shard->clock()->Now() - arrived_));
  call_->Reply(reply_status);
  ReleaseOne();
}

void ExchangeService::Work::ReleaseOne() {
  if (held_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  answers.clear();
  access_ = {};
  call_ = nullptr;
  const std::shared_ptr<WorkPool> pool = pool_;
  pool->Give(std::unique_ptr<Work>(this));
}

ExchangeService::ExchangeService(ParameterShard* shard, size_t max_payload_bytes,
                                 PsMetrics* metrics, size_t num_parts)
    : pool_(std::make_shared<WorkPool>(shard, max_payload_bytes, metrics,
                                       num_parts * ShardStrand::kMostJobs)) {}

ExchangeService::~ExchangeService() { pool_->Close(); }

void ExchangeService::Exchange(ServedCall* call) {
  std::unique_ptr<Work> work = pool_->Take();
  if (work == nullptr) work = std::make_unique<Work>(pool_);
  Work::Serve(std::move(work), call);
}

}  // namespace shoal
