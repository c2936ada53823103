// Tests mutual TLS between real servers and clients, over sockets.
#include <gmock/gmock.h>
#include <grpcpp/channel.h>
#include <grpcpp/impl/codegen/service_type.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "base/log.h"
#include "base/notification.h"
#include "proto/v1/chief_service.grpc.pb.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/fake_chief.h"
#include "runtime/rpc/grpc_chief_service.h"
#include "runtime/rpc/grpc_control_channel.h"
#include "runtime/rpc/grpc_server.h"
#include "runtime/rpc/refused_connection.h"
#include "runtime/tls/credentials.h"
#include "runtime/tls/test_certificates.h"
#include "runtime/transport/bulk_test_service.h"
#include "runtime/transport/grpc_bulk_channel.h"
#include "runtime/transport/grpc_bulk_server.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Credentials> Make(const TlsFiles& files) {
  auto credentials = Credentials::Create(files, absl::Now(), absl::Seconds(1));
  EXPECT_TRUE(credentials.ok()) << credentials.status();
  return *std::move(credentials);
}

std::string Text(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A client that checks nothing but the server's authority; without a certificate if `pair` has
// none.
std::shared_ptr<grpc::ChannelCredentials> CarelessTls(const std::string& authorities,
                                                      const TlsFiles& pair) {
  namespace tls = grpc::experimental;
  tls::TlsChannelCredentialsOptions options;
  std::vector<tls::IdentityKeyCertPair> pairs;
  if (!pair.key.empty()) pairs.push_back({Text(pair.key), Text(pair.certificate)});
  options.set_certificate_provider(
      std::make_shared<tls::StaticDataCertificateProvider>(Text(authorities), pairs));
  options.watch_root_certs();
  if (!pairs.empty()) options.watch_identity_key_cert_pairs();
  options.set_certificate_verifier(std::make_shared<tls::NoOpCertificateVerifier>());
  options.set_check_call_host(false);
  return tls::TlsCredentials(options);
}

// Signs in another directory with the authority of `made`.
std::string SignedBy(const TestCertificates& made) {
  return absl::StrCat("--authority=", made.directory());
}

// Chief methods and the bulk path on one port, with the certificate of every role.
class TlsTest : public ::testing::Test {
 protected:
  TlsTest() : bulk_server_(&bulk, {}), service_(&chief) {
    GrpcServer::Options options;
    options.credentials = server_credentials_.get();
    options.services = {&service_};
    options.bulk = &bulk_server_;
    server = std::move(GrpcServer::Create(options).value());
    log_ = made.directory() + "/log";
    LogOptions log;
    log.file = log_;
    EXPECT_TRUE(SetUpLog(log).ok());
  }
  ~TlsTest() override {
    server.reset();
    EXPECT_TRUE(SetUpLog(LogOptions()).ok());
  }

  std::unique_ptr<PeerChannel> Dial(const Credentials* credentials, RoleSet peer = kAnyRole) const {
    return NewGrpcChannel(server->address(), ChannelUse::kBulk, kMaxControlMessageBytes,
                          ChannelCredentialsFor(credentials, peer));
  }
  absl::Status RegisterAs(v1::Job job, const Credentials* credentials, RoleSet peer = kAnyRole) {
    ChiefClient client(NewGrpcControlChannel(Dial(credentials, peer)));
    v1::RegisterTaskRequest request;
    request.mutable_identity()->mutable_member()->set_job(job);
    request.set_nonce("a");
    v1::RegisterTaskResponse response;
    return client.Call(&v1::ChiefService::Service::RegisterTask, request, &response);
  }
  absl::Status Stop(const Credentials* credentials, bool stop = true) {
    ChiefClient client(NewGrpcControlChannel(Dial(credentials)));
    v1::RequestStopRequest request;
    request.set_stop(stop);
    v1::RequestStopResponse response;
    return client.Call(&v1::ChiefService::Service::RequestStop, request, &response);
  }
  // Reports that worker/0 has died of a batch.
  absl::Status ReportDeath(const Credentials* credentials) {
    ChiefClient client(NewGrpcControlChannel(Dial(credentials)));
    v1::ReportBadBatchRequest request;
    request.mutable_died()->set_job(v1::JOB_WORKER);
    v1::ReportBadBatchResponse response;
    return client.Call(&v1::ChiefService::Service::ReportBadBatch, request, &response);
  }
  // Makes a report in the name of a task of `job`.
  template <typename Request, typename Response>
  absl::Status ReportAs(v1::Job job, const Credentials* credentials,
                        grpc::Status (v1::ChiefService::Service::*method)(grpc::ServerContext*,
                                                                          const Request*,
                                                                          Response*)) {
    ChiefClient client(NewGrpcControlChannel(Dial(credentials)));
    Request request;
    request.mutable_identity()->mutable_member()->set_job(job);
    Response response;
    return client.Call(method, request, &response);
  }
  absl::Status Exchange(const Credentials* credentials);

  // Lines of the log so far that hold `text`.
  int Logged(const std::string& text) const {
    std::ifstream file(log_);
    std::string line;
    int lines = 0;
    while (std::getline(file, line)) lines += absl::StrContains(line, text);
    return lines;
  }

  TestCertificates made;
  FakeChief chief;
  BulkTestService bulk;
  std::unique_ptr<GrpcServer> server;

 private:
  const std::unique_ptr<Credentials> server_credentials_ = Make(made.Of("all"));
  GrpcBulkServer bulk_server_;
  GrpcChiefService<FakeChief> service_;
  std::string log_;
};

// Another chief, with its own certificate.
class OtherServer {
 public:
  explicit OtherServer(const TlsFiles& files) : credentials_(Make(files)) {
    GrpcServer::Options options;
    options.credentials = credentials_.get();
    options.services = {&service_};
    server_ = std::move(GrpcServer::Create(options).value());
  }
  absl::Status Ask(const Credentials& asker) {
    ChiefClient client(
        NewGrpcControlChannel(NewGrpcChannel(server_->address(), ChannelUse::kControl,
                                             kMaxControlMessageBytes, asker.ForChannel(kAnyRole))));
    v1::GetRunStatusResponse response;
    return client.Call(&v1::ChiefService::Service::GetRunStatus, v1::GetRunStatusRequest(),
                       &response);
  }

 private:
  const std::unique_ptr<Credentials> credentials_;
  FakeChief chief_;
  GrpcChiefService<FakeChief> service_{&chief_};
  std::unique_ptr<GrpcServer> server_;
};

// Waits until `connects` succeeds.
void AwaitConnection(const std::string& which, const std::function<absl::Status()>& connects) {
  const absl::Time give_up = absl::Now() + absl::Minutes(2);
  absl::Status status = connects();
  while (!status.ok() && absl::Now() < give_up) {
    absl::SleepFor(absl::Milliseconds(50));
    status = connects();
  }
  ASSERT_EQ(status, absl::OkStatus()) << which;
}

class OneCall : public BulkCall {
 public:
  OneCall() { header = "echo"; }
  void OnReply(const absl::Status& status, absl::string_view /*header*/,
               PayloadReader* /*payload*/) override {
    result = status;
    done.Notify();
  }
  absl::Status result;
  Notification done;
};

absl::Status TlsTest::Exchange(const Credentials* credentials) {
  GrpcBulkClient client;
  const auto channel = client.NewChannel(Dial(credentials));
  OneCall call;
  channel->Start(&call);
  call.done.Wait();
  return call.result;
}

TEST_F(TlsTest, EachRoleMayCallItsMethods) {
  const auto ps = Make(made.Of("ps"));
  const auto worker = Make(made.Of("worker"));
  const auto operators = Make(made.Of("operator"));
  EXPECT_EQ(RegisterAs(v1::JOB_PS, ps.get(), kRoleChief), absl::OkStatus());
  EXPECT_EQ(RegisterAs(v1::JOB_WORKER, worker.get(), kRoleChief), absl::OkStatus());
  EXPECT_EQ(Exchange(worker.get()), absl::OkStatus());
  EXPECT_EQ(Stop(operators.get()), absl::OkStatus());
  EXPECT_EQ(ReportDeath(operators.get()), absl::OkStatus());
  // When they are asked to end, they leave a checkpoint behind.
  EXPECT_EQ(Stop(ps.get(), false), absl::OkStatus());
  EXPECT_EQ(Stop(worker.get(), false), absl::OkStatus());
  EXPECT_EQ(Logged("refused"), 0);
  EXPECT_EQ(Logged("grpc: "), 0) << "what gRPC says of their numbers looks like a refusal";
}

TEST_F(TlsTest, AWrongRoleIsRefusedAndLoggedOnceAndNothingChanges) {
  const auto worker = Make(made.Of("worker"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Stop(worker.get()),
              absl::PermissionDeniedError("a task may ask for a checkpoint, but the run is ended "
                                          "only by chief,operator"));
    EXPECT_EQ(RegisterAs(v1::JOB_PS, worker.get()).code(), absl::StatusCode::kPermissionDenied);
  }
  const auto ps = Make(made.Of("ps"));
  // The guard stands in front of the services, and certificates may be about to be exchanged.
  const absl::Status guarded = Exchange(ps.get());
  EXPECT_EQ(guarded.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(FindRefusal(guarded, /*secure=*/true).certain);
  EXPECT_THAT(FindRefusal(guarded, /*secure=*/true).why,
              HasSubstr("--tls_cert: spiffe://shoal/ps may not call /"));
  EXPECT_EQ(ReportDeath(worker.get()),
            absl::PermissionDeniedError("deaths of workers are reported only by chief,operator"));
  EXPECT_EQ(chief.NumCalls(), 0);
  EXPECT_EQ(bulk.calls(), 0);
  EXPECT_EQ(Logged("the run is ended only by chief,operator, it came from 127.0.0.1:"), 1);
  EXPECT_EQ(Logged("the run is ended only by"), 1);
  EXPECT_EQ(Logged("BulkService"), 1);
  EXPECT_EQ(Logged("refused: spiffe://shoal/ps may not call /"), 1);
  EXPECT_EQ(Logged("only worker, it came from 127.0.0.1:"), 1);
}

// A report renews its sender's lease, so a worker's key must not report for a dead ps, nor a ps's
// for a dead worker.
TEST_F(TlsTest, ATaskReportsOnlyWithTheJobOfItsCertificate) {
  const auto ps = Make(made.Of("ps"));
  const auto worker = Make(made.Of("worker"));
  const absl::Status as_ps = absl::PermissionDeniedError("spiffe://shoal/worker speaks for a ps");
  const absl::Status as_worker =
      absl::PermissionDeniedError("spiffe://shoal/ps speaks for a worker");
  EXPECT_EQ(ReportAs(v1::JOB_PS, worker.get(), &v1::ChiefService::Service::ReportEvaluation),
            as_ps);
  EXPECT_EQ(ReportAs(v1::JOB_PS, worker.get(), &v1::ChiefService::Service::LeaseBatches), as_ps);
  EXPECT_EQ(ReportAs(v1::JOB_WORKER, ps.get(), &v1::ChiefService::Service::ReportSteps), as_worker);
  EXPECT_EQ(ReportAs(v1::JOB_WORKER, ps.get(), &v1::ChiefService::Service::ReportShard), as_worker);
  EXPECT_EQ(ReportAs(v1::JOB_WORKER, ps.get(), &v1::ChiefService::Service::ReportNorms), as_worker);
  EXPECT_EQ(chief.NumCalls(), 0);
  EXPECT_EQ(ReportAs(v1::JOB_WORKER, worker.get(), &v1::ChiefService::Service::ReportEvaluation),
            absl::OkStatus());
  EXPECT_EQ(ReportAs(v1::JOB_PS, ps.get(), &v1::ChiefService::Service::ReportSteps),
            absl::OkStatus());
}

TEST_F(TlsTest, AServerOfAnotherRoleIsNotSpokenTo) {
  const TestCertificates again(SignedBy(made));
  const auto ps_credentials = Make(again.Of("ps"));
  GrpcServer::Options options;
  GrpcChiefService<FakeChief> service(&chief);
  options.credentials = ps_credentials.get();
  options.services = {&service};
  const auto not_chief = std::move(GrpcServer::Create(options).value());
  const auto worker = Make(made.Of("worker"));
  ChiefClient client(NewGrpcControlChannel(
      NewGrpcChannel(not_chief->address(), ChannelUse::kControl, kMaxControlMessageBytes,
                     worker->ForChannel(kRoleChief))));
  v1::RegisterTaskRequest request;
  request.mutable_identity()->mutable_member()->set_job(v1::JOB_WORKER);
  v1::RegisterTaskResponse response;
  const absl::Status status =
      client.Call(&v1::ChiefService::Service::RegisterTask, request, &response);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(FindRefusal(status, /*secure=*/true).why, HasSubstr("wanted spiffe://shoal/chief"));
  EXPECT_TRUE(FindRefusal(status, /*secure=*/true).certain);
  EXPECT_EQ(chief.NumCalls(), 0);
}

TEST_F(TlsTest, AnotherScopeOfTheSameAuthorityIsRefused) {
  const TestCertificates blue(SignedBy(made) + " --scope=spiffe://shoal/blue");
  const auto worker = Make(blue.Of("worker"));
  const absl::Status status = RegisterAs(v1::JOB_WORKER, worker.get());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);  // The client does not like it either.
  EXPECT_EQ(chief.NumCalls(), 0);
}

TEST_F(TlsTest, TheServerLooksAtTheScopeItself) {
  const TestCertificates blue(SignedBy(made) + " --scope=spiffe://shoal/blue");
  ChiefClient client(NewGrpcControlChannel(
      NewGrpcChannel(server->address(), ChannelUse::kBulk, kMaxControlMessageBytes,
                     CarelessTls(made.Of("all").authorities, blue.Of("all")))));
  v1::GetRunStatusResponse response;
  const absl::Status status =
      client.Call(&v1::ChiefService::Service::GetRunStatus, v1::GetRunStatusRequest(), &response);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(FindRefusal(status, /*secure=*/true).certain);
  EXPECT_EQ(chief.NumCalls(), 0);
  EXPECT_EQ(Logged("is not of this run's scope spiffe://shoal"), 1);
}

TEST_F(TlsTest, AnotherAuthorityIsRefusedAndLoggedOnce) {
  const TestCertificates other;
  // It trusts the server, but the server does not trust it.
  TlsFiles files = other.Of("worker");
  files.authorities = made.Of("all").authorities;
  const auto stranger = Make(files);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(RegisterAs(v1::JOB_WORKER, stranger.get()).code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ(chief.NumCalls(), 0);
  EXPECT_EQ(Logged("certificate verify failed"), 1);
}

TEST_F(TlsTest, AClientDoesNotTrustAServerOfAnotherAuthority) {
  const TestCertificates other;
  const auto stranger = Make(other.Of("worker"));
  EXPECT_EQ(RegisterAs(v1::JOB_WORKER, stranger.get()).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(chief.NumCalls(), 0);
}

TEST_F(TlsTest, AnExpiredCertificateIsRefused) {
  const TestCertificates expired(SignedBy(made) + " --days=-1");
  // Our own refusal comes first: such a task does not start.
  const auto own = Credentials::Create(expired.Of("worker"), absl::Now());
  EXPECT_EQ(own.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(own.status().message()), HasSubstr("expired at"));
  // It held for a day, until yesterday; not before.
  EXPECT_TRUE(Credentials::Create(expired.Of("worker"), absl::Now() - absl::Hours(36)).ok());
  const auto early = Credentials::Create(expired.Of("worker"), absl::Now() - absl::Hours(60));
  EXPECT_EQ(early.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(TlsTest, AClientWhoseCertificateExpiredWhileItRanIsRefused) {
  const TestCertificates expired(SignedBy(made) + " --days=-1");
  const TestCertificates valid(SignedBy(made));
  const auto ask = [&](const TestCertificates& pair) {
    ChiefClient client(NewGrpcControlChannel(
        NewGrpcChannel(server->address(), ChannelUse::kBulk, kMaxControlMessageBytes,
                       CarelessTls(made.Of("all").authorities, pair.Of("worker")))));
    v1::GetRunStatusResponse response;
    return client.Call(&v1::ChiefService::Service::GetRunStatus, v1::GetRunStatusRequest(),
                       &response);
  };
  // The two differ in the date alone.
  EXPECT_EQ(ask(valid), absl::OkStatus());
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = ask(expired);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  }
  EXPECT_EQ(chief.NumCalls(), 1);
}

TEST_F(TlsTest, AClientWithoutACertificateIsRefused) {
  for (int i = 0; i < 3; ++i) {
    ChiefClient client(NewGrpcControlChannel(
        NewGrpcChannel(server->address(), ChannelUse::kBulk, kMaxControlMessageBytes,
                       CarelessTls(made.Of("all").authorities, TlsFiles()))));
    v1::GetRunStatusResponse response;
    EXPECT_EQ(
        client.Call(&v1::ChiefService::Service::GetRunStatus, v1::GetRunStatusRequest(), &response)
            .code(),
        absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ(chief.NumCalls(), 0);
  EXPECT_EQ(Logged("peer did not return a certificate"), 1);
  EXPECT_EQ(Logged(", the connection is "), 1) << "and whose it was";
}

TEST_F(TlsTest, APlaintextClientIsRefusedAndLoggedOnce) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(RegisterAs(v1::JOB_WORKER, nullptr).code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ(chief.NumCalls(), 0);
  EXPECT_EQ(Logged("wrong version number"), 1);
}

TEST_F(TlsTest, ARefusalIsRecognizedByTheMessageOfGrpc) {
  const TestCertificates other;
  const auto stranger = Make(other.Of("worker"));
  const RefusedConnection untrusted =
      FindRefusal(RegisterAs(v1::JOB_WORKER, stranger.get()), /*secure=*/true);
  EXPECT_TRUE(untrusted.certain);
  EXPECT_THAT(untrusted.why, HasSubstr("--tls_ca"));
  const RefusedConnection plaintext =
      FindRefusal(RegisterAs(v1::JOB_WORKER, nullptr), /*secure=*/false);
  EXPECT_FALSE(plaintext.certain);
  EXPECT_THAT(plaintext.why, HasSubstr("if the run uses TLS"));
  const auto worker = Make(made.Of("worker"));
  GrpcServer::Options options;
  GrpcChiefService<FakeChief> service(&chief);
  options.services = {&service};
  const auto speaks_no_tls = std::move(GrpcServer::Create(options).value());
  ChiefClient client(NewGrpcControlChannel(
      NewGrpcChannel(speaks_no_tls->address(), ChannelUse::kControl, kMaxControlMessageBytes,
                     worker->ForChannel(kRoleChief))));
  v1::GetRunStatusResponse response;
  const RefusedConnection no_tls = FindRefusal(
      client.Call(&v1::ChiefService::Service::GetRunStatus, v1::GetRunStatusRequest(), &response),
      /*secure=*/true);
  EXPECT_TRUE(no_tls.certain);
  EXPECT_THAT(no_tls.why, HasSubstr("does not use TLS"));
}

TEST_F(TlsTest, NewFilesAreTakenUnderLoadWithoutAFailedCall) {
  // All of it is replaced: authority, certificates and keys of both sides.
  const TestCertificates next;
  const auto worker = Make(made.Of("worker"));
  std::atomic<bool> stop{false};
  std::atomic<int> failures{0};
  std::atomic<int> calls[2] = {};
  const auto load = [&](bool connects_anew) {
    auto client = std::make_unique<ChiefClient>(NewGrpcControlChannel(Dial(worker.get())));
    while (!stop) {
      if (connects_anew)
        client = std::make_unique<ChiefClient>(NewGrpcControlChannel(Dial(worker.get())));
      v1::GetRunStatusResponse response;
      const absl::Status status = client->Call(&v1::ChiefService::Service::GetRunStatus,
                                               v1::GetRunStatusRequest(), &response);
      ++calls[connects_anew];
      if (!status.ok()) {
        ++failures;
        ADD_FAILURE() << status;
      }
    }
  };
  std::thread steady(load, false), anew(load, true);
  // First both sides trust both authorities, then the pairs change.
  const std::string both = made.directory() + "/both.crt";
  std::ofstream(both) << std::ifstream(made.Of("all").authorities).rdbuf()
                      << std::ifstream(next.Of("all").authorities).rdbuf();
  std::filesystem::rename(both, made.Of("all").authorities);
  TlsFiles files = next.Of("worker");
  files.authorities = made.Of("all").authorities;
  AwaitConnection("the server trusts the next authority", [&] {
    const auto next_worker = Make(files);
    return RegisterAs(v1::JOB_WORKER, next_worker.get());
  });
  files = next.Of("all");
  files.authorities = made.Of("all").authorities;
  AwaitConnection("the worker trusts the next authority",
                  [&] { return OtherServer(files).Ask(*worker); });
  const std::string only_new = made.directory() + "/next.crt";
  std::filesystem::copy_file(next.Of("ca").certificate, only_new);
  for (const char* name : {"all", "worker"}) {
    std::filesystem::rename(next.Of(name).key, made.Of(name).key);
    std::filesystem::rename(next.Of(name).certificate, made.Of(name).certificate);
  }
  files = made.Of("worker");
  files.authorities = only_new;
  const auto modern = Make(files);
  AwaitConnection("the server shows its new certificate",
                  [&] { return RegisterAs(v1::JOB_WORKER, modern.get()); });
  files = made.Of("all");
  files.authorities = only_new;
  OtherServer wants_new(files);
  AwaitConnection("the worker shows its new certificate", [&] { return wants_new.Ask(*worker); });
  // The load continues with the new files.
  const int before[2] = {calls[0], calls[1]};
  while (failures == 0 && (calls[0] < before[0] + 20 || calls[1] < before[1] + 20)) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  stop = true;
  steady.join();
  anew.join();
  EXPECT_EQ(failures, 0);
}

TEST_F(TlsTest, UnusableFilesAreNamed) {
  const auto text = [&](const TlsFiles& files) {
    const auto credentials = Credentials::Create(files, absl::Now());
    EXPECT_EQ(credentials.status().code(), absl::StatusCode::kFailedPrecondition);
    return std::string(credentials.status().message());
  };
  TlsFiles files = made.Of("ps");
  files.certificate = "/does/not/exist";
  EXPECT_THAT(text(files), HasSubstr("--tls_cert: /does/not/exist cannot be read: "));
  files = made.Of("ps");
  files.key = made.Of("worker").key;
  EXPECT_THAT(text(files), HasSubstr("--tls_key: "));
  EXPECT_THAT(text(files), HasSubstr("is not the key of"));
  files.key = made.Of("ps").certificate;
  EXPECT_THAT(text(files), HasSubstr("is not a private key"));
  files = made.Of("ps");
  files.authorities = files.key;
  EXPECT_THAT(text(files), HasSubstr("--tls_ca: "));
  files = made.Of("ca");
  EXPECT_THAT(text(files), HasSubstr("names no role"));
}

}  // namespace
}  // namespace shoal
