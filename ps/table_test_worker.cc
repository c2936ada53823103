#include "ps/table_test_worker.h"

#include "base/notification.h"
#include "runtime/variables/exchange_groups.h"
#include "runtime/variables/row_payload.h"

namespace shoal {
namespace {

v1::VariableSpec Item(int64_t dim, uint32_t buckets) {
  v1::VariableSpec spec;
  spec.set_name("item");
  spec.add_shape(dim);
  spec.set_dtype(v1::DATA_TYPE_FLOAT32);
  spec.set_trainable(true);
  spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
  spec.mutable_table()->set_buckets(buckets);
  return spec;
}

RemoteVariableStore::Options StoreOptions(PsTestCluster* cluster, const TestTable& table,
                                          uint32_t index, TableTestWorker::WrapChannel wrap) {
  RemoteVariableStore::Options options;
  options.run_id = "0123456789abcdef0123456789abcdef";
  options.worker_index = index;
  options.incarnation = kTestWorker0 + index;
  options.groups = MakeExchangeGroups(table.slices, table.owners);
  options.connect = [cluster, wrap = std::move(wrap)](const std::string& address) {
    std::unique_ptr<BulkChannel> channel = cluster->Connect(address);
    return wrap == nullptr ? std::move(channel) : wrap(std::move(channel));
  };
  return options;
}

}  // namespace

TestTable::TestTable(int64_t dim, uint32_t buckets)
    : dim(dim),
      spec(Item(dim, buckets)),
      slices(std::move(SliceTable::Create({spec}, 512).value())) {
  for (uint32_t bucket = 0; bucket < buckets; ++bucket) owners.push_back(bucket % kNumTestPs);
}

void TestTable::ReplaceVariables(v1::LoadSlicesRequest* request) const {
  request->clear_variables();
  *request->add_variables() = spec;
  request->mutable_shard_map()->clear_owner();
  for (const uint32_t owner : owners) request->mutable_shard_map()->add_owner(owner);
}

TableTestWorker::TableTestWorker(PsTestCluster* cluster, const TestTable* table, uint32_t index,
                                 WrapChannel wrap)
    : table_(*table),
      store_(table->slices, StoreOptions(cluster, *table, index, std::move(wrap)),
             &cluster->clock) {
  store_.SetView(cluster->View(1));
}

absl::Status TableTestWorker::Run(const Push& push, const Pull& pull) {
  const auto dim = static_cast<size_t>(table_.dim);
  rows_.clear();
  std::vector<Bucket> buckets(table_.owners.size());
  if (push.gradients != nullptr) {
    for (const auto& [key, gradient] : *push.gradients) {
      Bucket& bucket = buckets[table_.slices.BucketOf(0, key)];
      bucket.pushed_keys.push_back(key);
      bucket.gradients.insert(bucket.gradients.end(), dim, gradient);
    }
    for (Bucket& bucket : buckets) {
      bucket.payload.resize(RowPayloadBytes(bucket.pushed_keys.size(), dim));
      EncodeRows({bucket.pushed_keys, bucket.gradients.data()}, dim, bucket.payload.data());
    }
  }
  if (pull.keys != nullptr) {
    for (const uint64_t key : *pull.keys) {
      buckets[table_.slices.BucketOf(0, key)].pulled_keys.push_back(key);
    }
    for (Bucket& bucket : buckets) bucket.values.resize(bucket.pulled_keys.size() * dim);
  }
  absl::Status status;
  for (uint32_t g = 0; g < store_.groups().size(); ++g) {
    status.Update(RunGroup(g, push, pull, &buckets));
  }
  return status;
}

absl::Status TableTestWorker::RunGroup(uint32_t group, const Push& push, const Pull& pull,
                                       std::vector<Bucket>* buckets) {
  const std::vector<uint32_t>& slices = store_.groups()[group].slices;
  std::vector<const void*> push_data;
  std::vector<uint64_t> push_bytes;
  std::vector<RowPull> pulls;
  for (const uint32_t slice : slices) {
    Bucket& bucket = (*buckets)[slice];
    push_data.push_back(bucket.payload.data());
    push_bytes.push_back(bucket.payload.size());
    pulls.push_back({bucket.pulled_keys.data(), static_cast<uint32_t>(bucket.pulled_keys.size()),
                     bucket.values.data()});
  }
  const std::vector<ContributionKind> kinds(slices.size(), ContributionKind::kRows);
  Exchange exchange;
  exchange.group = group;
  exchange.lineage = 1;
  exchange.push = push.gradients != nullptr;
  exchange.batch = {static_cast<uint32_t>(push.step / 2), push.step % 2 * 2 + push.position};
  exchange.step = push.step;
  exchange.position = push.position;
  exchange.batch_examples = 2;
  exchange.push_kinds = kinds.data();
  exchange.push_data = push_data.data();
  exchange.push_bytes = push_bytes.data();
  exchange.pull = pull.keys != nullptr;
  exchange.pull_version = pull.version;
  exchange.pull_rows = pulls.data();
  exchange.park = absl::Seconds(20);
  absl::Status status;
  Notification done;
  store_.Start(exchange, [&](const ExchangeResult& result) {
    status = result.status;
    for (const PushOutcome outcome : result.outcomes) outcomes_[outcome] += 1;
    for (const PulledSlice& pulled : result.pulls) EXPECT_TRUE(pulled.has_value);
    done.Notify();
  });
  done.Wait();
  for (const uint32_t slice : slices) {
    const Bucket& bucket = (*buckets)[slice];
    for (size_t k = 0; k < bucket.pulled_keys.size(); ++k) {
      rows_.emplace_back(bucket.pulled_keys[k], bucket.values[k * static_cast<size_t>(table_.dim)]);
    }
  }
  return status;
}

}  // namespace shoal
