// Forwards unary gRPC calls byte for byte, with their metadata, deadline and cancellation, except
// for those that a rule disturbs.
#ifndef SHOAL_TESTS_CHAOS_PROXY_LINK_H_
#define SHOAL_TESTS_CHAOS_PROXY_LINK_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "base/mutex.h"
#include "tests/chaos/fault_rules.h"

namespace shoal {

class ProxiedCall;

// The rules of all links, and the calls that a rule holds. Thread-safe.
class SharedRules {
 public:
  explicit SharedRules(uint64_t seed) : rules_(seed) {}

  absl::Status Add(const FaultRule& rule);
  // Removes a rule and forwards the calls that it holds.
  absl::Status Remove(const std::string& name);
  void Clear();
  std::string Counts() const;

  FaultRule Decide(absl::string_view link, absl::string_view method, absl::string_view from,
                   uint64_t bytes);
  // Returns false if the rule was removed meanwhile.
  bool Hold(const std::string& rule, ProxiedCall* call);
  // Returns false if the call is being released already.
  bool StopHolding(const std::string& rule, ProxiedCall* call);

 private:
  mutable Mutex mutex_;
  FaultRules rules_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<ProxiedCall*>> held_ ABSL_GUARDED_BY(mutex_);
};

// One address that forwards to another.
class ProxyLink {
 public:
  // `listen` has a port that is not 0. `rules` outlives the link.
  ProxyLink(std::string name, std::string listen, const std::string& target, SharedRules* rules);
  ~ProxyLink() { Down(); }
  ProxyLink(const ProxyLink&) = delete;
  ProxyLink& operator=(const ProxyLink&) = delete;

  absl::Status Up();
  // Closes every connection and refuses new ones. All calls have ended when this returns.
  void Down();

  const std::string& name() const { return name_; }
  grpc::GenericStub* stub() { return &stub_; }
  SharedRules* rules() { return rules_; }

 private:
  const std::string name_;
  const std::string listen_;
  SharedRules* const rules_;
  grpc::GenericStub stub_;
  std::unique_ptr<grpc::CallbackGenericService> service_;  // Serves in one server only, while up.
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_CHAOS_PROXY_LINK_H_
