#include <functional>
#include <mutex>
#include <numeric>

#include "parsyn/error.hpp"
#include "parsyn/torch.hpp"
#include "torch/device.hpp"
#include "torch/errors.hpp"
#include "torch/process_settings.hpp"
#include "torch/torch_trainer.hpp"

namespace parsyn {

namespace {

class TorchTrainerFactory : public TrainerFactory {
 public:
  explicit TorchTrainerFactory(const TorchOptions &options)
      : name_(options.device), device_(torch::device_of(options.device)), log_(options.log) {
    const std::string warning = blas_warning();
    if (device_.is_cpu() && !warning.empty()) write({LogLevel::warning, "torch.blas", warning, {}});
  }

  TrainerCapabilities capabilities() const override {
    TrainerCapabilities result;
    result.model_kinds = {"mlp", "torchscript"};
    result.bf16 = true;
    result.device = name_;
    return result;
  }

  std::unique_ptr<Trainer> make_trainer(const TrainerJob &job) override {
    if (job.config.use_peft)
      throw Error(ErrorCode::unsupported, "config.use_peft needs a model with adapters; a model of kind '" +
                                              job.model.kind + "' has none. Set use_peft to false.");
    torch::check_not_forked();
    auto model = make_model(job);
    if (device_.is_cpu() && job.config.mixed_precision == MixedPrecision::bf16)
      std::call_once(bf16_measured_, [&] { log_bf16_speed(static_cast<int>(job.config.threads)); });
    return torch::with_clear_errors(ErrorCode::invalid_argument, "The model and the examples do not fit",
                                    [&]() -> std::unique_ptr<Trainer> {
                                      return std::make_unique<torch::TorchTrainer>(
                                          torch::TrainerParts{job, std::move(model), device_, log_});
                                    });
  }

 private:
  std::unique_ptr<torch::Model> make_model(const TrainerJob &job) const {
    if (job.model.kind == "torchscript") return torch::make_torchscript_model(job.module_path, device_);
    if (job.model.kind != "mlp")
      throw Error(ErrorCode::unsupported,
                  "The model's kind '" + job.model.kind +
                      "' is neither \"mlp\" nor \"torchscript\"; this trainer knows no other.");
    for (const Examples *examples : {job.train, job.validation})
      if (examples != nullptr && examples->count() > 0) check_mlp_inputs(job.model, *examples);
    return torch::make_mlp_model(job.model, device_);
  }

  static void check_mlp_inputs(const ModelDescription &model, const Examples &examples) {
    const std::vector<std::uint64_t> shape(examples.x.shape.begin() + 1, examples.x.shape.end());
    const std::uint64_t width =
        std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<std::uint64_t>());
    if (!model.sizes.empty() && width != model.sizes.front())
      throw Error(ErrorCode::invalid_argument,
                  "The examples' inputs have the shape " + shape_text(shape) + ", " + std::to_string(width) +
                      " numbers each, and the model's sizes are " + shape_text(model.sizes) +
                      "; the first must be " + std::to_string(width) + ".");
    if (examples.x.dtype != Dtype::f32 && examples.x.dtype != Dtype::u8)
      throw Error(ErrorCode::invalid_argument, "The examples' inputs are " +
                                                   std::string(dtype_name(examples.x.dtype)) +
                                                   "; a model of kind 'mlp' takes F32 or U8.");
  }

  void log_bf16_speed(int threads) const {
    const torch::ComputeScope compute({threads, device_, log_});
    const auto seconds = torch::measure_products();
    if (seconds.bf16 <= seconds.f32) return;
    const auto per_product = [](double value) { return std::to_string(value * 1e3) + " ms"; };
    write({LogLevel::warning,
           "torch.bf16_slow",
           "bf16 is slower than f32 on this CPU: a 512 x 512 matrix product takes " +
               per_product(seconds.bf16) + " instead of " + per_product(seconds.f32) +
               ". Set mixed_precision to \"no\" to train faster.",
           {}});
  }

  void write(const LogRecord &record) const {
    if (log_) log_(record);
  }

  std::string name_;
  at::Device device_;
  LogSink log_;
  std::once_flag bf16_measured_;
};

}  // namespace

std::shared_ptr<TrainerFactory> make_torch_trainer_factory(const TorchOptions &options) {
  return std::make_shared<TorchTrainerFactory>(options);
}

}  // namespace parsyn
