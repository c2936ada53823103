// Makes the text that --help prints from the table of flags.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.h"

#include "proto/v1/data_config.pb.h"
#include "runtime/config/defaults.h"
#include "runtime/config/enum_name.h"
#include "runtime/config/flags.h"
#include "runtime/config/run_config.h"

namespace shoal {
namespace {

constexpr size_t kHelpIndent = 30;
constexpr size_t kHelpWidth = 100;
constexpr char kDefaultMark[] = "{default}";

// "a, b or c"
std::string Alternatives(const std::vector<std::string>& names) {
  return absl::StrCat(absl::StrJoin(names.begin(), names.end() - 1, ", "), " or ", names.back());
}

// Returns the names of the formats of data, as run files have them.
std::vector<std::string> DataFormats() {
  const google::protobuf::EnumDescriptor& type = *v1::DataConfig::Format_descriptor();
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != v1::DataConfig::FORMAT_UNSPECIFIED) {
      names.push_back(ShortEnumName(*type.value(i)));
    }
  }
  return names;
}

// Returns the help text with its placeholders replaced by values; see flag_table.cc.
std::string HelpText(const FlagSpec& spec) {
  std::string help =
      absl::StrReplaceAll(spec.help, {{"{models}", Alternatives(KnownModels())},
                                      {"{losses}", Alternatives(KnownLosses())},
                                      {"{default_loss}", kDefaultLoss},
                                      {"{optimizers}", Alternatives(KnownOptimizers())},
                                      {"{adam_default}", absl::StrCat(kDefaultAdamLearningRate)},
                                      {"{save_timeout}", absl::StrCat(kSaveTimeoutSeconds)},
                                      {"{health_timeout}", absl::StrCat(kHealthTimeoutSeconds)},
                                      {"{formats}", Alternatives(DataFormats())}});
  if (!absl::StrContains(help, kDefaultMark)) return help;
  return absl::StrReplaceAll(help, {{kDefaultMark, DefaultText(spec.field)}});
}

// "  --name=VALUE        text text\n                      text\n"
std::string HelpEntry(const FlagSpec& spec) {
  std::string line = absl::StrCat(spec.kind == FlagKind::kBool ? "  --[no]" : "  --", spec.name,
                                  spec.value[0] != '\0' ? absl::StrCat("=", spec.value) : "");
  std::string entry;
  if (line.size() + 1 > kHelpIndent) {
    absl::StrAppend(&entry, line, "\n");
    line.clear();
  }
  line.resize(kHelpIndent, ' ');
  bool first = true;
  const std::string help = HelpText(spec);
  for (const absl::string_view word : absl::StrSplit(help, ' ')) {
    if (!first && line.size() + 1 + word.size() > kHelpWidth) {
      absl::StrAppend(&entry, line, "\n");
      line.assign(kHelpIndent, ' ');
      first = true;
    }
    absl::StrAppend(&line, first ? "" : " ", word);
    first = false;
  }
  absl::StrAppend(&entry, line, "\n");
  return entry;
}

}  // namespace

std::string FlagHelp(FlagScope scope) {
  std::string text;
  absl::string_view section;
  for (const FlagSpec& spec : FlagTable()) {
    if ((spec.scopes & scope) == 0 || spec.hidden) continue;
    if (section != spec.section) {
      section = spec.section;
      absl::StrAppend(&text, text.empty() ? "" : "\n", section, ":\n");
    }
    absl::StrAppend(&text, HelpEntry(spec));
  }
  return text;
}

}  // namespace shoal
