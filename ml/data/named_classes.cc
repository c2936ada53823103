#include "ml/data/named_classes.h"

#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "base/file_system.h"

namespace shoal {
namespace {

constexpr uint64_t kLargestFile = uint64_t{1} << 24;

class NamedClasses final : public Dataset {
 public:
  NamedClasses(std::unique_ptr<Dataset> dataset, std::vector<std::string> names)
      : dataset_(std::move(dataset)), names_(std::move(names)) {}

  int64_t size() const override { return dataset_->size(); }
  const std::vector<FieldSpec>& fields() const override { return dataset_->fields(); }
  uint64_t fingerprint() const override { return dataset_->fingerprint(); }
  int64_t num_classes() const override { return static_cast<int64_t>(names_.size()); }
  std::vector<std::string> class_names() const override { return names_; }
  std::string example_name(int64_t index) const override { return dataset_->example_name(index); }
  bool is_costly() const override { return dataset_->is_costly(); }
  absl::Status FillBatch(uint32_t epoch, absl::Span<const int64_t> indices,
                         absl::Span<void* const> outputs) const override {
    return dataset_->FillBatch(epoch, indices, outputs);
  }

 private:
  const std::unique_ptr<Dataset> dataset_;
  const std::vector<std::string> names_;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> ReadNamedClasses(const std::string& directory) {
  const std::string path = JoinPath(directory, "classes.txt");
  const absl::StatusOr<std::string> text = ReadFile(*NewPosixFileSystem(), path, kLargestFile);
  if (absl::IsNotFound(text.status())) return std::vector<std::string>();
  if (!text.ok()) return text.status();
  std::vector<std::string> names;
  std::set<std::string> distinct;
  for (const absl::string_view line :
       absl::StrSplit(absl::StripTrailingAsciiWhitespace(*text), '\n')) {
    names.emplace_back(absl::StripAsciiWhitespace(line));
    if (!names.back().empty() && distinct.insert(names.back()).second) continue;
    return absl::DataLossError(absl::StrCat(
        path, ":", names.size(), ": ", names.back().empty() ? "is empty" : names.back(),
        names.back().empty() ? "" : " is there twice",
        "; give each class a name and a line of its own, in the order of the labels"));
  }
  return names;
}

std::unique_ptr<Dataset> WithClassNames(std::unique_ptr<Dataset> dataset,
                                        std::vector<std::string> names) {
  return std::make_unique<NamedClasses>(std::move(dataset), std::move(names));
}

}  // namespace shoal
