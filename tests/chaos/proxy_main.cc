// A gRPC proxy that disturbs calls. It reads commands, one per line, from standard input and
// answers each with one line on standard output ("ok", "error: ...", or the counts):
//
//   link NAME LISTEN TARGET    forwards what comes to the address LISTEN to TARGET
//   down NAME | up NAME        closes the link's connections and refuses others; serves again
//   cut NAME                   both at once: connections break, and can be made anew
//   add RULE ...               see ParseFaultRule
//   remove RULE | clear        forwards the calls that the rule holds
//   counts                     calls by link and method, and what rules did, as JSON
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "tests/chaos/fault_rules.h"
#include "tests/chaos/proxy_link.h"

namespace shoal {
namespace {

class Proxy {
 public:
  explicit Proxy(uint64_t seed) : rules_(seed) {}

  // Calls that are held must not wait for a link's end.
  ~Proxy() { rules_.Clear(); }

  std::string Answer(const std::string& line) {
    if (line == "counts") return rules_.Counts();
    const absl::Status status = Execute(line);
    return status.ok() ? "ok" : absl::StrCat("error: ", status.message());
  }

 private:
  absl::Status Execute(const std::string& line) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.empty()) return absl::InvalidArgumentError("the command is empty");
    if (words[0] == "clear") return (rules_.Clear(), absl::OkStatus());
    if (words[0] == "link" && words.size() == 4) return AddLink(words[1], words[2], words[3]);
    if (words[0] == "remove" && words.size() == 2) return rules_.Remove(words[1]);
    if (words[0] == "add") {
      const absl::StatusOr<FaultRule> rule = ParseFaultRule(line.substr(words[0].size() + 1));
      return rule.ok() ? rules_.Add(*rule) : rule.status();
    }
    if (words.size() == 2) return ChangeLink(words[0], words[1]);
    return absl::InvalidArgumentError(absl::StrCat("\"", line, "\" is not a command"));
  }

  absl::Status AddLink(const std::string& name, const std::string& listen,
                       const std::string& target) {
    std::unique_ptr<ProxyLink>& link = links_[name];
    if (link != nullptr) return absl::AlreadyExistsError(absl::StrCat("link ", name, " is there"));
    link = std::make_unique<ProxyLink>(name, listen, target, &rules_);
    return link->Up();
  }

  absl::Status ChangeLink(const std::string& change, const std::string& name) {
    const auto found = links_.find(name);
    if (found == links_.end()) return absl::NotFoundError(absl::StrCat("no link ", name));
    if (change != "cut" && change != "down" && change != "up") {
      return absl::InvalidArgumentError(absl::StrCat("\"", change, "\" is not a command"));
    }
    if (change != "up") found->second->Down();
    return change == "down" ? absl::OkStatus() : found->second->Up();
  }

  SharedRules rules_;
  std::map<std::string, std::unique_ptr<ProxyLink>> links_;
};

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  uint64_t seed = 1;
  if (argc > 2 || (argc == 2 && !absl::SimpleAtoi(argv[1], &seed))) {
    std::fprintf(stderr, "usage: proxy [SEED]; commands come on the standard input\n");
    return 64;
  }
  shoal::Proxy proxy(seed);
  std::string line;
  while (std::getline(std::cin, line)) {
    std::printf("%s\n", proxy.Answer(line).c_str());
    std::fflush(stdout);
  }
  return 0;
}
