#include "simulate/model.hpp"

#ifdef PARSYN_WITH_TORCH
#include "parsyn/torch.hpp"
#else
#include "simulate/softmax_regression.hpp"
#endif

namespace simulate {

Model make_model() {
  Model model;
#ifdef PARSYN_WITH_TORCH
  model.spec.name = "mlp 784-200-200-10";
  model.spec.description.kind = "mlp";
  model.spec.description.sizes = {784, 200, 200, 10};
  model.trainer_factory = parsyn::make_torch_trainer_factory({});
#else
  model.spec.name = "softmax regression 784-10";
  model.spec.description.kind = "custom";
  model.weights = softmax_regression_zeros(784, 10);
  model.trainer_factory = std::make_shared<SoftmaxRegressionFactory>();
#endif
  return model;
}

}  // namespace simulate
