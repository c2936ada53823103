#include "ps/exchange_service.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "base/crc32c.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "proto/v1/bulk.pb.h"
#include "ps/exchange_checks.h"
#include "ps/pulled_rows.h"
#include "ps/scratch_pool.h"
#include "ps/value_checksums.h"
#include "runtime/variables/metric_messages.h"

namespace shoal {
namespace {

// The longest time to park a call: no client asks for more, so longer parking would only keep dead
// calls.
constexpr absl::Duration kLongestPark = absl::Seconds(30);

constexpr size_t kAlignment = 64;

// The most Work objects that wait for another call. After the calls of a step with many workers the
// others are freed.
constexpr size_t kMostFreeWorks = 64;

}  // namespace

// A pool of Work objects. The one that was used last is taken first, because its memory is still in
// the cache.
class ExchangeService::WorkPool {
 public:
  WorkPool(ParameterShard* shard, size_t max_payload_bytes, PsMetrics* metrics, size_t most_scratch)
      : shard(shard),
        max_payload_bytes(max_payload_bytes),
        metrics(metrics),
        scratch(most_scratch),
        keys(most_scratch),
        values(most_scratch) {}

  std::unique_ptr<Work> Take() {
    MutexLock lock(&mutex_);
    if (free_.empty()) return nullptr;
    std::unique_ptr<Work> work = std::move(free_.back());
    free_.pop_back();
    return work;
  }
  void Give(std::unique_ptr<Work> work) {
    MutexLock lock(&mutex_);
    if (!closed_ && free_.size() < kMostFreeWorks) free_.push_back(std::move(work));
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
  // These two hold the memory for rows that are pulled.
  ScratchPool keys;
  ScratchPool values;
  ValueChecksums checksums;

 private:
  Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<Work>> free_ ABSL_GUARDED_BY(mutex_);
};

// One call from its arrival until the transport has released the last value of its reply.
class ExchangeService::Work : public PullWaiter, public ShardStrand::Job {
 public:
  explicit Work(std::shared_ptr<WorkPool> pool)
      : pool_(std::move(pool)), pulled_rows_(&pool_->keys, &pool_->values) {}

  // Gives `work` back to its pool in the end.
  static void Serve(std::unique_ptr<Work> work, ServedCall* call);
  void OnPulled() override;
  void AllocateRows() override { pulled_rows_.Allocate(&rows); }
  // The pushes, then the pulls.
  void Run() override;
  void Keep() override;

 private:
  absl::Status Check();
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
  PulledRows pulled_rows_;
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
  const ParameterShard& shard = *pool_->shard;
  RETURN_IF_ERROR(pulled_rows_.Take(request_, *access_.table, pool_->max_payload_bytes,
                                    with_checksums_, call_->payload(), &rows));
  RETURN_IF_ERROR(CheckPushes(request_, shard, access_, &pushed_slices_));
  // A truncated payload cannot be divided into slices with certainty.
  is_whole_ = PushedBytes(request_) == call_->payload()->remaining();
  RETURN_IF_ERROR(CheckPulls(request_, shard, access_, pool_->max_payload_bytes, &slices));
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
  pulled_rows_.Release();
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
