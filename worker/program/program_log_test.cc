#include "worker/program/program_log.h"

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

constexpr char kFatal[] = R"(Fatal Python error: Segmentation fault

Thread 0x00007f0000000001 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait
  File "/home/me/reader.py", line 7 in read

Current thread 0x00007f0000000002 [MainThread] (most recent call first):
  File "/venv/lib/python3.11/site-packages/torch/nn/functional.py", line 2233 in embedding
  File "/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1500 in _call_impl
  File "/home/me/train.py", line 12 in forward
  File "/home/me/train.py", line 30 in <module>

Extension modules: numpy.core._multiarray_umath, torch._C (total: 2)
)";
constexpr char kPlace[] =
    R"(Fatal Python error: Segmentation fault, File "/home/me/train.py", line 12 in forward)";

std::string EndOf(const std::string& text) {
  const std::string path = absl::StrCat(getenv("TEST_TMPDIR"), "/log");
  std::ofstream(path) << text;
  return EndOfLog(path);
}

TEST(ProgramLogTest, IsTheLastLineThatIsNotEmpty) {
  EXPECT_EQ(EndOf("reads the data\nKeyError: 'x'\n\n  \n"), "KeyError: 'x'");
  EXPECT_EQ(EndOf(""), "");
  EXPECT_EQ(EndOfLog("/nowhere/log"), "");
  EXPECT_EQ(EndOfLog(""), "");
  EXPECT_EQ(EndOf(std::string(500, 'x')).size(), 400u);
}

TEST(ProgramLogTest, AFatalErrorIsNamedWithTheUsersLineOfTheThreadThatFailed) {
  EXPECT_EQ(EndOf(absl::StrCat("begins\n", kFatal)), kPlace);
  EXPECT_EQ(EndOf(absl::StrCat(std::string(1 << 20, 'x'), "\n", kFatal)), kPlace);
}

TEST(ProgramLogTest, TheNewestEndCounts) {
  EXPECT_EQ(EndOf(absl::StrCat(kFatal, "ImportError: away\n")), "ImportError: away");
  EXPECT_EQ(EndOf(absl::StrCat(kFatal, "begins\n", kFatal)), kPlace);
}

TEST(ProgramLogTest, AFatalErrorInLibrariesOnlyIsNamedWithTheirLine) {
  EXPECT_EQ(EndOf("Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n"
                  "  File \"/usr/lib/python3.11/runpy.py\", line 3 in run\n"),
            "Fatal Python error: Aborted, File \"/usr/lib/python3.11/runpy.py\", line 3 in run");
  EXPECT_EQ(EndOf("Fatal Python error: Bus error\n\nThread 0x1 (most recent call first):\n"
                  "  File \"a.py\", line 3 in run\n"),
            "Fatal Python error: Bus error, File \"a.py\", line 3 in run");
  EXPECT_EQ(EndOf("Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n"
                  "  <no Python frame>\n"),
            "Fatal Python error: Aborted");
}

TEST(ProgramLogTest, AMissingModuleHasARemedy) {
  EXPECT_EQ(RemedyForModule("ModuleNotFoundError: No module named 'shoal'"),
            "; the package is in the wheel (`pip install shoal-VERSION.whl`) and in the folder "
            "python of a clone (`export PYTHONPATH=CLONE/python`); --python=PROGRAM names another "
            "interpreter");
  for (const char* other : {"torch", "numpy", "shoal.torch"}) {
    EXPECT_EQ(RemedyForModule(absl::StrCat("ModuleNotFoundError: No module named '", other, "'")),
              "; --python=PROGRAM names another interpreter");
  }
  EXPECT_EQ(RemedyForModule("KeyError: 'shoal'"), "");
  EXPECT_EQ(RemedyForModule(""), "");
}

}  // namespace
}  // namespace shoal
