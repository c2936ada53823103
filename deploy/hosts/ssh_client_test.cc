#include "deploy/hosts/ssh_client.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/file_system.h"

namespace shoal {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

struct Answer {
  int code = 0;
  std::string text;
};

// Returns the options that the machine's ssh client derives from a configuration file for a host,
// without connecting to it.
class SshClientTest : public ::testing::Test {
 protected:
  SshClientTest() : directory_(::testing::TempDir() + "/ssh_client.XXXXXX") {
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
  }

  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = directory_ + "/" + name;
    EXPECT_TRUE(WriteAtomically(*NewPosixFileSystem(), path, text).ok());
    return path;
  }

  Answer Configured(const std::string& configuration) const {
    const std::string file = Write("config", configuration);
    const std::string command =
        absl::StrCat(absl::StrJoin(SshClient(), " "), " -F ", file, " -G alpha 2>&1");
    FILE* const answers = popen(command.c_str(), "r");
    Answer answer;
    char line[1024];
    while (std::fgets(line, sizeof(line), answers) != nullptr) answer.text += line;
    answer.code = WEXITSTATUS(pclose(answers));
    return answer;
  }

  std::string directory_;
};

TEST_F(SshClientTest, TheUsersOwnHabitsDoNotTakeTheCommandAway) {
  const Answer answer = Configured(
      "RemoteCommand echo mine\nControlPath /tmp/mine\nLocalForward 8080 a:80\n"
      "ForkAfterAuthentication yes\nStdinNull yes\nSessionType none\nUser me\n");
  EXPECT_EQ(answer.code, 0) << answer.text;
  EXPECT_THAT(answer.text, HasSubstr("batchmode yes"));
  EXPECT_THAT(answer.text, HasSubstr("forkafterauthentication no"));
  EXPECT_THAT(answer.text, HasSubstr("stdinnull no"));
  EXPECT_THAT(answer.text, HasSubstr("sessiontype default"));
  EXPECT_THAT(answer.text, HasSubstr("clearallforwardings yes"));
  EXPECT_THAT(answer.text, Not(HasSubstr("echo mine")));
  EXPECT_THAT(answer.text, Not(HasSubstr("/tmp/mine")));
  EXPECT_THAT(answer.text, HasSubstr("user me"));
}

TEST_F(SshClientTest, AMisspeltWordOfTheConfigurationIsAnError) {
  const Answer answer = Configured("StrictHostKeyChekcing yes\n");
  EXPECT_EQ(answer.code, 255) << answer.text;
  EXPECT_THAT(answer.text, HasSubstr("Bad configuration option: stricthostkeychekcing"));
}

TEST_F(SshClientTest, WordsThatTheConfigurationItselfIgnoresAreNone) {
  const Answer answer = Configured("IgnoreUnknown UseKeychain\nUseKeychain yes\n");
  EXPECT_EQ(answer.code, 0) << answer.text;
}

TEST_F(SshClientTest, AnOldClientIsNotGivenOptionsThatItDoesNotKnow) {
  EXPECT_THAT(SshClient(), Contains("StdinNull=no"));
  const std::string old = Write("ssh", "#!/bin/sh\ncase \"$*\" in *StdinNull*) exit 255;; esac\n");
  ASSERT_EQ(chmod(old.c_str(), 0755), 0);
  const std::string path = getenv("PATH");
  setenv("PATH", absl::StrCat(directory_, ":", path).c_str(), 1);
  const std::vector<std::string> words = SshClient();
  setenv("PATH", path.c_str(), 1);
  for (const char* option : {"ForkAfterAuthentication=no", "StdinNull=no", "SessionType=default"}) {
    EXPECT_THAT(words, Not(Contains(option)));
  }
  EXPECT_THAT(words, Contains("RemoteCommand=none"));
}

}  // namespace
}  // namespace shoal
