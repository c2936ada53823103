#include "tests/simulation/async_ps.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/log.h"

namespace shoal {
namespace {

// A slice's contents from a checkpoint, or zeros.
class DiskSource : public SliceSource {
 public:
  explicit DiskSource(const AsyncWorld::Shard* shard) : shard_(shard) {}

  absl::Status Fill(uint32_t slice, Contents* contents) override {
    contents->version = contents->value_version = 0;
    std::fill(contents->value.begin(), contents->value.end(), 0.0f);
    if (shard_ == nullptr) return absl::OkStatus();
    const AsyncWorld::SliceRecord& record = shard_->at(slice);
    std::copy(record.value.begin(), record.value.end(), contents->value.begin());
    contents->version = contents->value_version = record.version;
    contents->applied = record.applied;
    return absl::OkStatus();
  }

 private:
  const AsyncWorld::Shard* const shard_;
};

}  // namespace

AsyncPs::AsyncPs(AsyncWorld* world, uint32_t index, uint64_t incarnation)
    : world_(world), index_(index), incarnation_(incarnation) {
  SliceStoreOptions options;
  options.synchronous = false;
  options.max_staleness = world->settings().max_staleness;
  options.update.schedule.learning_rate = 1;
  options.broken.dedupe = world->broken().dedupe;
  std::vector<uint32_t> owned;
  for (uint32_t slice = 0; slice < world->table().size(); ++slice) {
    if (world->owner()[slice] == index) owned.push_back(slice);
  }
  store_ = std::move(*SliceStore::Create(options, world->variables(), world->table(), owned));
}

void AsyncPs::Load(uint64_t checkpoint, uint32_t first_kept_epoch) {
  if (is_serving_) return;
  const auto& disk = world_->disk();
  DiskSource source(checkpoint == 0 ? nullptr : &disk.at(checkpoint).shards.at(index_));
  const absl::Status status = store_->Load({1, 0, world_->plan(), {}}, source);
  if (!status.ok()) world_->Fail(absl::StrCat("load: ", status.ToString()));
  store_->ForgetEpochsBefore(first_kept_epoch);
  is_serving_ = true;
}

PushOutcome AsyncPs::Push(const AsyncExchange& exchange, size_t i) {
  const uint32_t slice = world_->groups()[exchange.group].slices[i];
  std::vector<float> contribution(world_->table()[slice].num_elements, 0.0f);
  contribution[world_->ElementOf(exchange.batch)] =
      exchange.is_finite ? -1.0f : std::numeric_limits<float>::quiet_NaN();
  SlicePush push;
  push.slice = slice;
  push.batch = exchange.batch;
  push.examples = world_->plan().ExamplesIn(exchange.batch);
  push.pulled_version = exchange.pulled_versions[i];
  push.data = contribution.data();
  push.bytes = contribution.size() * sizeof(float);
  const uint64_t before = store_->newest_version(slice);
  const PushOutcome outcome = store_->Push(push);
  const int64_t bound = world_->settings().max_staleness;
  if (outcome == PushOutcome::kAccepted && bound >= 0 && before > push.pulled_version &&
      before - push.pulled_version > static_cast<uint64_t>(bound)) {
    world_->Fail("a contribution staler than the bound was applied");
  }
  if (outcome == PushOutcome::kDuplicate) ++world_->counts().duplicates;
  if (outcome == PushOutcome::kStale) ++world_->counts().refusals;
  return outcome;
}

AsyncExchangeReply AsyncPs::OnExchange(uint64_t receiver_incarnation,
                                       const AsyncExchange& exchange) {
  AsyncExchangeReply reply;
  if (receiver_incarnation != incarnation_) {
    reply.code = AsyncExchangeReply::kMoved;
    return reply;
  }
  if (!is_serving_) {
    reply.code = AsyncExchangeReply::kNotServing;
    return reply;
  }
  const std::vector<uint32_t>& slices = world_->groups()[exchange.group].slices;
  for (size_t i = 0; i < exchange.wants.size(); ++i) {
    reply.outcomes.push_back(exchange.wants[i] ? Push(exchange, i) : PushOutcome::kNone);
  }
  for (uint32_t slice : slices) {
    const PullAnswer answer = store_->PullNewest(slice);
    reply.pulls.push_back({answer.version, answer.value_version, true});
    reply.values.emplace_back(answer.value->data(), answer.value->data() + answer.value->size());
  }
  store_->TakeEvents(&events_);
  return reply;
}

bool AsyncPs::Cut(uint64_t name, uint32_t first_kept_epoch) {
  AsyncWorld::Checkpoint& checkpoint = world_->disk()[name];
  if (checkpoint.shards.count(index_) > 0) return true;
  store_->ForgetEpochsBefore(first_kept_epoch);
  store_->RequestCut(name);
  store_->TakeEvents(&events_);
  // Begun before, and being written. A ps that owns nothing has an empty part.
  if (events_.cuts.empty() && !store_->owned().empty()) return false;
  auto shard = std::make_shared<AsyncWorld::Shard>();
  for (const SliceStoreEvents::CutPart& part : events_.cuts) {
    AsyncWorld::SliceRecord& record = (*shard)[part.slice];
    record.value.assign(part.value->data(), part.value->data() + part.value->size());
    record.version = part.version;
    if (!world_->broken().applied_on_disk) record.applied = part.applied;
  }
  world_->network().After(world_->network().Uniform(0.05, 1),
                          [self = world_->ps(index_), this, name, shard] {
                            if (is_alive_) world_->disk()[name].shards[index_] = std::move(*shard);
                          });
  return false;
}

}  // namespace shoal
