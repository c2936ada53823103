#include "ml/data/prefetcher.h"

#include <algorithm>
#include <tuple>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

// The number of pieces of a batch for each thread. With several, a slow thread leaves work to the
// others.
constexpr size_t kPiecesPerThread = 4;

size_t PiecesOf(const PrefetcherOptions& options) {
  return static_cast<size_t>(options.threads) * kPiecesPerThread;
}

absl::Status CheckComplete(const FieldSpec& field, const RaggedRows& rows, size_t examples) {
  const auto keys = static_cast<int64_t>(rows.keys().size());
  if (rows.num_examples() == static_cast<int64_t>(examples) && rows.offsets().back() == keys) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat(
      "field ", field.name, ": the data set added ", rows.num_examples(), " examples with ",
      rows.offsets().back(), " of ", keys, " keys, but ", examples,
      " examples were requested; its FillBatch must add one complete example for each index"));
}

}  // namespace

Prefetcher::Prefetcher(const Dataset& dataset, const BatchPlan& plan,
                       const PrefetcherOptions& options)
    : dataset_(dataset),
      plan_(plan),
      options_(options),
      pool_(options.threads > 1 ? std::make_unique<ThreadPool>("read", options.threads - 1)
                                : nullptr) {
  {
    MutexLock lock(&mutex_);
    slots_ = std::vector<Slot>(static_cast<size_t>(options.depth + options.max_taken));
    for (Slot& slot : slots_) AllocateMemory(slot);
  }
  thread_ = std::thread([this] { Run(); });
}

Prefetcher::~Prefetcher() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void Prefetcher::AllocateMemory(Slot& slot) const {
  const size_t rows = static_cast<size_t>(plan_.num_examples(0));
  const size_t pieces = pool_ == nullptr ? 0 : PiecesOf(options_);
  slot.indices.resize(rows);
  slot.piece_status.resize(pieces);
  for (const FieldSpec& field : dataset_.fields()) {
    if (field.is_ragged()) slot.ragged.emplace_back(field.kind == FieldKind::kWeightedRagged);
  }
  slot.piece_ragged.assign(pieces, slot.ragged);
  if (options_.make_digest != nullptr) slot.digest = options_.make_digest();
  slot.batch.digest = slot.digest.get();
  size_t ragged = 0;
  for (const FieldSpec& field : dataset_.fields()) {
    if (field.is_ragged()) {
      slot.batch.fields.push_back(&slot.ragged[ragged++]);
      continue;
    }
    slot.buffers.emplace_back(rows * field.example.bytes());
    slot.batch.fields.push_back(slot.buffers.back().data());
  }
}

bool Prefetcher::Schedule(uint32_t epoch, int64_t index) {
  MutexLock lock(&mutex_);
  if (Find(epoch, index) != nullptr) return true;
  int waiting = 0;
  for (const Slot& slot : slots_) {
    waiting += slot.state != State::kFree && slot.state != State::kTaken ? 1 : 0;
  }
  Slot* slot = OldestIn(State::kFree);
  if (waiting >= options_.depth || slot == nullptr || plan_.num_examples(index) == 0) return false;
  Assign(*slot, epoch, index);
  slot->state = State::kQueued;
  changed_.NotifyAll();
  return true;
}

absl::StatusOr<const LoadedBatch*> Prefetcher::Take(uint32_t epoch, int64_t index) {
  if (plan_.num_examples(index) == 0) {
    return absl::InvalidArgumentError(absl::StrCat("batch ", index, " of epoch ",
                                                   uint64_t{epoch} + 1, " is past the epoch's ",
                                                   plan_.batches_per_epoch(), " batches"));
  }
  mutex_.Lock();
  Slot* slot = Find(epoch, index);
  while (slot != nullptr && slot->state == State::kLoading) {
    changed_.Wait(&mutex_);
    slot = Find(epoch, index);
  }
  if (slot == nullptr || slot->state == State::kQueued) {  // faster here than in the queue
    if (slot == nullptr) slot = &Claim(epoch, index);
    slot->state = State::kLoading;
    mutex_.Unlock();
    const absl::Status status = Load(*slot);
    mutex_.Lock();
    slot->status = status;
  }
  const absl::Status status = slot->status;
  slot->state = status.ok() ? State::kTaken : State::kFree;
  slot->forgotten = false;
  changed_.NotifyAll();
  mutex_.Unlock();
  if (!status.ok()) return status;
  return &slot->batch;
}

void Prefetcher::Release(const LoadedBatch* batch) {
  MutexLock lock(&mutex_);
  for (Slot& slot : slots_) {
    if (&slot.batch == batch) slot.state = State::kFree;
  }
}

void Prefetcher::Forget() { ForgetBefore(UINT32_MAX, INT64_MAX); }

void Prefetcher::ForgetBefore(uint32_t epoch, int64_t index) {
  MutexLock lock(&mutex_);
  for (Slot& slot : slots_) {
    if (std::tie(slot.batch.epoch, slot.batch.index) >= std::tie(epoch, index)) continue;
    if (slot.state == State::kQueued || slot.state == State::kReady) slot.state = State::kFree;
    if (slot.state == State::kLoading) slot.forgotten = true;
  }
}

