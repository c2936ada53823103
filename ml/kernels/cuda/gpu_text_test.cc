#include "ml/kernels/cuda/gpu_text.h"

#include "gtest/gtest.h"

namespace shoal::cuda {
namespace {

TEST(GpuTextTest, VersionsAreWrittenAsPeopleDo) {
  EXPECT_EQ(VersionText(13000), "13.0");
  EXPECT_EQ(VersionText(12040), "12.4");
}

TEST(GpuTextTest, TheReasonForNoGpuIsTheDriverWhereItIs) {
  const char* const cudas = "CUDA driver version is insufficient for CUDA runtime version";
  EXPECT_EQ(WhyNoGpus(0, 13000, cudas), "this machine has no NVIDIA driver");
  EXPECT_EQ(WhyNoGpus(12040, 13000, cudas),
            "the driver is for CUDA 12.4 and older, and this program needs 13.0");
  const char* const hidden = "no CUDA-capable device is detected";
  EXPECT_EQ(WhyNoGpus(13000, 13000, hidden), "CUDA says: no CUDA-capable device is detected");
  // A driver for 13.0 supports 13.1.
  EXPECT_EQ(WhyNoGpus(13000, 13010, hidden), "CUDA says: no CUDA-capable device is detected");
  EXPECT_EQ(WhyNoGpus(13000, 13000, ""), "CUDA finds none");
}

TEST(GpuTextTest, EachModelIsCounted) {
  EXPECT_EQ(CountedModels({"A"}), "1 x A");
  EXPECT_EQ(CountedModels({"A", "B", "A"}), "2 x A, 1 x B");
  EXPECT_EQ(CountedModels({""}), "1 GPU");
  EXPECT_EQ(CountedModels({"", ""}), "2 GPUs");
}

TEST(GpuTextTest, EqualModelsInAnyNumberAndOrderAreTheSameHardware) {
  EXPECT_EQ(DistinctModels({"B", "A", "B"}), "A and B");
  EXPECT_EQ(DistinctModels({"A", "B"}), "A and B");
  EXPECT_EQ(DistinctModels({"A", "A"}), "A");
  EXPECT_EQ(DistinctModels({""}), "GPU");
}

}  // namespace
}  // namespace shoal::cuda
