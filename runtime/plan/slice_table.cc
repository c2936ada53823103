#include "runtime/plan/slice_table.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "base/hash.h"
#include "proto/v1/variable.pb.h"

namespace shoal {
namespace {

constexpr uint64_t kMaxElements = uint64_t{1} << 40;
constexpr uint64_t kMaxSlices = uint64_t{1} << 28;
constexpr size_t kMaxDimensions = 8;
constexpr size_t kMaxNameLength = 256;
constexpr uint32_t kMaxBuckets = 65536;
constexpr int64_t kMaxTableDim = 4096;

bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNameLength &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '/' || c == '-';
         });
}

absl::Status Refuse(const v1::VariableSpec& spec, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("variable \"", spec.name(), "\": ", why));
}

absl::Status CheckSpec(const v1::VariableSpec& spec) {
  if (!IsName(spec.name())) return Refuse(spec, "a name must be 1 to 256 of A-Z a-z 0-9 _ . / -");
  if (spec.dtype() != v1::DATA_TYPE_FLOAT32) return Refuse(spec, "dtype must be DATA_TYPE_FLOAT32");
  if (static_cast<size_t>(spec.shape_size()) > kMaxDimensions)
    return Refuse(spec, "shape has more than 8 dimensions");
  uint64_t elements = 1;
  for (int64_t dim : spec.shape()) {
    if (dim < 1)
      return Refuse(spec,
                    absl::StrCat("shape has a dimension of ", dim, "; it must be at least 1"));
    if (static_cast<uint64_t>(dim) > kMaxElements / elements)
      return Refuse(spec, "shape has more than 2^40 elements");
    elements *= static_cast<uint64_t>(dim);
  }
  if (!v1::UpdateKind_IsValid(spec.update()) || spec.update() == v1::UPDATE_KIND_UNSPECIFIED) {
    return Refuse(spec, "update is not a known UpdateKind");
  }
  if (spec.update() == v1::UPDATE_KIND_MOVING_AVERAGE && !(spec.decay() >= 0 && spec.decay() < 1)) {
    return Refuse(spec, absl::StrCat("decay is ", spec.decay(), "; it must be in [0, 1)"));
  }
  return absl::OkStatus();
}

absl::Status CheckTable(const v1::VariableSpec& spec) {
  const uint32_t buckets = spec.table().buckets();
  if (buckets == 0 || buckets > kMaxBuckets) {
    return Refuse(spec,
                  absl::StrCat("table.buckets is ", buckets, "; it must be 1 to ", kMaxBuckets));
  }
  if (spec.shape_size() != 1 || spec.shape(0) > kMaxTableDim) {
    return Refuse(
        spec, absl::StrCat("the shape of a table must be one dimension of 1 to ", kMaxTableDim));
  }
  if (spec.update() != v1::UPDATE_KIND_OPTIMIZER) {
    return Refuse(spec, "update must be UPDATE_KIND_OPTIMIZER for a table");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SliceTable> SliceTable::Create(absl::Span<const v1::VariableSpec> variables,
                                              uint64_t slice_bytes) {
  if (slice_bytes == 0 || slice_bytes % 64 != 0) {
    return absl::InvalidArgumentError(absl::StrCat("cluster.slice_bytes is ", slice_bytes,
                                                   ": it must be a positive multiple of 64"));
  }
  SliceTable table;
  table.slice_bytes_ = slice_bytes;
  absl::flat_hash_set<absl::string_view> names;
  uint64_t num_slices = 0;
  for (const v1::VariableSpec& spec : variables) {
    if (absl::Status status = CheckSpec(spec); !status.ok()) return status;
    if (!names.insert(spec.name()).second) return Refuse(spec, "the name is declared twice");
    Variable variable;
    variable.num_elements = variable.row_elements = 1;
    for (int64_t dim : spec.shape()) variable.num_elements *= static_cast<uint64_t>(dim);
    for (int d = 1; d < spec.shape_size(); ++d)
      variable.row_elements *= static_cast<uint64_t>(spec.shape(d));
    variable.versioned = spec.update() != v1::UPDATE_KIND_NONE;
    if (spec.has_table()) {
      if (absl::Status status = CheckTable(spec); !status.ok()) return status;
      variable.row_elements = variable.num_elements;
      variable.num_buckets = spec.table().buckets();
      variable.num_elements *= Slice::kRowsOfBucket * variable.num_buckets;
      table.has_tables_ = true;
    }
    num_slices += variable.num_buckets + variable.num_elements / (slice_bytes / sizeof(float)) + 1;
    if (num_slices > kMaxSlices) {
      return Refuse(spec, "the model has more than 2^28 slices; raise cluster.slice_bytes");
    }
    table.variables_.push_back(variable);
    table.CutVariable(table.num_variables() - 1);
  }
  while (table.report_slice_ < table.size() && !table.slice_is_versioned(table.report_slice_))
    ++table.report_slice_;
  return table;
}

void SliceTable::CutVariable(uint32_t index) {
  Variable& variable = variables_[index];
  variable.first_slice = size();
  for (uint32_t bucket = 0; bucket < variable.num_buckets; ++bucket) {
    const uint64_t elements = Slice::kRowsOfBucket * variable.row_elements;
    slices_.push_back({index, bucket * elements, elements, /*is_bucket=*/true});
  }
  if (variable.num_buckets > 0) return;
  const uint64_t limit = slice_bytes_ / sizeof(float);
  const bool long_rows = variable.row_elements > limit;
  // A chunk never goes over the end of a unit: of the variable, or of a row that is cut by itself.
  const uint64_t unit = long_rows ? variable.row_elements : variable.num_elements;
  const uint64_t chunk = long_rows ? limit : limit / variable.row_elements * variable.row_elements;
  for (uint64_t start = 0; start < variable.num_elements; start += unit) {
    for (uint64_t first = 0; first < unit; first += chunk) {
      slices_.push_back({index, start + first, std::min(chunk, unit - first)});
    }
  }
}

uint32_t SliceTable::BucketOf(uint32_t table, uint64_t key) const {
  const Variable& variable = variables_[table];
  // Another mixture than that of a bucket's own index, which must see all of its bits vary.
  const uint64_t mixed = MixBits(key + 0x2545f4914f6cdd1du) >> 32;
  return variable.first_slice + static_cast<uint32_t>((mixed * variable.num_buckets) >> 32);
}

}  // namespace shoal
