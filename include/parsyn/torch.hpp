// Trainers on libtorch: target parsyn::torch, the only part of parsyn that needs it.
//
// Thread-safety: as TrainerFactory says. libtorch's number of threads is a setting of the whole process: the factory
// sets it around its own computations, on its own threads, and restores nothing that it did not change.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "parsyn/log.hpp"
#include "parsyn/trainer.hpp"

namespace parsyn {

struct TorchOptions {
  std::string device = "cpu";  ///< "cpu" or "cuda:N".
  LogSink log;
};

/// Trains `mlp` and `torchscript` models. Throws Error(unsupported) for a device that is not there.
std::shared_ptr<TrainerFactory> make_torch_trainer_factory(const TorchOptions &options);

/// Parameters and buffers of a scripted module (torch.jit.script(...).save), by name, half-precision floats widened to
/// F32 masters. Runs none of the module's code. Throws Error: not_found, corrupt_data.
StateDict torchscript_state_dict(const std::filesystem::path &module_path);

}  // namespace parsyn
