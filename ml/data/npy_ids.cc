#include "ml/data/npy_ids.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/file_system.h"
#include "base/find_file.h"
#include "base/status_macros.h"
#include "ml/data/data_rules.h"
#include "ml/data/records/npy_file.h"

namespace shoal {
namespace {

bool IsInteger(const NpyArray& array) { return array.kind == 'i' || array.kind == 'u'; }

std::string ShapeOf(const NpyArray& array) {
  return absl::StrCat(array.Type(), " [", absl::StrJoin(array.dims, ","), "]");
}

// The arrays of one column.
class IdArrays {
 public:
  IdArrays(const IdColumn& ids, const std::string& directory, const std::string& split)
      : ids_(ids),
        path_(NpyPath(directory, ids.column, split)),
        offsets_path_(NpyPath(directory, ids.column + "_offsets", split)),
        weights_path_(ids.weights.empty() ? "" : NpyPath(directory, ids.weights, split)) {}

  absl::Status Read() {
    ASSIGN_OR_RETURN(array_, ReadArray(path_, "integers", "column"));
    // A small file of [n, 0] could have any number of examples.
    if (!IsInteger(array_) || array_.dims.empty() || array_.dims.size() > 2 ||
        (array_.dims.size() == 2 && array_.dims[1] == 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": is ", ShapeOf(array_), "; ids (", ids_.entry,
                       ") must be integers [examples] or [examples, k]: save them as int64"));
    }
    // If the offsets were left out, each id would be an example of its own.
    ASSIGN_OR_RETURN(const std::optional<FileInfo> offsets,
                     FindFile(*NewPosixFileSystem(), offsets_path_));
    has_offsets_ = offsets.has_value();
    if (has_offsets_) RETURN_IF_ERROR(ReadOffsets());
    if (weights_path_.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(weights_, ReadArray(weights_path_, "float32 or float64", "weights"));
    if (weights_.kind == 'f' && weights_.dims == array_.dims) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat(weights_path_, ": is ", ShapeOf(weights_), ", but ", path_, " is ",
                     ShapeOf(array_), "; save one float for each id (", ids_.entry, ".weights)"));
  }

  int64_t num_examples() const { return has_offsets_ ? offsets_.dims[0] - 1 : array_.dims[0]; }

  absl::StatusOr<RaggedRows> Rows(int64_t examples, bool takes_mean) const {
    IdColumn ids = ids_;
    if (array_.kind == 'u') ids.negative = true;  // All 64 bits are those of the number.
    const int64_t width = array_.dims.size() == 2 ? array_.dims[1] : 1;
    RaggedRows rows(!ids.weights.empty());
    IdList list;
    for (int64_t example = 0; example < examples; ++example) {
      list.Clear();
      const int64_t begin = has_offsets_ ? offsets_.IntegerAt(example) : example * width;
      const int64_t end = has_offsets_ ? offsets_.IntegerAt(example + 1) : begin + width;
      for (int64_t i = begin; i < end; ++i) {
        const float weight = ids.weights.empty() ? 1 : static_cast<float>(weights_.At(i));
        const int64_t id = array_.IntegerAt(i);
        const std::string wrong = AddId(id, weight, ids, &list);
        if (wrong.empty()) continue;
        return absl::DataLossError(
            absl::StrCat(path_, ": row ", example, " has the id ", id, ", ", wrong));
      }
      if (takes_mean) {
        const std::string wrong = WrongWeight(list.weights);
        if (!wrong.empty()) {
          return absl::DataLossError(
              absl::StrCat(weights_path_, ": row ", example, " has an id ", wrong));
        }
      }
      rows.AddExample(list.keys, list.weights);
    }
    return rows;
  }

 private:
  // Reads the array that a field of the entry names.
  absl::StatusOr<NpyArray> ReadArray(const std::string& path, absl::string_view wanted,
                                     const char* field) const {
    absl::StatusOr<NpyArray> array = ReadNpyFile(path, wanted);
    if (!absl::IsNotFound(array.status())) return array;
    return absl::NotFoundError(
        absl::StrCat(array.status().message(), " or ", ids_.entry, ".", field));
  }

  absl::Status ReadOffsets() {
    ASSIGN_OR_RETURN(offsets_, ReadNpyFile(offsets_path_, "integers"));
    if (!IsInteger(offsets_) || offsets_.dims.size() != 1 || offsets_.dims[0] == 0) {
      return absl::InvalidArgumentError(absl::StrCat(offsets_path_, ": is ", ShapeOf(offsets_),
                                                     "; offsets must be integers [examples + 1]"));
    }
    const auto wrong = [&](int64_t row, absl::string_view what) {
      return absl::DataLossError(
          absl::StrCat(offsets_path_, ": row ", row, " is ", offsets_.IntegerAt(row), ", ", what));
    };
    if (array_.dims.size() != 1) {
      return absl::DataLossError(absl::StrCat(path_, ": is ", ShapeOf(array_), ", but with ",
                                              offsets_path_,
                                              " it must be [ids]; remove one of the two files, "
                                              "or save the ids of all examples as one list"));
    }
    if (offsets_.IntegerAt(0) != 0) return wrong(0, "but the first offset must be 0");
    const int64_t last = offsets_.dims[0] - 1;
    for (int64_t row = 1; row <= last; ++row) {
      if (offsets_.IntegerAt(row) < offsets_.IntegerAt(row - 1)) {
        return wrong(row, "less than the one before it; offsets must not fall");
      }
    }
    if (offsets_.IntegerAt(last) == array_.dims[0]) return absl::OkStatus();
    return wrong(last, absl::StrCat("but the last offset must be the number of ids in ", path_,
                                    ", ", array_.dims[0], "; save both anew"));
  }

  const IdColumn& ids_;
  const std::string path_, offsets_path_, weights_path_;  // the last one may be empty
  NpyArray array_, offsets_, weights_;
  bool has_offsets_ = false;
};

}  // namespace

std::string NpyPath(const std::string& directory, const std::string& name,
                    const std::string& split) {
  return JoinPath(directory, absl::StrCat(name, "_", split, ".npy"));
}

absl::StatusOr<NpyIds> ReadNpyIds(const IdColumn& ids, const std::string& directory,
                                  const std::string& split, int64_t max_examples, bool takes_mean) {
  IdArrays arrays(ids, directory, split);
  RETURN_IF_ERROR(arrays.Read());
  const int64_t all = arrays.num_examples();
  ASSIGN_OR_RETURN(RaggedRows rows,
                   arrays.Rows(max_examples > 0 ? std::min(max_examples, all) : all, takes_mean));
  return NpyIds{NpyPath(directory, ids.column, split), all, std::move(rows)};
}

}  // namespace shoal
