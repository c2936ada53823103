#ifndef SHOAL_ML_DATA_DATA_DEFAULTS_H_
#define SHOAL_ML_DATA_DATA_DEFAULTS_H_

namespace shoal {

namespace v1 {
class DataConfig;
}

// The directory of Debian's package dataset-fashion-mnist, whose data set is the default.
inline constexpr char kDefaultDataDirectory[] = "/usr/share/datasets/fashion-mnist";

// Fills in the format and directory of a config that names neither, and the sizes of synthetic
// data. If the config names a directory but no format, the format stays unset; the reader of the
// directory detects it (see data_format.h).
void ResolveDataDefaults(v1::DataConfig* config);

// Returns whether examples of the config's format are made from the seed, without files.
bool NeedsNoFiles(const v1::DataConfig& config);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_DATA_DEFAULTS_H_