void Prefetcher::Run() {
  mutex_.Lock();
  while (!stopping_) {
    Slot* slot = OldestIn(State::kQueued);
    if (slot == nullptr) {
      changed_.Wait(&mutex_);
      continue;
    }
    slot->state = State::kLoading;
    mutex_.Unlock();
    const absl::Status status = Load(*slot);
    mutex_.Lock();
    slot->status = status;
    slot->state = slot->forgotten ? State::kFree : State::kReady;
    slot->forgotten = false;
    changed_.NotifyAll();
  }
  mutex_.Unlock();
}

absl::Status Prefetcher::Load(Slot& slot) {
  LoadedBatch& batch = slot.batch;
  batch.num_examples = plan_.num_examples(batch.index);
  const size_t rows = static_cast<size_t>(batch.num_examples);
  plan_.FillIndices(batch.epoch, batch.index, absl::MakeSpan(slot.indices).first(rows));
  RETURN_IF_ERROR(LoadFields(slot, rows));
  return slot.digest == nullptr ? absl::OkStatus() : slot.digest->Update(batch);
}

absl::Status Prefetcher::LoadFields(Slot& slot, size_t rows) {
  return pool_ == nullptr ? LoadRows(slot, 0, rows, &slot.ragged) : LoadPieces(slot, rows);
}

absl::Status Prefetcher::LoadPieces(Slot& slot, size_t rows) {
  const size_t pieces = std::min(rows, slot.piece_status.size());
  pool_->RunParallel(static_cast<int>(pieces), [&](int piece) {
    const size_t p = static_cast<size_t>(piece);
    slot.piece_status[p] =
        LoadRows(slot, rows * p / pieces, rows * (p + 1) / pieces, &slot.piece_ragged[p]);
  });
  for (size_t p = 0; p < pieces; ++p) {  // the first error in the order of the rows
    if (!slot.piece_status[p].ok()) return slot.piece_status[p];
  }
  for (size_t r = 0; r < slot.ragged.size(); ++r) {
    slot.ragged[r].Clear();
    for (size_t p = 0; p < pieces; ++p) slot.ragged[r].Append(slot.piece_ragged[p][r]);
  }
  return absl::OkStatus();
}

// Reads examples [begin, end) of the batch; the keys of its ragged fields go to `ragged`.
absl::Status Prefetcher::LoadRows(const Slot& slot, size_t begin, size_t end,
                                  std::vector<RaggedRows>* ragged) const {
  absl::InlinedVector<void*, 8> outputs;
  size_t next_ragged = 0;
  for (size_t f = 0; f < slot.batch.fields.size(); ++f) {
    const FieldSpec& field = dataset_.fields()[f];
    if (field.is_ragged()) {
      RaggedRows& rows = (*ragged)[next_ragged++];
      rows.Clear();
      outputs.push_back(&rows);
      continue;
    }
    outputs.push_back(static_cast<char*>(slot.batch.fields[f]) + begin * field.example.bytes());
  }
  RETURN_IF_ERROR(dataset_.FillBatch(
      slot.batch.epoch, absl::MakeConstSpan(slot.indices).subspan(begin, end - begin), outputs));
  for (size_t f = 0; f < outputs.size(); ++f) {
    const FieldSpec& field = dataset_.fields()[f];
    if (!field.is_ragged()) continue;
    RETURN_IF_ERROR(CheckComplete(field, RaggedOutput(outputs[f]), end - begin));
  }
  return absl::OkStatus();
}

// Returns the slot that has or will have the batch and is not taken; null if there is none.
Prefetcher::Slot* Prefetcher::Find(uint32_t epoch, int64_t index) {
  for (Slot& slot : slots_) {
    const bool waiting = slot.state != State::kFree && slot.state != State::kTaken;
    if (waiting && slot.batch.epoch == epoch && slot.batch.index == index) return &slot;
  }
  return nullptr;
}

Prefetcher::Slot* Prefetcher::OldestIn(State state) {
  Slot* oldest = nullptr;
  for (Slot& slot : slots_) {
    if (slot.state != state) continue;
    if (oldest == nullptr || slot.order < oldest->order) oldest = &slot;
  }
  return oldest;
}

// Returns a slot for a batch that nobody scheduled: a free one, or else the oldest one that is read
// or queued but not taken.
Prefetcher::Slot& Prefetcher::Claim(uint32_t epoch, int64_t index) {
  Slot* slot = OldestIn(State::kFree);
  if (slot == nullptr) slot = OldestIn(State::kReady);
  if (slot == nullptr) slot = OldestIn(State::kQueued);
  CHECK(slot != nullptr) << "more batches are held than max_taken=" << options_.max_taken;
  Assign(*slot, epoch, index);
  return *slot;
}

void Prefetcher::Assign(Slot& slot, uint32_t epoch, int64_t index) {
  slot.batch.epoch = epoch;
  slot.batch.index = index;
  slot.order = next_order_++;
  slot.forgotten = false;
}

}  // namespace shoal
