// Scripted modules, written to files as torch.jit.script(...).save does, and libtorch's process-wide settings
// as a host sees them. Kept apart from the tests, since libtorch's headers take long to compile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "parsyn/state_dict.hpp"

namespace parsyn::test {

/// A folder of its own, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::filesystem::path operator/(const char *name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// [B, 3, 4, 4] -> convolution "conv.weight" [2, 3, 3, 3] (channels-last when asked), batch normalisation
/// "norm.*" with buffers, "head.weight" [3, 8] -> [B, 3].
void write_convolution(const std::filesystem::path &path, bool channels_last);
/// The elements of its "conv.weight" in row-major order.
std::vector<float> convolution_weight();

/// [B, 2] -> batch normalisation over 2 values -> [B, 2].
void write_flat_norm(const std::filesystem::path &path);
/// "first" and "second" are one [2, 2] parameter: x * first * second.
void write_tied(const std::filesystem::path &path);
/// [B, 2] -> dropout 0.5 -> "weight" [2, 2].
void write_dropout(const std::filesystem::path &path);
/// "weight" [2, 2] in half precision, "scale" in bfloat16, "frozen" F32 without gradient.
void write_half(const std::filesystem::path &path);
/// I64 [B, 3] token numbers -> rows of "table" [5, 2], their mean: [B, 2].
void write_embedding(const std::filesystem::path &path);
/// Runs code of its own when it is loaded.
void write_load_hook(const std::filesystem::path &path);

int host_threads();
void set_host_threads(int threads);
/// A draw from libtorch's generator, and its seed.
void seed_host_generator(std::uint64_t seed);
double draw_from_host_generator();

}  // namespace parsyn::test
