#include "scripted_modules.hpp"

#include <ATen/Parallel.h>
#include <torch/script.h>

#include <string>

#include "support/catch.hpp"

namespace parsyn::test {

namespace {

at::Tensor parameter(const at::Tensor &values) { return values.clone().set_requires_grad(true); }

at::Tensor counting(std::vector<std::int64_t> shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return ((at::arange(count, at::kFloat) % 7 - 3) / 10).reshape(shape);
}

torch::jit::Module norm_of(std::int64_t channels) {
  torch::jit::Module norm("Norm");
  norm.register_parameter("weight", parameter(at::ones({channels})), false);
  norm.register_parameter("bias", parameter(at::zeros({channels})), false);
  norm.register_buffer("running_mean", at::zeros({channels}));
  norm.register_buffer("running_var", at::ones({channels}));
  norm.register_buffer("num_batches_tracked", at::zeros({}, at::kLong));
  norm.register_attribute("training", c10::BoolType::get(), true);
  norm.define(R"(
def forward(self, x):
    if self.training:
        self.num_batches_tracked.add_(1)
    return torch.batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var, self.training, 0.1, 1e-5, False)
)");
  return norm;
}

torch::jit::Module with_parameter(const char *class_name, const at::Tensor &weight) {
  torch::jit::Module module(class_name);
  module.register_parameter("weight", weight, false);
  return module;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "parsyn-torch-XXXXXX").string();
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void write_convolution(const std::filesystem::path &path, bool channels_last) {
  at::Tensor weight = counting({2, 3, 3, 3});
  if (channels_last) weight = weight.contiguous(at::MemoryFormat::ChannelsLast);
  torch::jit::Module module("Convolution");
  torch::jit::Module conv = with_parameter("Conv", weight.set_requires_grad(true));
  conv.define("def forward(self, x):\n    return torch.conv2d(x, self.weight)\n");
  module.register_module("conv", conv);
  module.register_module("norm", norm_of(2));
  torch::jit::Module head = with_parameter("Head", parameter(counting({3, 8})));
  head.define("def forward(self, x):\n    return torch.matmul(x, self.weight.t())\n");
  module.register_module("head", head);
  module.define(R"(
def forward(self, x):
    y = torch.relu(self.norm.forward(self.conv.forward(x)))
    return self.head.forward(y.flatten(1))
)");
  module.save(path.string());
}

std::vector<float> convolution_weight() {
  const at::Tensor weight = counting({2, 3, 3, 3});
  return {weight.data_ptr<float>(), weight.data_ptr<float>() + weight.numel()};
}

void write_flat_norm(const std::filesystem::path &path) {
  torch::jit::Module module("FlatNorm");
  module.register_module("norm", norm_of(2));
  module.define("def forward(self, x):\n    return self.norm.forward(x)\n");
  module.save(path.string());
}

void write_tied(const std::filesystem::path &path) {
  torch::jit::Module module("Tied");
  const at::Tensor shared = parameter(at::eye(2) * 0.5);
  module.register_parameter("first", shared, false);
  module.register_parameter("second", shared, false);
  module.define("def forward(self, x):\n    return torch.matmul(torch.matmul(x, self.first), self.second)\n");
  module.save(path.string());
}

void write_dropout(const std::filesystem::path &path) {
  torch::jit::Module module = with_parameter("Dropout", parameter(counting({2, 2})));
  module.register_attribute("training", c10::BoolType::get(), true);
  module.define(
      "def forward(self, x):\n    return torch.matmul(torch.dropout(x, 0.5, self.training), self.weight)\n");
  module.save(path.string());
}

void write_half(const std::filesystem::path &path) {
  torch::jit::Module module = with_parameter("Half", parameter(counting({2, 2}).to(at::kHalf)));
  module.register_parameter("scale", parameter(at::full({1}, 1.5, at::kBFloat16)), false);
  module.register_parameter("frozen", at::full({2}, 0.25), false);
  module.define(
      "def forward(self, x):\n    return torch.matmul(x, self.weight) * self.scale + self.frozen\n");
  module.save(path.string());
}

void write_embedding(const std::filesystem::path &path) {
  torch::jit::Module module("Embedding");
  module.register_parameter("table", parameter(counting({5, 2})), false);
  module.define("def forward(self, x):\n    return torch.embedding(self.table, x).mean([1])\n");
  module.save(path.string());
}

void write_load_hook(const std::filesystem::path &path) {
  torch::jit::Module module = with_parameter("Hooked", parameter(counting({2, 2})));
  module.register_attribute("training", c10::BoolType::get(), true);
  module.define(R"(
def forward(self, x):
    return torch.matmul(x, self.weight)
def __getstate__(self) -> Tuple[Tensor, bool]:
    return self.weight, self.training
def __setstate__(self, state: Tuple[Tensor, bool]):
    self.weight = state[0] + 1
    self.training = state[1]
)");
  module.save(path.string());
}

int host_threads() { return at::get_num_threads(); }
void set_host_threads(int threads) { at::set_num_threads(threads); }
void seed_host_generator(std::uint64_t seed) { at::manual_seed(seed); }
double draw_from_host_generator() { return at::rand({1}, at::kDouble).item<double>(); }

}  // namespace parsyn::test
