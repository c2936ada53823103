#ifndef SHOAL_RUNTIME_CHECKPOINT_GIVEN_TENSORS_H_
#define SHOAL_RUNTIME_CHECKPOINT_GIVEN_TENSORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "base/file_system.h"
#include "runtime/checkpoint/bucket_tensors.h"
#include "runtime/tables/bucket_rows.h"

namespace shoal {

namespace v1 {
class Manifest;
class VariableSpec;
}  // namespace v1

// The tensors of an existing model by name: those of a safetensors file, the variables of a
// checkpoint, or tables in arrays of NumPy with the tensors of the model.safetensors beside them.
// Not thread-safe.
class GivenTensors {
 public:
  // Opens a safetensors file, the directory of a checkpoint or one with arrays of tables. The error
  // says what is wrong with it.
  static absl::StatusOr<std::unique_ptr<GivenTensors>> Open(FileSystem& file_system,
                                                            const std::string& path);
  virtual ~GivenTensors() = default;

  // Returns null if there is none of this name.
  const std::vector<int64_t>* ShapeOf(const std::string& name) const {
    const auto place = places_.find(name);
    return place == places_.end() ? nullptr : &place->second.shape;
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [name, place] : places_) names.push_back(name);
    return names;
  }
  // Reads elements of the value (slot ""), or of a slot, of a tensor that exists. NotFound: it has
  // no such slot.
  virtual absl::Status Read(const std::string& name, const std::string& slot, uint64_t first,
                            absl::Span<float> out) = 0;

  // Returns the name of the tensor for a variable that init_map maps to `mapped`; empty if the
  // variable starts from its initializer.
  virtual std::string SourceOf(const v1::VariableSpec& variable, std::string mapped) const;

  // Returns null if there are only values and no slots.
  virtual const v1::Manifest* manifest() const { return nullptr; }
  // Returns the variable of this name; null without a manifest. The tensor exists.
  virtual const v1::VariableSpec* SpecOf(const std::string& /*name*/) const { return nullptr; }
  // Returns the number of buckets if the tensor is a table; else 0.
  virtual uint32_t BucketsOf(const std::string& /*name*/) const { return 0; }
  // Reads the rows of a bucket with these slots, and its counts. `touched` is TouchedBefore, as the
  // rows are at version 0 of another run. The table exists.
  virtual absl::StatusOr<BucketRows> ReadBucket(const std::string& name, uint32_t bucket,
                                                absl::Span<const RowSlot> slots);

 protected:
  struct Place {
    uint64_t where = 0;  // The meaning is that of the kind of file.
    std::vector<int64_t> shape;
  };
  std::map<std::string, Place> places_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_GIVEN_TENSORS_H_
