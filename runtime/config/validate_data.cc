#include <cmath>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "ml/data/clicks_dataset.h"
#include "ml/data/data_defaults.h"
#include "proto/v1/data_config.pb.h"
#include "runtime/config/rule.h"
#include "runtime/config/validate.h"

namespace shoal {
namespace {

constexpr uint32_t kMostBlock = 1u << 24;
constexpr uint32_t kLongestSide = 1u << 14;
constexpr uint32_t kMostClasses = 1u << 20;
constexpr uint32_t kMostThreads = 256;

absl::Status CheckAtMost(absl::string_view field, uint32_t value, uint32_t low, uint32_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return InvalidField(field, absl::StrCat("must be ", low, " to ", high, ", is ", value));
}

absl::Status ValidateImage(const v1::ImageOptions& image) {
  RETURN_IF_ERROR(CheckAtMost("data.image.height", image.height(), 0, kLongestSide));
  RETURN_IF_ERROR(CheckAtMost("data.image.width", image.width(), 0, kLongestSide));
  RETURN_IF_ERROR(CheckAtMost("data.image.crop", image.crop(), 0, kLongestSide));
  if ((image.height() == 0) != (image.width() == 0)) {
    return InvalidField(image.height() == 0 ? "data.image.height" : "data.image.width",
                        "is not given, but the other side is; give both or none");
  }
  if (image.channels() != 0 && image.channels() != 1 && image.channels() != 3) {
    return InvalidField("data.image.channels",
                        absl::StrCat("must be 1 (grey), 3 (RGB) or 0 (as the "
                                     "images are), is ",
                                     image.channels()));
  }
  for (const double mean : image.mean()) {
    if (!std::isfinite(mean)) return InvalidField("data.image.mean", "must be finite numbers");
  }
  for (const double stddev : image.stddev()) {
    RETURN_IF_ERROR(CheckPositive("data.image.stddev", stddev));
  }
  return absl::OkStatus();
}

absl::Status ValidateClicks(const v1::ClicksOptions& clicks) {
  if (!(clicks.scale() >= 0 && clicks.scale() <= kLargestClicksScale)) {
    return InvalidField(
        "data.clicks.scale",
        absl::StrCat(clicks.scale(), " must be above 0 and at most ", kLargestClicksScale));
  }
  RETURN_IF_ERROR(CheckAtMost("data.clicks.days", clicks.days(), 0, kMostClicksDays));
  return CheckAtMost("data.clicks.multi_hot", clicks.multi_hot(), 0, kMostClicksIds);
}

absl::Status ValidateCsv(const v1::CsvOptions& csv) {
  const std::string& delimiter = csv.delimiter();
  if (delimiter.size() <= 1 &&
      delimiter.find_first_of("\"\n\r.+-0123456789") == std::string::npos) {
    return absl::OkStatus();
  }
  return InvalidField("data.csv.delimiter",
                      absl::StrCat("\"", absl::CHexEscape(delimiter),
                                   "\" must be one character that no number and no quote has"));
}

}  // namespace

absl::Status ValidateData(const v1::DataConfig& data) {
  if (!v1::DataConfig::Format_IsValid(data.format())) {
    return InvalidField("data.format",
                        absl::StrCat(static_cast<int>(data.format()), " is unknown"));
  }
  if (!NeedsNoFiles(data) && data.directory().empty()) {
    return InvalidField("data.directory", "is empty; give --data_dir=DIR");
  }
  // 0: what the data set knows.
  const bool knows_classes =
      !NeedsNoFiles(data) || data.format() == v1::DataConfig::FORMAT_CLICKS_SYNTHETIC;
  if (data.classes() != 0 || !knows_classes) {
    RETURN_IF_ERROR(CheckAtMost("data.classes", data.classes(), 2, kMostClasses));
  }
  RETURN_IF_ERROR(ValidateClicks(data.clicks()));
  RETURN_IF_ERROR(CheckAtMost("data.decode_threads", data.decode_threads(), 0, kMostThreads));
  RETURN_IF_ERROR(CheckAtMost("data.augment.pad", data.augment().pad(), 0, kLongestSide));
  RETURN_IF_ERROR(ValidateImage(data.image()));
  RETURN_IF_ERROR(ValidateCsv(data.csv()));
  return CheckAtMost("data.evaluation_block", data.evaluation_block(), 1, kMostBlock);
}

}  // namespace shoal
