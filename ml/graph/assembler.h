// The last part of compiling: gives every value of a finished plan its place and every step its
// kernel. Private to ml/graph.
#ifndef SHOAL_ML_GRAPH_ASSEMBLER_H_
#define SHOAL_ML_GRAPH_ASSEMBLER_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/graph/compiler.h"
#include "ml/graph/memory_plan.h"
#include "ml/graph/plan.h"
#include "ml/graph/program.h"

namespace shoal {

absl::StatusOr<std::unique_ptr<Executable>> Assemble(const CompileRequest& request,
                                                     const DeviceBackends& backends, Plan plan);

// The place of a value's bytes.
struct ValuePlace {
  enum class Kind { kNone, kArena, kStaging, kInput, kVariable, kOutput };
  Kind kind = Kind::kNone;
  int device = 0;  // kArena, kStaging, kOutput: that computes it
  int index = 0;   // kArena, kStaging: of the memory request; else: of the binding
};

// The memory of one device while it is planned.
struct MemoryDraft {
  std::vector<MemoryRequest> arena;
  // The next members are for a device with memory of its own.
  std::vector<size_t> staging;                   // sizes of values it copies to the host
  std::vector<PackedInput> inputs;               // bindings that it reads
  std::vector<PackedOutput> outputs;             // fetches that it computes
  std::vector<int> mirrored;                     // indices of `inputs`, in the group's order
  std::map<std::pair<bool, int>, int> input_of;  // (is_variable, index) -> of `inputs`
  size_t input_bytes = 0, output_bytes = 0;
};

class Assembler {
 public:
  Assembler(const CompileRequest& request, const DeviceBackends& backends, Plan plan);

  absl::StatusOr<std::unique_ptr<Executable>> Assemble();

 private:
  // assembler_memory.cc
  void BindFetches();
  void PlaceValues();
  void PlaceValue(int value, int device);
  void AddOperand(int value, int reader);
  void AddPackedInput(const ValuePlace& place, const TensorSpec& spec, int reader, int operand);
  void AddOutputOperand(int fetch, int device);
  void AddPackedOutput(int fetch, int device, int step);
  // Chooses the device that uploads a value that all devices of the group read.
  void ChooseOwners();
  absl::Status PlaceMemory();
  absl::Status PlaceDeviceMemory(int device);
  void PlaceHostMemory(int device);
  absl::Status FillConstants();

  // assembler.cc
  bool HasOwnMemory(int device) const { return static_cast<bool>(backends_[device]->open_device); }
  DeviceProgram& program_of(int device) { return parts_.devices[program_device_[device]]; }
  int FirstHostDevice() const;
  void NumberSteps();
  // Waits for another device, and only the caller reads what it gives.
  bool MayBeLate(int step) const;
  absl::Status OpenDevice(int device, DeviceProgram* program) const;
  absl::Status MakeDevice(int device);
  void JoinGroup();
  // Empty if it is.
  std::string WhyNotRecorded(int device);
  void ChooseRecorded();
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const PlanStep& step, Device* device) const;
  void AddConstant(const PlanStep& step, DeviceProgram* program);
  void SetCopy(const PlanStep& step, ProgramStep* program_step) const;
  absl::Status AddStep(int step, int device, DeviceProgram* program);
  absl::Status AddEvents(const DeviceProgram& program, ProgramStep* step) const;
  void AddFetchCopies(int device, DeviceProgram* program);
  void AddFinishedOutput(int fetch, int device, int step, ProgramStep* program_step);
  void AddWaits(const PlanStep& step, ProgramStep* program_step);
  std::string Describe(const PlanStep& step, const std::string& device) const;
  uint64_t FirstExample(int clone_index) const;

  const CompileRequest& request_;
  const DeviceBackends& backends_;  // by device
  Plan plan_;
  std::vector<std::vector<int>> order_;        // by device, without aliases
  std::vector<std::pair<int, int>> position_;  // indexed by step: its device and place there
  std::vector<std::vector<int>> consumers_;    // indexed by root value: steps that read it
  std::vector<bool> is_awaited_;               // by step
  std::vector<int> output_of_root_;            // indexed by value: the fetch that holds it, or -1
  std::vector<std::vector<int>> copies_;       // indexed by device: fetches that are copied to
  std::vector<ValuePlace> places_;             // by root value
  std::vector<MemoryDraft> memory_;            // by device
  std::vector<int> program_device_;  // indexed by device: its index among those with steps
  // Operands whose addresses are known when their device's memory is.
  struct PlannedOperand {
    enum class Area { kArena, kStaging, kInputs, kOutputs };
    int operand, device;
    Area area;
    int index;  // index of the request, the packed input or the fetch
  };
  std::vector<PlannedOperand> planned_;
  struct ConstantOperand {
    int operand, device;
    TensorSpec spec;
    double value;
  };
  std::vector<ConstantOperand> constants_;
  ProgramParts parts_;
};

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_ASSEMBLER_H_
