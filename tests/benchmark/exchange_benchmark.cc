// Measures the cost of a training step without the computation: one worker pushes all gradients of
// the seed MLP (600-512-128-128-1, 1.56 MB) to one ps, which applies plain SGD, and pulls the new
// values. Worker and ps are threads of this process, so the CPU is that of both sides together.
// Every round measures all transports and numbers of ps threads in turn; the program prints
// medians. It makes certificates for mutual TLS, so start it in the project's folder.
//
// usage: exchange_benchmark [--rounds=5] [--milliseconds=200]
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "proto/v1/parameter_service.pb.h"
#include "ps/parameter_server.h"
#include "ps/parameter_service_impl.h"
#include "ps/parameter_shard.h"
#include "runtime/exchange/bulk_connector.h"
#include "runtime/exchange/remote_variable_store.h"
#include "runtime/rpc/fake_chief.h"
#include "runtime/tls/credentials.h"
#include "runtime/tls/test_certificates.h"
#include "runtime/transport/in_process_bulk_channel.h"
#include "runtime/variables/exchange_groups.h"

namespace shoal {
namespace {

constexpr char kRunId[] = "0123456789abcdef0123456789abcdef";
constexpr uint64_t kWorkerIncarnation = 2;
constexpr uint64_t kSliceBytes = 256 << 10;

v1::LoadSlicesRequest LoadRequest(bool synchronous) {
  v1::LoadSlicesRequest request;
  request.mutable_identity()->set_run_id(kRunId);
  request.mutable_identity()->set_term(1);
  request.mutable_identity()->mutable_member()->set_job(v1::JOB_CHIEF);
  request.mutable_identity()->set_lineage(1);
  request.mutable_run()->mutable_optimizer()->mutable_sgd();
  request.mutable_run()->mutable_optimizer()->set_learning_rate(0.01);
  request.mutable_run()->mutable_sync()->set_sync_replicas(synchronous);
  request.mutable_run()->mutable_sync()->set_max_staleness(-1);
  request.mutable_run()->set_max_steps(uint64_t{1} << 40);
  request.mutable_run()->mutable_checkpoint()->set_save_every(uint64_t{1} << 40);
  const int64_t widths[] = {600, 512, 128, 128, 1};
  for (int layer = 0; layer < 4; ++layer) {
    for (const bool is_bias : {false, true}) {
      v1::VariableSpec* variable = request.add_variables();
      variable->set_name((is_bias ? "b" : "w") + std::to_string(layer));
      if (!is_bias) variable->add_shape(widths[layer]);
      variable->add_shape(widths[layer + 1]);
      variable->set_dtype(v1::DATA_TYPE_FLOAT32);
      variable->set_trainable(true);
      variable->set_update(v1::UPDATE_KIND_OPTIMIZER);
      variable->mutable_initializer()->set_kind(v1::Initializer::KIND_ZEROS);
    }
  }
  v1::StepPlan* plan = request.mutable_plan();
  plan->set_examples_per_epoch(uint64_t{1} << 40);
  plan->set_batch_examples(uint64_t{1} << 20);
  plan->set_replicas_to_aggregate(1);
  return request;
}

enum class Form { kInProcess, kGrpc, kMutualTls, kSharedMemory };
constexpr Form kForms[] = {Form::kInProcess, Form::kGrpc, Form::kMutualTls, Form::kSharedMemory};
constexpr const char* kFormNames[] = {"in process", "grpc", "mutual TLS", "shared memory"};

BulkConnector::Options ConnectorOptions(Form form, const Credentials* credentials) {
  BulkConnector::Options options;
  options.shared_memory = form == Form::kSharedMemory;
  if (form == Form::kMutualTls) options.credentials = credentials->ForChannel(kRolePs);
  return options;
}

// A ps and a worker's store, and the worker's step.
class Training {
 public:
  // `credentials` are those of both sides.
  Training(Form form, bool synchronous, const Credentials* credentials, size_t threads)
      : synchronous_(synchronous), connector_(ConnectorOptions(form, credentials)) {
    v1::LoadSlicesRequest request = LoadRequest(synchronous);
    const std::vector<v1::VariableSpec> variables(request.variables().begin(),
                                                  request.variables().end());
    const SliceTable table = std::move(SliceTable::Create(variables, kSliceBytes).value());
    request.mutable_shard_map()->set_num_ps_tasks(1);
    request.mutable_shard_map()->set_slice_bytes(kSliceBytes);
    for (uint32_t slice = 0; slice < table.size(); ++slice) {
      request.mutable_shard_map()->add_owner(0);
      gradients_.emplace_back(table[slice].num_elements, 1e-6f);
      values_.emplace_back(table[slice].num_elements);
    }
    StartServer(form, credentials, request, threads);
    RemoteVariableStore::Options options;
    options.run_id = kRunId;
    options.incarnation = kWorkerIncarnation;
    options.groups = MakeExchangeGroups(table, std::vector<uint32_t>(table.size(), 0));
    options.connect = [this, form](const std::string& address) {
      return form == Form::kInProcess ? NewInProcessBulkChannel(server_->bulk_service())
                                      : connector_.Connect(address);
    };
    store_ = std::make_unique<RemoteVariableStore>(table, std::move(options), &clock_);
    store_->SetView({1, 1, 1, {server_->address()}, {1}});
    for (const ExchangeGroup& group : store_->groups()) {
      pushes_.emplace_back();
      pulls_.emplace_back();
      for (const uint32_t slice : group.slices) {
        pushes_.back().push_back(gradients_[slice].data());
        pulls_.back().push_back(values_[slice].data());
      }
    }
    versions_.resize(table.size());
  }
  ~Training() { store_.reset(); }

