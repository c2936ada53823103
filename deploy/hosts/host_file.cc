#include "deploy/hosts/host_file.h"

#include <arpa/inet.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "base/status_macros.h"

namespace shoal {
namespace {

// Returns whether a name can be a word of ssh's command line and a part of an address.
bool IsPlain(absl::string_view name) {
  return !name.empty() && name[0] != '-' &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return c < 128 && (std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_');
         });
}

// Returns whether the text is a host name, an IPv4 address, or an IPv6 address (with colons)
// without a port.
bool IsHost(const std::string& name) {
  in6_addr v6;
  return IsPlain(name) || inet_pton(AF_INET6, name.c_str(), &v6) == 1;
}

absl::Status ParseRoles(absl::string_view value, HostLine* host) {
  host->takes_chief = host->takes_ps = host->takes_workers = false;
  for (const absl::string_view role : absl::StrSplit(value, ',')) {
    if (role == "chief") {
      host->takes_chief = true;
    } else if (role == "ps") {
      host->takes_ps = true;
    } else if (role == "worker") {
      host->takes_workers = true;
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("role \"", role, "\" is unknown; roles are chief, ps, worker"));
    }
  }
  return absl::OkStatus();
}

absl::Status ParseField(absl::string_view word, HostLine* host) {
  const std::pair<absl::string_view, absl::string_view> field =
      absl::StrSplit(word, absl::MaxSplits('=', 1));
  const auto& [name, value] = field;
  if (name == "roles") return ParseRoles(value, host);
  if (name == "slots") {
    if (absl::SimpleAtoi(value, &host->slots) && host->slots > 0) return absl::OkStatus();
    return absl::InvalidArgumentError("slots must be a whole number above 0");
  }
  if (name == "port") {
    if (absl::SimpleAtoi(value, &host->port) && host->port > 0 && host->port < 65536) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError("port must be a number from 1 to 65535");
  }
  if (name == "user") {
    host->user = std::string(value);
    if (IsPlain(value)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("user \"", value, "\" is not a name"));
  }
  if (name == "address") {
    host->address = std::string(value);
    if (IsHost(host->address)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("address \"", value,
                     "\" is not a host name or address; tasks choose their ports themselves"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", word, "\" is unknown; it is one of slots=, roles=, address=, user= or port="));
}

absl::Status ParseLine(absl::string_view line, std::vector<HostLine>* hosts) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
  if (words.empty()) return absl::OkStatus();
  HostLine host;
  host.name = std::string(words[0]);
  if (!IsHost(host.name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", words[0], "\" is not a host name; a user is given as user=NAME, a port as port=N"));
  }
  host.address = host.name;
  std::set<absl::string_view> given;
  for (size_t i = 1; i < words.size(); ++i) {
    RETURN_IF_ERROR(ParseField(words[i], &host));
    const absl::string_view field = words[i].substr(0, words[i].find('='));
    if (!given.insert(field).second) {
      return absl::InvalidArgumentError(absl::StrCat(field, "= is given twice; give it once"));
    }
  }
  for (const HostLine& other : *hosts) {
    if (other.name == host.name) {
      return absl::InvalidArgumentError(
          absl::StrCat(host.name, " is there already; give it one line with more slots"));
    }
  }
  hosts->push_back(std::move(host));
  return absl::OkStatus();
}

std::vector<size_t> HostsThatTake(const std::vector<HostLine>& hosts, bool HostLine::*role) {
  std::vector<size_t> found;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (hosts[i].*role) found.push_back(i);
  }
  return found;
}

absl::Status NoHostFor(absl::string_view job) {
  return absl::InvalidArgumentError(
      absl::StrCat("--hosts: no host takes ", job, "; add a host, or the role to one"));
}

}  // namespace

absl::StatusOr<std::vector<HostLine>> ParseHostFile(absl::string_view text,
                                                    absl::string_view path) {
  std::vector<HostLine> hosts;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const absl::Status status = ParseLine(line.substr(0, line.find('#')), &hosts);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--hosts: ", path, ":", number, ": ", status.message()));
    }
  }
  if (!hosts.empty()) return hosts;
  return absl::InvalidArgumentError(
      absl::StrCat("--hosts: ", path, " names no host; give one a line"));
}

absl::StatusOr<Placement> Placement::Create(const std::vector<HostLine>& hosts, uint32_t num_ps,
                                            uint32_t num_workers) {
  Placement placement;
  const std::vector<size_t> chiefs = HostsThatTake(hosts, &HostLine::takes_chief);
  const std::vector<size_t> ps = HostsThatTake(hosts, &HostLine::takes_ps);
  const std::vector<size_t> workers = HostsThatTake(hosts, &HostLine::takes_workers);
  if (chiefs.empty()) return NoHostFor("the chief");
  if (ps.empty()) return NoHostFor("parameter servers");
  if (workers.empty()) return NoHostFor("workers");
  placement.chief_ = chiefs[0];
  for (uint32_t i = 0; i < num_ps; ++i) placement.ps_.push_back(ps[i % ps.size()]);
  std::vector<uint32_t> taken(hosts.size());
  while (placement.workers_.size() < num_workers) {
    const size_t before = placement.workers_.size();
    for (const size_t host : workers) {
      if (placement.workers_.size() == num_workers) break;
      if (hosts[host].slots > 0 && taken[host] == hosts[host].slots) continue;
      placement.workers_.push_back(host);
      placement.local_indices_.push_back(taken[host]++);
    }
    if (placement.workers_.size() > before) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--num_replicas: is ", num_workers, ", but the hosts have slots for ", before,
                     " workers; raise slots= in the file of --hosts, or lower --num_replicas"));
  }
  return placement;
}

size_t Placement::FindHost(TaskId task) const {
  if (task.job == Job::kPs) return ps_[task.index];
  if (task.job == Job::kWorker) return workers_[task.index];
  return chief_;
}

}  // namespace shoal
