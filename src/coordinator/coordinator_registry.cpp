// Workers, datasets and models.
#include <algorithm>
#include <memory>

#include "coordinator/coordinator_impl.hpp"
#include "coordinator/stored_data.hpp"
#include "core/name_check.hpp"
#include "parsyn/safetensors.hpp"
#include "system/files.hpp"
#include "system/sha256.hpp"
#include "tensor/initial_weights.hpp"
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

bool is_half(Dtype dtype) { return dtype == Dtype::f16 || dtype == Dtype::bf16; }

void check_weights(const StateDict &state) {
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
  // Nothing is wrong with what was given.
  if (error.code() == ErrorCode::cancelled) throw error;
  faults.push_back({field, std::string(error_code_name(error.code())), error.message()});
}

template <typename Spec>
std::optional<wire::StoredRequest> request_of(const Spec &spec, const std::string &idempotency_key) {
  if (idempotency_key.empty()) return std::nullopt;
  return wire::StoredRequest{idempotency_key, wire::request_text(spec)};
}

}  // namespace

CancelQuery CoordinatorImpl::stopping_or(CancelQuery cancelled) const {
  return [this, cancelled = std::move(cancelled)] { return stopping_ || (cancelled && cancelled()); };
}

template <typename Info>
std::optional<Info> CoordinatorImpl::earlier(const std::map<Id, Info> &infos,
                                             const Registrations &registrations,
                                             const std::optional<wire::StoredRequest> &request) {
  if (!request) return std::nullopt;
  const auto found = registrations.find(request->idempotency_key);
  if (found == registrations.end()) return std::nullopt;
  if (found->second.text != request->text) {
    throw Error(ErrorCode::conflict,
                "this idempotency key came with another request before, which has made number " +
                    std::to_string(found->second.id) + ": give every request a key of its own");
  }
  return infos.at(found->second.id);
}

template <typename Info>
std::optional<Info> CoordinatorImpl::committed_earlier(const std::map<Id, Info> &infos,
                                                       const Registrations &registrations,
                                                       const std::optional<wire::StoredRequest> &request) {
  const bool is_known = [&] {
    const std::lock_guard lock(mutex_);
    return request && registrations.contains(request->idempotency_key);
  }();
  if (!is_known) return std::nullopt;
  // Through the loop: the first request's batch may still be under way, and what it says not yet be kept.
  return loop_->call<Info>([&](Batch &) { return earlier(infos, registrations, request).value(); });
}

template <typename Stored, typename Info>
Info CoordinatorImpl::keep(const char *table, std::uint32_t count_max, std::map<Id, Info> &infos,
                           Registrations &registrations, const Stored &stored, NewObjects &objects) {
  return loop_->call<Info>([&](Batch &batch) {
    if (const auto before = earlier(infos, registrations, stored.request)) return *before;
    check_count(infos.size(), count_max, table);
    batch.writes.push_back({table, wire::journal_key({stored.info.id}), wire::encode_stored(stored)});
    objects.keep();
    remember(registrations, stored.info.id, stored.request);
    return infos[stored.info.id] = stored.info;
  });
}

WorkerCredentials CoordinatorImpl::add_worker(const WorkerSpec &spec, const std::string &idempotency_key) {
  std::vector<Fault> faults;
  check_name(spec.name, faults);
  if (!faults.empty()) throw wire::refusal("worker", std::move(faults));
  const auto request = request_of(spec, idempotency_key);
  return loop_->call<WorkerCredentials>([this, spec, request](Batch &batch) {
    if (const auto before = earlier(workers_, worker_by_key_, request)) {
      const std::string id = std::to_string(before->info.id);
      throw Error(ErrorCode::conflict, "worker " + id +
                                           " was made with this idempotency key, and its token " +
                                           "told then, once: if that answer was lost, remove worker " + id +
                                           " and add one with another key");
    }
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
    worker.request = request;
    batch.writes.push_back({"workers", wire::journal_key({worker.info.id}), wire::encode_stored(worker)});
    worker_by_token_sha256_[worker.token_sha256] = worker.info.id;
    remember(worker_by_key_, worker.info.id, request);
    workers_[worker.info.id] = std::move(worker);
    return credentials;
  });
}

