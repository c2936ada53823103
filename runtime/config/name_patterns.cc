#include "runtime/config/name_patterns.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"
#include "re2/re2.h"
#include "runtime/config/rule.h"

namespace shoal {
namespace {

constexpr size_t kMostNamed = 8;  // Names in a message.

absl::StatusOr<std::unique_ptr<RE2>> Compile(absl::string_view field, absl::string_view text) {
  RE2::Options options;
  options.set_log_errors(false);
  auto compiled = std::make_unique<RE2>(re2::StringPiece(text.data(), text.size()), options);
  if (compiled->ok()) return compiled;
  return InvalidField(field,
                      absl::StrCat("\"", absl::CHexEscape(text), "\" is not a regular expression (",
                                   compiled->error(), "); correct it"));
}

re2::StringPiece Piece(absl::string_view text) { return {text.data(), text.size()}; }

// Returns an expression that matches some of the names: those of PyTorch have no folders.
std::string Example(const std::vector<std::string>& names) {
  if (names.empty()) return ".*";
  const size_t folder = names.back().rfind('/');
  return folder == std::string::npos ? names.back()
                                     : absl::StrCat(names.back().substr(0, folder), "/.*");
}

}  // namespace

class NamePatterns::Pattern {
 public:
  explicit Pattern(std::unique_ptr<RE2> expression) : expression_(std::move(expression)) {}
  bool Matches(absl::string_view name) const { return RE2::FullMatch(Piece(name), *expression_); }
  const std::string& text() const { return expression_->pattern(); }

 private:
  const std::unique_ptr<RE2> expression_;
};

NamePatterns::NamePatterns() = default;
NamePatterns::NamePatterns(NamePatterns&&) noexcept = default;
NamePatterns& NamePatterns::operator=(NamePatterns&&) noexcept = default;
NamePatterns::~NamePatterns() = default;

absl::StatusOr<NamePatterns> NamePatterns::Create(absl::string_view field,
                                                  const std::vector<std::string>& patterns) {
  NamePatterns all;
  for (const std::string& text : patterns) {
    ASSIGN_OR_RETURN(std::unique_ptr<RE2> expression, Compile(field, text));
    all.patterns_.push_back(std::make_unique<Pattern>(std::move(expression)));
  }
  return all;
}

bool NamePatterns::Matches(absl::string_view name) const {
  return std::any_of(patterns_.begin(), patterns_.end(),
                     [name](const auto& pattern) { return pattern->Matches(name); });
}

absl::Status NamePatterns::CheckAllAreUsed(absl::string_view field,
                                           const std::vector<std::string>& names) const {
  for (const auto& pattern : patterns_) {
    if (std::any_of(names.begin(), names.end(),
                    [&](const std::string& name) { return pattern->Matches(name); })) {
      continue;
    }
    const size_t shown = std::min(names.size(), kMostNamed);
    return InvalidField(
        field,
        absl::StrCat("\"", absl::CHexEscape(pattern->text()), "\" matches the whole name of none ",
                     "of the variables ",
                     absl::StrJoin(names.begin(), names.begin() + static_cast<long>(shown), ", "),
                     shown < names.size() ? ", ..." : "", "; correct it, e.g. \"", Example(names),
                     "\""));
  }
  return absl::OkStatus();
}

class NameMap::Rule {
 public:
  Rule(std::unique_ptr<RE2> expression, std::string name)
      : expression_(std::move(expression)), name_(std::move(name)) {}

  std::optional<std::string> Map(absl::string_view name) const {
    if (!RE2::FullMatch(Piece(name), *expression_)) return std::nullopt;
    std::string mapped(name);
    RE2::Replace(&mapped, *expression_, name_);
    return mapped;
  }

 private:
  const std::unique_ptr<RE2> expression_;
  const std::string name_;
};

NameMap::NameMap() = default;
NameMap::NameMap(NameMap&&) noexcept = default;
NameMap& NameMap::operator=(NameMap&&) noexcept = default;
NameMap::~NameMap() = default;

absl::StatusOr<NameMap> NameMap::Create(absl::string_view field,
                                        const std::vector<std::string>& rules) {
  NameMap map;
  for (const std::string& rule : rules) {
    const size_t equals = rule.rfind('=');
    if (equals == std::string::npos || equals == 0) {
      return InvalidField(field, absl::StrCat("\"", absl::CHexEscape(rule),
                                              "\" is not EXPRESSION=NAME; write "
                                              "\"body/(.*)=resnet/\\1\""));
    }
    // Anchored, so that Replace takes the whole name where an alternative would match less.
    ASSIGN_OR_RETURN(std::unique_ptr<RE2> expression,
                     Compile(field, absl::StrCat("^(?:", rule.substr(0, equals), ")$")));
    std::string name = rule.substr(equals + 1);
    std::string error;
    if (!expression->CheckRewriteString(Piece(name), &error)) {
      return InvalidField(field, absl::StrCat("\"", absl::CHexEscape(rule), "\": ", error));
    }
    map.rules_.push_back(std::make_unique<Rule>(std::move(expression), std::move(name)));
  }
  return map;
}

std::string NameMap::Map(absl::string_view name) const {
  for (const auto& rule : rules_) {
    if (std::optional<std::string> mapped = rule->Map(name)) return *std::move(mapped);
  }
  return std::string(name);
}

}  // namespace shoal
