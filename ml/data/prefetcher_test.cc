#include "ml/data/prefetcher.h"

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/notification.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Ten numbers. Counts the numbers that it returns; fails or waits where a test wants it.
class FaultyDataset final : public Dataset {
 public:
  int64_t size() const override { return 10; }
  const std::vector<FieldSpec>& fields() const override { return fields_; }
  uint64_t fingerprint() const override { return 1; }
  absl::Status FillBatch(uint32_t /*epoch*/, absl::Span<const int64_t> indices,
                         absl::Span<void* const> outputs) const override {
    ++fills;
    if (gate != nullptr && indices[0] == gated_example) gate->Wait();
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] == failing_example) return absl::DataLossError("example is gone");
      static_cast<int32_t*>(outputs[0])[i] = static_cast<int32_t>(indices[i]);
    }
    return absl::OkStatus();
  }

  mutable std::atomic<int> fills{0};
  Notification* gate = nullptr;
  int64_t gated_example = -1;
  int64_t failing_example = -1;

 private:
  const std::vector<FieldSpec> fields_ = {{"number", {DataType::kInt32, {}}}};
};

BatchPlan PlanOf(int64_t batch_size) {
  BatchPlanOptions options;
  options.num_examples = 10;
  options.batch_size = batch_size;
  options.shuffle = false;
  return BatchPlan::Create(options).value();
}

int32_t First(const LoadedBatch& batch) { return *static_cast<const int32_t*>(batch.fields[0]); }

TEST(PrefetcherTest, GivesBatchesInAnyOrderAndTheLastSmaller) {
  FaultyDataset dataset;
  Prefetcher prefetcher(dataset, PlanOf(3), {});
  EXPECT_TRUE(prefetcher.Schedule(0, 2));
  EXPECT_TRUE(prefetcher.Schedule(0, 3));
  const LoadedBatch* last = prefetcher.Take(0, 3).value();
  EXPECT_EQ(last->num_examples, 1);
  EXPECT_EQ(First(*last), 9);
  const LoadedBatch* before = prefetcher.Take(0, 2).value();
  EXPECT_EQ(before->num_examples, 3);
  EXPECT_EQ(First(*before), 6);
  prefetcher.Release(last);
  prefetcher.Release(before);
  EXPECT_EQ(First(*prefetcher.Take(0, 0).value()), 0);  // never scheduled
  EXPECT_EQ(dataset.fills, 3);
}

TEST(PrefetcherTest, ReadsAtMostItsDepthAhead) {
  FaultyDataset dataset;
  Prefetcher prefetcher(dataset, PlanOf(1), {/*depth=*/2, /*max_taken=*/1});
  EXPECT_TRUE(prefetcher.Schedule(0, 0));
  EXPECT_TRUE(prefetcher.Schedule(0, 1));
  EXPECT_FALSE(prefetcher.Schedule(0, 2));
  EXPECT_TRUE(prefetcher.Schedule(0, 1)) << "is on its way";
  const LoadedBatch* batch = prefetcher.Take(0, 0).value();
  EXPECT_TRUE(prefetcher.Schedule(0, 2));
  EXPECT_FALSE(prefetcher.Schedule(0, 3));
  prefetcher.Release(batch);
}

TEST(PrefetcherTest, UsesTheSameBuffersForever) {
  FaultyDataset dataset;
  Prefetcher prefetcher(dataset, PlanOf(2), {/*depth=*/2, /*max_taken=*/1});
  std::set<void*> buffers;
  for (uint32_t epoch = 0; epoch < 50; ++epoch) {
    for (int64_t index = 0; index < 5; ++index) {
      const LoadedBatch* batch = prefetcher.Take(epoch, index).value();
      if (index < 4) prefetcher.Schedule(epoch, index + 1);
      EXPECT_EQ(First(*batch), 2 * index);
      buffers.insert(batch->fields[0]);
      prefetcher.Release(batch);
    }
  }
  EXPECT_LE(buffers.size(), 3u);
}

TEST(PrefetcherTest, ForgottenBatchesMakeRoomAndAreReadAgain) {
  Notification gate;
  FaultyDataset dataset;
  dataset.gate = &gate;
  dataset.gated_example = 0;
  Prefetcher prefetcher(dataset, PlanOf(1), {/*depth=*/2, /*max_taken=*/2});
  EXPECT_TRUE(prefetcher.Schedule(0, 0));
  EXPECT_TRUE(prefetcher.Schedule(0, 1));
  prefetcher.Forget();
  // A batch that nobody scheduled does not wait for the thread, which may hang in batch 0.
  const LoadedBatch* batch = prefetcher.Take(7, 5).value();
  EXPECT_EQ(First(*batch), 5);
  EXPECT_EQ(batch->epoch, 7u);
  gate.Notify();
  EXPECT_EQ(First(*prefetcher.Take(0, 0).value()), 0);
}