void CoordinatorImpl::remove_worker(Id id) {
  loop_->call<bool>([this, id](Batch &batch) {
    const RegisteredWorker &worker = find_in(workers_, id, "worker");
    worker_by_token_sha256_.erase(worker.token_sha256);
    if (worker.request) worker_by_key_.erase(worker.request->idempotency_key);
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

DatasetInfo CoordinatorImpl::add_dataset(const DatasetSpec &spec, const std::string &idempotency_key) {
  const auto request = request_of(spec, idempotency_key);
  if (auto before = committed_earlier(datasets_, dataset_by_key_, request)) return *before;
  const CancelQuery cancelled = stopping_or(spec.cancelled);
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
      into = read_examples(*file, cancelled);
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
  NewDataset dataset;
  dataset.info.name = spec.name;
  dataset.info.local = spec.local;
  if (train) dataset.train = &*train;
  if (validation) dataset.validation = &*validation;
  dataset.cancelled = cancelled;
  dataset.request = request;
  return add(dataset);
}

DatasetInfo CoordinatorImpl::add_dataset(const std::string &name, const Examples &train,
                                         const std::optional<Examples> &validation) {
  std::vector<Fault> faults;
  check_name(name, faults);
  if (train.count() == 0) faults.push_back({"train", "range", "a dataset has at least one training example"});
  if (validation && validation->count() == 0)
    faults.push_back({"validation", "range", "leave validation out rather than empty"});
  if (!faults.empty()) throw wire::refusal("dataset", std::move(faults));
  NewDataset dataset;
  dataset.info.name = name;
  dataset.train = &train;
  if (validation) dataset.validation = &*validation;
  dataset.cancelled = stopping_or({});
  return add(dataset);
}

DatasetInfo CoordinatorImpl::add(const NewDataset &dataset) {
  NewObjects objects(*options_.store, dataset.cancelled);
  DatasetInfo info = dataset.info;
  info.id = ++last_dataset_;
  info.created_ms = runtime_.wall_ms();
  if (dataset.train != nullptr) {
    info.train = shape_of(*dataset.train);
    objects.add_state(train_key(info.id), dataset.train->to_state_dict());
  }
  if (dataset.validation != nullptr) {
    info.validation = shape_of(*dataset.validation);
    objects.add_state(validation_key(info.id), dataset.validation->to_state_dict());
  }
  return keep("datasets", limits::kDatasetsMax, datasets_, dataset_by_key_,
              wire::StoredDataset{std::move(info), dataset.request}, objects);
}

std::vector<DatasetInfo> CoordinatorImpl::datasets() const {
  return look([&] { return values_of(datasets_); });
}

DatasetInfo CoordinatorImpl::dataset(Id id) const {
  return look([&] { return find_in(datasets_, id, "dataset"); });
}

ModelInfo CoordinatorImpl::add_model(const ModelSpec &spec, const std::string &idempotency_key) {
  NewModel model;
  model.request = request_of(spec, idempotency_key);
  if (auto before = committed_earlier(models_, model_by_key_, model.request)) return *before;
  model.cancelled = stopping_or(spec.cancelled);
  model.info.name = spec.name;
  model.info.description = spec.description;
  std::vector<Fault> faults;
  check_name(spec.name, faults);
  if (spec.from_job) {
    try {
      model.weights_of = job_model(*spec.from_job, spec.from_round).key;
      const std::lock_guard lock(mutex_);
      model.info.description = find_job(*spec.from_job).model.description;
      model.info.num_parameters = find_job(*spec.from_job).model.num_parameters;
    } catch (const Error &error) {
      note_unreadable("from_job", error, faults);
    }
    if (!faults.empty()) throw wire::refusal("model", std::move(faults));
    return add(model);
  }
  const std::string &kind = spec.description.kind;
  StateDict weights;
  try {
    if (kind == "mlp") {
      model.info.num_parameters = tensor::initial_parameter_count(spec.description);
    } else if (kind == "torchscript") {
      if (!options_.torchscript_importer)
        throw Error(ErrorCode::unsupported,
                    "this coordinator is built without libtorch and cannot read TorchScript modules");
      weights = options_.torchscript_importer(spec.path);
      model.module = spec.path;
    } else if (kind == "custom") {
      weights = read_safetensors(
          InterruptibleSource(std::make_unique<system::FileSource>(spec.path), model.cancelled));
    } else {
      faults.push_back(
          {"kind", "unknown_value", "there is no model kind " + kind + " (mlp, torchscript, custom)"});
    }
    if (kind == "torchscript" || kind == "custom") {
      weights = tensor::widen_to_f32_masters(std::move(weights));
      check_weights(weights);
      model.info.num_parameters = parameters_of(weights);
      model.weights = &weights;
    }
  } catch (const Error &error) {
    note_unreadable(kind == "mlp" ? "sizes" : "path", error, faults);
  }
  if (!faults.empty()) throw wire::refusal("model", std::move(faults));
  return add(model);
}

ModelInfo CoordinatorImpl::add_model(const ModelSpec &spec, const StateDict &weights) {
  NewModel model;
  model.cancelled = stopping_or(spec.cancelled);
  model.info.name = spec.name;
  model.info.description = spec.description;
  model.weights = &weights;
  std::vector<Fault> faults;
  check_name(spec.name, faults);
  StateDict widened;
  try {
    if (std::ranges::any_of(weights, [](const auto &entry) { return is_half(entry.second.dtype); })) {
      widened = tensor::widen_to_f32_masters(weights);
      model.weights = &widened;
    }
    check_weights(*model.weights);
  } catch (const Error &error) {
    note_unreadable("weights", error, faults);
  }
  if (!faults.empty()) throw wire::refusal("model", std::move(faults));
  model.info.num_parameters = parameters_of(weights);
  return add(model);
}

ModelInfo CoordinatorImpl::add(const NewModel &model) {
  NewObjects objects(*options_.store, model.cancelled);
  ModelInfo info = model.info;
  info.id = ++last_model_;
  info.created_ms = runtime_.wall_ms();
  if (!model.module.empty()) {
    const ObjectInfo module = objects.add_file(model_module_key(info.id), model.module);
    info.description.module_key = module.key;
    info.description.module_sha256 = module.sha256;
  }
  std::optional<ObjectInfo> weights;
  if (model.weights != nullptr) weights = objects.add_state(model_weights_key(info.id), *model.weights);
  if (!model.weights_of.empty()) weights = objects.add_copy(model_weights_key(info.id), model.weights_of);
  if (weights) {
    info.weights_key = weights->key;
    info.weights_sha256 = weights->sha256;
  }
  return keep("models", limits::kModelsMax, models_, model_by_key_,
              wire::StoredModel{std::move(info), model.request}, objects);
}

std::vector<ModelInfo> CoordinatorImpl::models() const {
  return look([&] { return values_of(models_); });
}

ModelInfo CoordinatorImpl::model(Id id) const {
  return look([&] { return find_in(models_, id, "model"); });
}

}  // namespace parsyn::coordinator
