// Names the sources that this program was built from, for `shoal --version`.
#ifndef SHOAL_DEPLOY_BUILD_INFO_H_
#define SHOAL_DEPLOY_BUILD_INFO_H_

#include <string>

#include "absl/strings/string_view.h"

namespace shoal {

// Describes a commit as Bazel stamped it: "commit " and its 40 hexadecimal digits, with "-modified"
// behind them if the working tree differed from it. Returns "" if it was not recorded, as in every
// build without --stamp.
std::string DescribeCommit(absl::string_view stamped);

// Returns lines with the commit, the compiler, the libraries that are loaded with their versions,
// and the versions of the protocols. The last line has no line end.
std::string DescribeBuild();

}  // namespace shoal

#endif  // SHOAL_DEPLOY_BUILD_INFO_H_