TEST(PrefetcherTest, BatchesBeforeOneThatIsReachedMakeRoom) {
  FaultyDataset dataset;
  Prefetcher prefetcher(dataset, PlanOf(1), {/*depth=*/2, /*max_taken=*/2});
  EXPECT_TRUE(prefetcher.Schedule(0, 9));
  EXPECT_TRUE(prefetcher.Schedule(1, 4));
  EXPECT_FALSE(prefetcher.Schedule(1, 5));
  prefetcher.Release(prefetcher.Take(1, 4).value());
  EXPECT_TRUE(prefetcher.Schedule(1, 5));
  EXPECT_FALSE(prefetcher.Schedule(1, 6));
  prefetcher.ForgetBefore(1, 5);
  while (!prefetcher.Schedule(1, 6)) std::this_thread::yield();  // 9 may still be being read.
  EXPECT_FALSE(prefetcher.Schedule(1, 7)) << "5 and 6 are still to come";
  EXPECT_EQ(First(*prefetcher.Take(1, 5).value()), 5);
}

TEST(PrefetcherTest, ErrorsOfTheDataSetReachTheUser) {
  FaultyDataset dataset;
  dataset.failing_example = 4;
  Prefetcher prefetcher(dataset, PlanOf(2), {});
  EXPECT_TRUE(prefetcher.Schedule(0, 2));
  EXPECT_EQ(prefetcher.Take(0, 2).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(prefetcher.Take(0, 2).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(prefetcher.Take(0, 1).ok());
}

TEST(PrefetcherTest, ThreadsShareABatchAndItsRowsStayInOrder) {
  FaultyDataset dataset;
  PrefetcherOptions options;
  options.threads = 3;
  Prefetcher prefetcher(dataset, PlanOf(7), options);
  for (uint32_t epoch = 0; epoch < 20; ++epoch) {
    EXPECT_TRUE(prefetcher.Schedule(epoch, 1));
    for (const int64_t index : {0, 1}) {
      const LoadedBatch* batch = prefetcher.Take(epoch, index).value();
      ASSERT_EQ(batch->num_examples, index == 0 ? 7 : 3);
      for (int32_t row = 0; row < batch->num_examples; ++row) {
        EXPECT_EQ(static_cast<const int32_t*>(batch->fields[0])[row], 7 * index + row);
      }
      prefetcher.Release(batch);
    }
  }
  EXPECT_EQ(dataset.fills, 20 * 10) << "rows are read one by one where there are few";
}

TEST(PrefetcherTest, AnErrorOfAnyThreadReachesTheUser) {
  FaultyDataset dataset;
  dataset.failing_example = 9;
  PrefetcherOptions options;
  options.threads = 2;
  Prefetcher prefetcher(dataset, PlanOf(10), options);
  EXPECT_EQ(prefetcher.Take(0, 0).status().code(), absl::StatusCode::kDataLoss);
}

TEST(PrefetcherTest, PastTheEpochsEndIsRefused) {
  FaultyDataset dataset;
  Prefetcher prefetcher(dataset, PlanOf(5), {});
  EXPECT_FALSE(prefetcher.Schedule(0, 2));
  EXPECT_EQ(prefetcher.Take(0, 2).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PrefetcherTest, ManyUsersAtOnceGetWhatTheyAskFor) {
  FaultyDataset dataset;
  Prefetcher prefetcher(dataset, PlanOf(1), {/*depth=*/2, /*max_taken=*/4});
  std::vector<std::thread> users;
  std::atomic<int> wrong{0};
  for (uint32_t user = 0; user < 4; ++user) {
    users.emplace_back([&, user] {
      for (int k = 0; k < 200; ++k) {
        const int64_t index = (k + user * 3) % 10;
        prefetcher.Schedule(user % 2, (index + 1) % 10);
        const LoadedBatch* batch = prefetcher.Take(user % 2, index).value();
        if (First(*batch) != index || batch->epoch != user % 2) ++wrong;
        prefetcher.Release(batch);
      }
    });
  }
  for (std::thread& user : users) user.join();
  EXPECT_EQ(wrong, 0);
}

// Example i has the keys 100 * i, 100 * i + 1, ..., as many as i modulo 3, with these numbers as
// weights.
class KeysDataset final : public Dataset {
 public:
  int64_t size() const override { return 10; }
  const std::vector<FieldSpec>& fields() const override { return fields_; }
  uint64_t fingerprint() const override { return 1; }
  absl::Status FillBatch(uint32_t /*epoch*/, absl::Span<const int64_t> indices,
                         absl::Span<void* const> outputs) const override {
    for (size_t i = 0; i < indices.size(); ++i) {
      static_cast<int64_t*>(outputs[0])[i] = indices[i];
      for (int64_t k = 0; k < indices[i] % 3; ++k) {
        const int64_t key = 100 * indices[i] + k;
        RaggedOutput(outputs[1]).AddKey(key);
        RaggedOutput(outputs[2]).AddKey(key, static_cast<float>(key));
      }
      RaggedOutput(outputs[1]).EndExample();
      if (indices[i] != incomplete_example) RaggedOutput(outputs[2]).EndExample();
    }
    return absl::OkStatus();
  }

  int64_t incomplete_example = -1;

 private:
  const std::vector<FieldSpec> fields_ = {{"number", {DataType::kInt64, {}}},
                                          RaggedField("keys"),
                                          RaggedField("weighted", FieldKind::kWeightedRagged)};
};

TEST(PrefetcherTest, RaggedFieldsHaveTheSameKeysForAnyNumberOfThreads) {
  const KeysDataset dataset;
  for (const int threads : {1, 3}) {
    PrefetcherOptions options;
    options.threads = threads;
    Prefetcher prefetcher(dataset, PlanOf(7), options);
    for (uint32_t epoch = 0; epoch < 3; ++epoch) {
      const LoadedBatch* batch = prefetcher.Take(epoch, 0).value();
      EXPECT_EQ(static_cast<const int64_t*>(batch->fields[0])[6], 6);
      EXPECT_THAT(batch->ragged(1).keys(), ElementsAre(100, 200, 201, 400, 500, 501));
      EXPECT_THAT(batch->ragged(1).offsets(), ElementsAre(0, 0, 1, 3, 3, 4, 6, 6));
      EXPECT_THAT(batch->ragged(1).weights(), IsEmpty());
      EXPECT_EQ(batch->ragged(2).keys(), batch->ragged(1).keys());
      EXPECT_EQ(batch->ragged(2).offsets(), batch->ragged(1).offsets());
      EXPECT_THAT(batch->ragged(2).weights(), ElementsAre(100, 200, 201, 400, 500, 501));
      prefetcher.Release(batch);
      const LoadedBatch* last = prefetcher.Take(epoch, 1).value();
      EXPECT_THAT(last->ragged(1).keys(), ElementsAre(700, 800, 801));
      EXPECT_THAT(last->ragged(1).offsets(), ElementsAre(0, 1, 3, 3));
      prefetcher.Release(last);
    }
  }
}

TEST(PrefetcherTest, ADataSetThatAddsTooFewExamplesIsAnErrorWithTheField) {
  KeysDataset dataset;
  dataset.incomplete_example = 4;
  Prefetcher prefetcher(dataset, PlanOf(7), {});
  const absl::Status status = prefetcher.Take(0, 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("field weighted: "));
  EXPECT_TRUE(prefetcher.Take(0, 1).ok());
}

// The first number of a batch; refuses one number.
class FirstNumber final : public BatchDigest {
 public:
  explicit FirstNumber(int32_t refused) : refused_(refused) {}
  absl::Status Update(const LoadedBatch& batch) override {
    value = First(batch);
    return value == refused_ ? absl::InvalidArgumentError("refused") : absl::OkStatus();
  }
  int32_t value = -1;

 private:
  const int32_t refused_;
};

TEST(PrefetcherTest, EveryBatchHasItsOwnDigest) {
  FaultyDataset dataset;
  PrefetcherOptions options;
  options.make_digest = [] { return std::make_unique<FirstNumber>(6); };
  Prefetcher prefetcher(dataset, PlanOf(3), options);
  prefetcher.Schedule(0, 1);
  const LoadedBatch* const first = prefetcher.Take(0, 0).value();
  const LoadedBatch* const second = prefetcher.Take(0, 1).value();
  EXPECT_EQ(static_cast<const FirstNumber*>(first->digest)->value, 0);
  EXPECT_EQ(static_cast<const FirstNumber*>(second->digest)->value, 3);
  prefetcher.Release(first);
  EXPECT_TRUE(absl::IsInvalidArgument(prefetcher.Take(0, 2).status()));
}

}  // namespace
}  // namespace shoal
