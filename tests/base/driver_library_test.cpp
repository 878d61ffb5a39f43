// Search for driver libraries in folders that the loader does not know.
#include "base/driver_library.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace shakedown::driver_library_test {
namespace {

namespace fs = std::filesystem;

/// Two folders; the second has a library under a name that the loader does not know.
class DriverLibrary : public ::testing::Test {
 protected:
  DriverLibrary() {
    fs::create_directories(first_);
    fs::create_directories(second_);
    const Library self(dlopen("libm.so.6", RTLD_NOW));
    Dl_info info{};
    const auto* const function = dlsym(self.get(), "cos");
    if (function != nullptr && dladdr(function, &info) != 0) fs::copy_file(info.dli_fname, second_ / name_);
  }
  ~DriverLibrary() override { fs::remove_all(root_); }

  const fs::path root_ = fs::temp_directory_path() / ("shakedown_driver_" + std::to_string(getpid()));
  const fs::path first_ = root_ / "first", second_ = root_ / "second";
  const std::string name_ = "libmade_up_driver.so.1";
};

TEST_F(DriverLibrary, IsOpenedFromTheFirstFolderThatHasIt) {
  const auto opened = open_driver_library(name_, {root_ / "nowhere", first_, second_});
  ASSERT_TRUE(opened.library) << opened.problem;
  EXPECT_NE(dlsym(opened.library.get(), "cos"), nullptr);
  EXPECT_EQ(opened.problem, "");
}

TEST_F(DriverLibrary, ThatNoFolderHasIsNamedInOneLine) {
  const auto opened = open_driver_library(name_, {first_});
  EXPECT_FALSE(opened.library);
  EXPECT_NE(opened.problem.find(name_), std::string::npos) << opened.problem;
  EXPECT_EQ(opened.problem.find('\n'), std::string::npos) << opened.problem;
}

TEST_F(DriverLibrary, ThatIsDamagedIsPassedOver) {
  std::ofstream(first_ / name_) << "no library";
  EXPECT_TRUE(open_driver_library(name_, {first_, second_}).library);
  const auto damaged = open_driver_library(name_, {first_});
  EXPECT_FALSE(damaged.library);
  EXPECT_NE(damaged.problem.find(first_.string()), std::string::npos) << damaged.problem;
}

TEST_F(DriverLibrary, GivenByItsPathIsThatFileAlone) {
  EXPECT_TRUE(open_driver_library((second_ / name_).string(), {}).library);
  EXPECT_FALSE(open_driver_library((first_ / name_).string(), {second_}).library);
}

}  // namespace
}  // namespace shakedown::driver_library_test
