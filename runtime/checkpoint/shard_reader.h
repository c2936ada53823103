#ifndef SHOAL_RUNTIME_CHECKPOINT_SHARD_READER_H_
#define SHOAL_RUNTIME_CHECKPOINT_SHARD_READER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "base/file_system.h"
#include "runtime/checkpoint/checksummed_file.h"
#include "runtime/checkpoint/shard_base.h"
#include "runtime/checkpoint/slice_state.h"

namespace shoal {

namespace v1 {
class ShardFile;
}

// One shard file of a checkpoint. Open checks sizes, the sidecar and the header; values are checked
// block by block as they are read. Not thread-safe.
class ShardReader {
 public:
  // The place of a tensor's bytes. Values are vectors of floats; buckets of tables have vectors of
  // whole numbers and matrices of floats too.
  struct Entry {
    enum Type : uint8_t { kFloat, kUint32, kUint64 };
    uint64_t offset = 0;  // in the file
    uint64_t num_elements = 0;
    uint64_t row_elements = 0;  // elements of a row of a matrix; 0: a vector
    Type type = kFloat;

    bool IsVector(Type wanted) const { return type == wanted && row_elements == 0; }
  };

  // Opens the shard. DataLoss names the file and the defect.
  static absl::StatusOr<std::unique_ptr<ShardReader>> Open(FileSystem& file_system,
                                                           const std::string& directory,
                                                           const v1::ShardFile& shard);

  const std::map<SliceName, Entry>& entries() const { return entries_; }
  // Keyed by slice (names without slot).
  const std::map<SliceName, SavedSliceState>& states() const { return states_; }

  // Returns the shards whose rows this one continues; none if it has all rows of its buckets. The
  // first of them has all rows, each later one has the rows that changed since the one before it,
  // and this shard has the rows that changed since the last one.
  const std::vector<ShardBase>& bases() const { return bases_; }

  // Reads elements [first, first + out.size()) of an entry of this shard, which has floats.
  absl::Status Read(const Entry& entry, uint64_t first, absl::Span<float> out);
  // Reads all elements of an entry of this shard, which has the type T.
  template <typename T>
  absl::Status ReadAll(const Entry& entry, std::vector<T>* out) {
    out->resize(entry.num_elements);
    return file_->Read(entry.offset,
                       {reinterpret_cast<char*>(out->data()), out->size() * sizeof(T)});
  }

  // Reads and checks all bytes.
  absl::Status VerifyAll() { return file_->VerifyAll(); }

 private:
  ShardReader(std::string path, std::unique_ptr<ChecksummedFileReader> file);
  absl::Status ReadIndex();

  const std::string path_;
  const std::unique_ptr<ChecksummedFileReader> file_;
  std::map<SliceName, Entry> entries_;
  std::map<SliceName, SavedSliceState> states_;
  std::vector<ShardBase> bases_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_SHARD_READER_H_
