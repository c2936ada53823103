// Writes IDX data as an image folder: DIR/train/<class>/*.png and DIR/test/<class>/*.png.
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "base/file_system.h"
#include "tools/make_image_folder/image_folder_writer.h"

namespace shoal {
namespace {

constexpr char kUsage[] =
    "usage: make_image_folder --out=DIR [--idx_dir=DIR] [--train_examples=N] [--test_examples=N]\n"
    "                         [--jpeg]\n"
    "Lays IDX data (default: Debian's Fashion-MNIST) out as DIR/train/<class>/*.png and\n"
    "DIR/test/<class>/*.png, of a split all examples or the first N.\n";

struct Arguments {
  std::string out;
  std::string idx_directory = "/usr/share/datasets/fashion-mnist";
  int64_t train_examples = 0;
  int64_t test_examples = 0;
  bool is_jpeg = false;
};

bool Parse(int argc, char** argv, Arguments* arguments) {
  for (int i = 1; i < argc; ++i) {
    absl::string_view value = argv[i];
    bool good = true;
    if (absl::ConsumePrefix(&value, "--out=")) {
      arguments->out = std::string(value);
    } else if (absl::ConsumePrefix(&value, "--idx_dir=")) {
      arguments->idx_directory = std::string(value);
    } else if (absl::ConsumePrefix(&value, "--train_examples=")) {
      good = absl::SimpleAtoi(value, &arguments->train_examples) && arguments->train_examples >= 0;
    } else if (absl::ConsumePrefix(&value, "--test_examples=")) {
      good = absl::SimpleAtoi(value, &arguments->test_examples) && arguments->test_examples >= 0;
    } else if (value == "--jpeg") {
      arguments->is_jpeg = true;
    } else {
      good = false;
    }
    if (!good) {
      std::fprintf(stderr, "make_image_folder: %s: is not a flag, or its value is wrong\n",
                   argv[i]);
      return false;
    }
  }
  return !arguments->out.empty();
}

// Returns the path of the gzipped file if it exists, else that of the plain one.
std::string PathOf(const FileSystem& files, const Arguments& arguments, absl::string_view name) {
  const std::string plain = JoinPath(arguments.idx_directory, name);
  const std::string gzipped = absl::StrCat(plain, ".gz");
  return FileExists(files, gzipped) ? gzipped : plain;
}

int Main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const absl::string_view argument = argv[i];
    if (argument != "--help" && argument != "-h") continue;
    std::fputs(kUsage, stdout);
    return 0;
  }
  Arguments arguments;
  if (!Parse(argc, argv, &arguments)) {
    std::fputs(kUsage, stderr);
    return 64;
  }
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  for (const bool is_train : {true, false}) {
    const char* prefix = is_train ? "train" : "t10k";
    ImageFolderWriterOptions options;
    options.images_path = PathOf(*files, arguments, absl::StrCat(prefix, "-images-idx3-ubyte"));
    options.labels_path = PathOf(*files, arguments, absl::StrCat(prefix, "-labels-idx1-ubyte"));
    options.directory = JoinPath(arguments.out, is_train ? "train" : "test");
    options.is_jpeg = arguments.is_jpeg;
    options.max_examples = is_train ? arguments.train_examples : arguments.test_examples;
    const absl::StatusOr<int64_t> written = WriteImageFolder(*files, options);
    if (!written.ok()) {
      std::fprintf(stderr, "make_image_folder: %s\n",
                   std::string(written.status().message()).c_str());
      return 1;
    }
    std::printf("%s: %lld images\n", options.directory.c_str(), static_cast<long long>(*written));
  }
  return 0;
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) { return shoal::Main(argc, argv); }
