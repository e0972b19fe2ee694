// parsyn-worker: a Worker with libtorch's trainers in a process of its own.
#include "common/process.hpp"
#include "common/program.hpp"
#include "worker/options.hpp"
#ifdef PARSYN_WITH_TORCH
#include "worker/work.hpp"
#endif

int main(int argc, char **argv) {
  using namespace parsyn::programs;
  ignore_broken_pipes();
  WorkerProgramOptions options;
  if (const auto exit_code = read_options(argc, argv, options)) return *exit_code;
#ifdef PARSYN_WITH_TORCH
  return run_program({.name = "parsyn-worker"}, [&] { return work(options); });
#else
  print_message("parsyn-worker",
                "this program was built without libtorch and cannot train: build it with -DPARSYN_TORCH=ON");
  return kFailed;
#endif
}
