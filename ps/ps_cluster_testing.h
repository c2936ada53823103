// (testonly) The ps tasks of a run with a fake chief, reached in one of three ways.
#ifndef SHOAL_PS_PS_CLUSTER_TESTING_H_
#define SHOAL_PS_PS_CLUSTER_TESTING_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "proto/v1/parameter_service.pb.h"
#include "ps/parameter_server.h"
#include "runtime/exchange/bulk_connector.h"
#include "runtime/exchange/remote_variable_store.h"
#include "runtime/rpc/fake_chief.h"
#include "runtime/transport/bulk.h"

namespace shoal {

inline constexpr uint32_t kNumTestPs = 2;
inline constexpr uint32_t kNumTestWorkers = 8;  // The tasks know all of them.
inline constexpr uint64_t kTestWorker0 = 10;    // Worker i has this incarnation + i.

// Returns a request to load two variables of ones in five slices, with plain SGD and the learning
// rate 0.5. A step has two batches of two examples each; an asynchronous one has one batch.
v1::LoadSlicesRequest PsLoadRequest(uint64_t lineage, bool synchronous);

// The way in which the tasks are reached.
enum class PsForm { kInProcess, kGrpc, kSharedMemory };

std::string PsFormName(const testing::TestParamInfo<PsForm>& info);

inline auto AllPsForms() {
  return testing::Values(PsForm::kInProcess, PsForm::kGrpc, PsForm::kSharedMemory);
}

// Returns the incarnations of the test's workers: worker i has `first` + i.
std::map<uint32_t, uint64_t> WorkersFrom(uint64_t first);

// kNumTestPs started ps tasks, which the destructor stops. Not thread-safe.
class PsTestCluster {
 public:
  explicit PsTestCluster(PsForm form,
                         const std::function<void(ParameterServer::Options*)>& change = nullptr);
  ~PsTestCluster();

  std::unique_ptr<BulkChannel> Connect(const std::string& address);

  // Loads every task with PsLoadRequest, modified by `change`. Returns the first error.
  absl::Status Load(uint64_t lineage, bool synchronous = true,
                    const std::function<void(v1::LoadSlicesRequest*)>& change = nullptr);

  StoreView View(uint64_t lineage) const;

  const PsForm form;
  RealClock clock;
  const std::unique_ptr<FileSystem> file_system = NewPosixFileSystem();
  FakeChief chief;
  BulkConnector connector;
  std::vector<std::unique_ptr<ParameterServer>> servers;
};

}  // namespace shoal

#endif  // SHOAL_PS_PS_CLUSTER_TESTING_H_