  // All groups at once, as after a backward pass; returns when all values of the next version are
  // there.
  void Step() {
    {
      MutexLock lock(&mutex_);
      left_ = static_cast<int>(pushes_.size());
    }
    std::fill(versions_.begin(), versions_.end(), step_);
    for (uint32_t g = 0; g < pushes_.size(); ++g)
      store_->Start(ExchangeOf(g), [this](const auto& r) { OnDone(r); });
    ++step_;
    MutexLock lock(&mutex_);
    while (left_ > 0) all_done_.Wait(&mutex_);
  }

 private:
  void StartServer(Form form, const Credentials* credentials, const v1::LoadSlicesRequest& request,
                   size_t threads) {
    ParameterServer::Options options;
    options.chief = chief_.client();
    options.clock = &clock_;
    options.session.nonce = "ps";
    options.session.lease = absl::Seconds(10);
    options.session.register_patience = absl::Seconds(300);
    options.threads = threads;
    if (form == Form::kInProcess) {
      options.address = "here";
    } else {
      options.listen_address = "127.0.0.1:0";
    }
    if (form == Form::kMutualTls) options.credentials = credentials;
    server_ = std::move(ParameterServer::Create(options).value());
    CHECK_OK(server_->Start());
    v1::LoadSlicesResponse response;
    CHECK_OK(server_->parameter_service()->LoadSlices(request, &response));
    server_->shard()->LearnWorkers({{0, kWorkerIncarnation}});
  }

  Exchange ExchangeOf(uint32_t group) {
    Exchange exchange;
    exchange.group = group;
    exchange.lineage = 1;
    exchange.push = true;
    exchange.batch = {0, step_};
    exchange.step = step_;
    exchange.batch_examples = uint64_t{1} << 20;
    exchange.push_data = pushes_[group].data();
    exchange.pulled_versions = synchronous_ ? nullptr : versions_.data();
    exchange.pull = true;
    exchange.pull_version = step_ + 1;
    exchange.pull_data = pulls_[group].data();
    exchange.park = absl::Seconds(1);
    return exchange;
  }

  void OnDone(const ExchangeResult& result) {
    CHECK_OK(result.status);
    for (const PulledSlice& pull : result.pulls) CHECK(pull.has_value);
    MutexLock lock(&mutex_);
    if (--left_ == 0) all_done_.NotifyAll();
  }

  const bool synchronous_;
  RealClock clock_;
  FakeChief chief_;
  BulkConnector connector_;
  std::unique_ptr<ParameterServer> server_;
  std::unique_ptr<RemoteVariableStore> store_;
  std::vector<std::vector<float>> gradients_, values_;  // By slice.
  std::vector<std::vector<const void*>> pushes_;        // By group.
  std::vector<std::vector<float*>> pulls_;
  std::vector<uint64_t> versions_;
  uint64_t step_ = 0;
  Mutex mutex_;
  CondVar all_done_;
  int left_ ABSL_GUARDED_BY(mutex_) = 0;
};

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return t.tv_sec + 1e-6 * t.tv_usec; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void Run(int rounds, absl::Duration duration) {
  const TestCertificates certificates;
  const std::unique_ptr<Credentials> credentials =
      std::move(Credentials::Create(certificates.Of("all"), absl::Now()).value());
  struct Case {
    Form form;
    bool synchronous;
    size_t threads;
    std::unique_ptr<Training> training;
    std::vector<double> wall, cpu;
  };
  std::vector<Case> cases;
  for (const bool synchronous : {true, false}) {
    for (const Form form : kForms) {
      for (const size_t threads : {1, 2}) {
        cases.push_back({form,
                         synchronous,
                         threads,
                         std::make_unique<Training>(form, synchronous, credentials.get(), threads),
                         {},
                         {}});
        for (int i = 0; i < 10; ++i) cases.back().training->Step();
      }
    }
  }
  for (int round = 0; round < rounds; ++round) {
    for (Case& one : cases) {
      int steps = 0;
      const double cpu = CpuSeconds();
      const absl::Time start = absl::Now();
      for (; absl::Now() - start < duration; ++steps) one.training->Step();
      one.wall.push_back(absl::ToDoubleMicroseconds(absl::Now() - start) / steps);
      one.cpu.push_back((CpuSeconds() - cpu) * 1e6 / steps);
    }
  }
  std::printf("%-6s %-14s %7s %9s %9s\n", "mode", "form", "threads", "us/step", "cpu us");
  for (const Case& one : cases) {
    std::printf("%-6s %-14s %7zu %9.0f %9.0f\n", one.synchronous ? "sync" : "async",
                kFormNames[static_cast<int>(one.form)], one.threads, Median(one.wall),
                Median(one.cpu));
  }
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  int rounds = 5;
  int milliseconds = 200;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    const bool good =
        (absl::ConsumePrefix(&argument, "--rounds=") && absl::SimpleAtoi(argument, &rounds)) ||
        (absl::ConsumePrefix(&argument, "--milliseconds=") &&
         absl::SimpleAtoi(argument, &milliseconds));
    if (good && rounds > 0) continue;
    std::fprintf(stderr, "%s: see the top of exchange_benchmark.cc\n", argv[i]);
    return 64;
  }
  shoal::Run(rounds, absl::Milliseconds(milliseconds));
}
