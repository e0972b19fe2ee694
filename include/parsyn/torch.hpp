// Trainers on libtorch: target parsyn::torch, the only part of parsyn that needs it.
//
// Thread-safety: as TrainerFactory says. libtorch's number of threads is a setting of the whole process: the
// factory sets it around its own computations, on its own threads, and restores nothing that it did not
// change.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "parsyn/log.hpp"
#include "parsyn/trainer.hpp"

namespace parsyn {

struct TorchOptions {
  std::string device = "cpu";  ///< "cpu" or "cuda:N".
  LogSink log = {};
};

/// Trains `mlp` and `torchscript` models. The optimiser's state starts anew each round; the learning rate
/// goes by global steps. `bf16` is mixed precision: weights and evaluation stay F32. A scripted module runs
/// in its own train and eval modes, and its random draws (dropout) are seeded by job, worker and round.
/// Trainers with one number of threads run side by side in a process; one with another number waits until
/// those have finished their round. In a child of fork() whose parent has computed here, making a trainer and
/// training throw Error(unsupported). Throws Error(unsupported) for a device that is not there.
std::shared_ptr<TrainerFactory> make_torch_trainer_factory(const TorchOptions &options);

/// Parameters and buffers of a scripted module (torch.jit.script(...).save), by name, half-precision floats
/// widened to F32 masters. Runs none of the module's code. Throws Error: not_found, corrupt_data.
StateDict torchscript_state_dict(const std::filesystem::path &module_path);

/// A sentence when this process computes with the pthread build of OpenBLAS, which is slow beside libtorch's
/// own threads; else empty. The factory logs it.
std::string blas_warning();

}  // namespace parsyn
