// Ids in arrays of NumPy.
#ifndef SHOAL_ML_DATA_NPY_IDS_H_
#define SHOAL_ML_DATA_NPY_IDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/data/ids/id_column.h"
#include "ml/data/ragged_rows.h"

namespace shoal {

// Returns the path of an array: `name`_`split`.npy in the directory.
std::string NpyPath(const std::string& directory, const std::string& name,
                    const std::string& split);

struct NpyIds {
  std::string path;          // the array with the ids
  int64_t num_examples = 0;  // the array's, which may be more than those that are read
  RaggedRows rows;
};

// Reads the ids of the first `max_examples` examples, or of all if that is 0, from the integers in
// NpyPath(directory, ids.column, split). They are [examples], one id each; [examples, k], k ids
// each; or, if there is an array <column>_offsets of [examples + 1] integers, those of all examples
// one after the other: example i has the ids from offset i to offset i + 1. The array ids.weights
// has a float for each id, not a negative one if the model takes the mean of their rows. DataLoss
// and InvalidArgument name the file, the row and the remedy.
absl::StatusOr<NpyIds> ReadNpyIds(const IdColumn& ids, const std::string& directory,
                                  const std::string& split, int64_t max_examples,
                                  bool takes_mean = false);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_NPY_IDS_H_
