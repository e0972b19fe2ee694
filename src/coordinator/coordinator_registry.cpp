// Workers, datasets and models.
#include <algorithm>

#include "coordinator/coordinator_impl.hpp"
#include "coordinator/stored_data.hpp"
#include "core/name_check.hpp"
#include "parsyn/safetensors.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"
#include "tensor/masters.hpp"
#include "wire/parsed.hpp"

namespace parsyn::coordinator {
namespace {

constexpr std::size_t kTokenBytes = 32;

void check_name(const std::string &name, std::vector<Fault> &faults) {
  std::string reason = core::why_name_is_refused(name);
  if (!reason.empty()) faults.push_back({"name", "format", std::move(reason)});
}

template <typename T>
const T &find_in(const std::map<Id, T> &map, Id id, const char *what) {
  const auto found = map.find(id);
  if (found == map.end())
    throw Error(ErrorCode::not_found, std::string("there is no ") + what + " " + std::to_string(id));
  return found->second;
}

template <typename T>
std::vector<T> values_of(const std::map<Id, T> &map) {
  std::vector<T> values;
  for (const auto &[id, value] : map) values.push_back(value);
  return values;
}

void check_count(std::size_t count, std::uint32_t max, const char *what) {
  if (count >= max)
    throw Error(ErrorCode::too_large, "there are already " + std::to_string(max) + " " + what);
}

std::uint64_t parameters_of(const StateDict &state) {
  std::uint64_t count = 0;
  for (const TensorSpec &spec : specs_of(state)) count += spec.element_count();
  return count;
}

/// What trains must be float32 masters, whatever type the file has.
void check_masters(const StateDict &state) {
  if (state.empty()) throw Error(ErrorCode::invalid_argument, "the model has no tensors");
  for (const auto &[name, tensor] : state) {
    if (!is_averaged(tensor.dtype) && !is_integral(tensor.dtype)) {
      throw Error(ErrorCode::unsupported, "tensor " + name + " has dtype " +
                                              std::string(dtype_name(tensor.dtype)) +
                                              ", which cannot be averaged");
    }
  }
}

void note_unreadable(const std::string &field, const Error &error, std::vector<Fault> &faults) {
  faults.push_back({field, std::string(error_code_name(error.code())), error.message()});
}

}  // namespace

WorkerCredentials CoordinatorImpl::add_worker(const WorkerSpec &spec) {
  std::vector<Fault> faults;
  check_name(spec.name, faults);
  if (!faults.empty()) throw wire::refusal("worker", std::move(faults));
  return loop_->call<WorkerCredentials>([this, spec](Batch &batch) {
    check_count(workers_.size(), limits::kWorkersMax, "workers");
    WorkerCredentials credentials;
    credentials.token = runtime_.random_hex(kTokenBytes);
    RegisteredWorker worker;
    worker.info.id = ++last_worker_;
    worker.info.name = spec.name;
    worker.info.kind = spec.kind;
    worker.info.created_ms = runtime_.wall_ms();
    worker.token_sha256 = system::sha256_hex(credentials.token);
    credentials.worker = worker.info;
    batch.writes.push_back({"workers", wire::journal_key({worker.info.id}),
                            wire::encode_stored(wire::StoredWorker{worker.info, worker.token_sha256})});
    worker_by_token_sha256_[worker.token_sha256] = worker.info.id;
    workers_[worker.info.id] = std::move(worker);
    return credentials;
  });
}

void CoordinatorImpl::remove_worker(Id id) {
  loop_->call<bool>([this, id](Batch &batch) {
    const RegisteredWorker &worker = find_in(workers_, id, "worker");
    worker_by_token_sha256_.erase(worker.token_sha256);
    batch.writes.push_back({"workers", wire::journal_key({id}), {}});
    end_session(id, batch);
    workers_.erase(id);
    return true;
  });
}

WorkerInfo CoordinatorImpl::info_of(const RegisteredWorker &worker) const {
  WorkerInfo info = worker.info;
  info.live = sessions_.find(info.id) != nullptr;
  return info;
}

std::vector<WorkerInfo> CoordinatorImpl::workers() const {
  return look([&] {
    std::vector<WorkerInfo> infos;
    for (const auto &[id, worker] : workers_) infos.push_back(info_of(worker));
    return infos;
  });
}

WorkerInfo CoordinatorImpl::worker(Id id) const {
  return look([&] { return info_of(find_in(workers_, id, "worker")); });
}

DatasetInfo CoordinatorImpl::add_dataset(const DatasetSpec &spec) {
  std::vector<Fault> faults;
  check_name(spec.name, faults);
  if (spec.local && spec.train)
    faults.push_back({"train", "contradiction", "a local dataset's training data stays with the workers"});
  if (spec.local && spec.validation_fraction != 0) {
    faults.push_back({"validation_fraction", "contradiction",
                      "a local dataset has no training data here to take a part of"});
  }
  if (!spec.local && !spec.train)
    faults.push_back({"train", "required", "name the training data's file, or set local"});
  if (spec.validation && spec.validation_fraction != 0) {
    faults.push_back(
        {"validation_fraction", "contradiction", "give a validation file or a fraction, not both"});
  }
  if (!(spec.validation_fraction >= 0 && spec.validation_fraction < 1)) {
    faults.push_back({"validation_fraction", "range", "must be at least 0 and less than 1"});
  }
  std::optional<Examples> train;
  std::optional<Examples> validation;
  const auto read = [&](const std::optional<DatasetFileOptions> &file, const char *field,
                        std::optional<Examples> &into) {
    if (!file) return;
    try {
      into = read_examples(*file);
    } catch (const Error &error) {
      note_unreadable(field, error, faults);
    }
  };
  if (!spec.local) read(spec.train, "train", train);
  read(spec.validation, "validation", validation);
  if (faults.empty() && train && spec.validation_fraction > 0) {
    try {
      SplitExamples split = split_validation(*train, spec.validation_fraction, spec.split_seed);
      train = std::move(split.training);
      validation = std::move(split.validation);
    } catch (const Error &error) {
      note_unreadable("validation_fraction", error, faults);
    }
  }
  if (!faults.empty()) throw wire::refusal("dataset", std::move(faults));
  if (!spec.local) return add_dataset(spec.name, *train, validation);

  DatasetInfo info{.id = ++last_dataset_,
                   .name = spec.name,
                   .local = true,
                   .created_ms = runtime_.wall_ms(),
                   .train = {},
                   .validation = {}};
  if (validation) {
    info.validation = shape_of(*validation);
    store_state(*options_.store, validation_key(info.id), validation->to_state_dict());
  }
  return keep_dataset(std::move(info));
}

DatasetInfo CoordinatorImpl::add_dataset(const std::string &name, const Examples &train,
                                         const std::optional<Examples> &validation) {
  std::vector<Fault> faults;
  check_name(name, faults);
  if (train.count() == 0) faults.push_back({"train", "range", "a dataset has at least one training example"});
  if (validation && validation->count() == 0)
    faults.push_back({"validation", "range", "leave validation out rather than empty"});
  if (!faults.empty()) throw wire::refusal("dataset", std::move(faults));
  DatasetInfo info{.id = ++last_dataset_,
                   .name = name,
                   .local = false,
                   .created_ms = runtime_.wall_ms(),
                   .train = shape_of(train),
                   .validation = {}};
  store_state(*options_.store, train_key(info.id), train.to_state_dict());
  if (validation) {
    info.validation = shape_of(*validation);
    store_state(*options_.store, validation_key(info.id), validation->to_state_dict());
  }
  return keep_dataset(std::move(info));
}

DatasetInfo CoordinatorImpl::keep_dataset(DatasetInfo info) {
  return loop_->call<DatasetInfo>([this, info = std::move(info)](Batch &batch) {
    check_count(datasets_.size(), limits::kDatasetsMax, "datasets");
    batch.writes.push_back({"datasets", wire::journal_key({info.id}), wire::encode_stored(info)});
    return datasets_[info.id] = info;
  });
}

std::vector<DatasetInfo> CoordinatorImpl::datasets() const {
  return look([&] { return values_of(datasets_); });
}

DatasetInfo CoordinatorImpl::dataset(Id id) const {
  return look([&] { return find_in(datasets_, id, "dataset"); });
}

ModelInfo CoordinatorImpl::add_model(const ModelSpec &spec) {
  std::vector<Fault> faults;
  check_name(spec.name, faults);
  ModelInfo info{.id = 0,
                 .name = spec.name,
                 .created_ms = runtime_.wall_ms(),
                 .description = spec.description,
                 .num_parameters = 0,
                 .weights_key = {},
                 .weights_sha256 = {}};
  if (spec.from_job) {
    ObjectInfo from;
    try {
      from = job_model(*spec.from_job, spec.from_round);
      const std::lock_guard lock(mutex_);
      info.description = find_job(*spec.from_job).model.description;
      info.num_parameters = find_job(*spec.from_job).model.num_parameters;
    } catch (const Error &error) {
      note_unreadable("from_job", error, faults);
    }
    if (!faults.empty()) throw wire::refusal("model", std::move(faults));
    info.id = ++last_model_;
    const ObjectInfo kept = copy_object(*options_.store, from.key, model_weights_key(info.id));
    info.weights_key = kept.key;
    info.weights_sha256 = kept.sha256;
    return keep_model(std::move(info));
  }
  StateDict weights;
  try {
    if (spec.description.kind == "mlp") {
      info.num_parameters = parameters_of(initial_weights(spec.description, 0));
    } else if (spec.description.kind == "torchscript") {
      if (!options_.torchscript_importer)
        throw Error(ErrorCode::unsupported,
                    "this coordinator is built without libtorch and cannot read TorchScript modules");
      weights = options_.torchscript_importer(spec.path);
      check_masters(weights);
    } else if (spec.description.kind == "custom") {
      weights = tensor::widen_to_f32_masters(read_safetensors(system::FileSource(spec.path)));
      check_masters(weights);
    } else {
      faults.push_back({"kind", "unknown_value",
                        "there is no model kind " + spec.description.kind + " (mlp, torchscript, custom)"});
    }
  } catch (const Error &error) {
    note_unreadable(spec.description.kind == "mlp" ? "sizes" : "path", error, faults);
  }
  if (!faults.empty()) throw wire::refusal("model", std::move(faults));
  if (spec.description.kind == "mlp") {
    info.id = ++last_model_;
    return keep_model(std::move(info));
  }
  if (spec.description.kind == "custom") return add_model(spec, weights);
  info.id = ++last_model_;
  const ObjectInfo module = store_file(*options_.store, model_module_key(info.id), spec.path);
  info.description.module_key = module.key;
  info.description.module_sha256 = module.sha256;
  info.num_parameters = parameters_of(weights);
  const ObjectInfo kept = store_state(*options_.store, model_weights_key(info.id), weights);
  info.weights_key = kept.key;
  info.weights_sha256 = kept.sha256;
  return keep_model(std::move(info));
}

ModelInfo CoordinatorImpl::add_model(const ModelSpec &spec, const StateDict &weights) {
  std::vector<Fault> faults;
  check_name(spec.name, faults);
  try {
    check_masters(weights);
  } catch (const Error &error) {
    note_unreadable("weights", error, faults);
  }
  if (!faults.empty()) throw wire::refusal("model", std::move(faults));
  ModelInfo info{.id = ++last_model_,
                 .name = spec.name,
                 .created_ms = runtime_.wall_ms(),
                 .description = spec.description,
                 .num_parameters = parameters_of(weights),
                 .weights_key = {},
                 .weights_sha256 = {}};
  const ObjectInfo kept = store_state(*options_.store, model_weights_key(info.id), weights);
  info.weights_key = kept.key;
  info.weights_sha256 = kept.sha256;
  return keep_model(std::move(info));
}

ModelInfo CoordinatorImpl::keep_model(ModelInfo info) {
  return loop_->call<ModelInfo>([this, info = std::move(info)](Batch &batch) {
    check_count(models_.size(), limits::kModelsMax, "models");
    batch.writes.push_back({"models", wire::journal_key({info.id}), wire::encode_stored(info)});
    return models_[info.id] = info;
  });
}

std::vector<ModelInfo> CoordinatorImpl::models() const {
  return look([&] { return values_of(models_); });
}

ModelInfo CoordinatorImpl::model(Id id) const {
  return look([&] { return find_in(models_, id, "model"); });
}

}  // namespace parsyn::coordinator
