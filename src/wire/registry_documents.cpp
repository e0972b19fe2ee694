#include "wire/registry_documents.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "wire/object_reader.hpp"
#include "wire/values.hpp"

namespace parsyn::wire {
namespace {

constexpr core::WholeRange kLayerWidthRange{1, kLayerWidthMax};
constexpr core::WholeRange kRoundChoiceRange{0, limits::kRoundsMax};

constexpr Choices<DatasetFormat, 5> kDatasetFormats{{{"detect", DatasetFormat::detect},
                                                     {"idx", DatasetFormat::idx},
                                                     {"csv", DatasetFormat::csv},
                                                     {"jsonl", DatasetFormat::jsonl},
                                                     {"safetensors", DatasetFormat::safetensors}}};

// The description holds these as texts.
constexpr Choices<std::string_view, 3> kModelKinds{
    {{"mlp", "mlp"}, {"torchscript", "torchscript"}, {"custom", "custom"}}};
constexpr Choices<std::string_view, 4> kActivations{
    {{"relu", "relu"}, {"tanh", "tanh"}, {"gelu", "gelu"}, {"sigmoid", "sigmoid"}}};
constexpr Choices<std::string_view, 2> kLosses{{{"cross_entropy", "cross_entropy"}, {"mse", "mse"}}};

template <typename T, typename Read>
Parsed<T> parse_document(std::string_view text, Read read) {
  Parsed<T> parsed;
  FaultList faults;
  if (const auto document = read_json(text, faults)) {
    ObjectReader reader(*document, "", faults, UnknownFields::refused);
    read(reader, parsed.value);
    reader.finish();
  }
  parsed.faults = faults.take();
  return parsed;
}

void read_path(ObjectReader &reader, std::string_view name, std::filesystem::path &out, Presence presence) {
  std::string text;
  // NUL would end the path early for the operating system; control characters are refused altogether.
  reader.read(name, text, {.bytes_max = kPathBytesMax, .bytes_min = 1}, presence);
  if (!text.empty()) out = text;
}

void read_word(ObjectReader &reader, std::string_view name, std::string &out, const auto &choices,
               Presence presence) {
  std::string_view word = out;
  reader.read_choice(name, word, choices, presence);
  out = std::string(word);
}

/// A field that is there, but means nothing beside another one.
void refuse_field(ObjectReader &reader, std::string_view name, const std::string &why) {
  if (reader.has(name)) reader.fault(name, "contradiction", why);
}

void read_dataset_file(ObjectReader &reader, DatasetFileOptions &file) {
  read_path(reader, "path", file.path, Presence::required);
  read_path(reader, "labels_path", file.labels_path, Presence::nullable);
  reader.read_choice("format", file.format, kDatasetFormats, Presence::optional);
  reader.read("label_column", file.label_column, {.bytes_max = limits::kTensorNameBytesMax},
              Presence::nullable);
  const bool may_be_idx = file.format == DatasetFormat::detect || file.format == DatasetFormat::idx;
  const bool may_be_csv = file.format == DatasetFormat::detect || file.format == DatasetFormat::csv;
  if (!may_be_idx) refuse_field(reader, "labels_path", "is for format idx only; remove it");
  if (!may_be_csv) refuse_field(reader, "label_column", "is for format csv only; remove it");
  reader.finish();
}

void read_dataset_file(ObjectReader &parent, std::string_view name, std::optional<DatasetFileOptions> &out,
                       Presence presence) {
  if (auto reader = parent.object(name, presence)) read_dataset_file(*reader, out.emplace());
}

void read_dataset(ObjectReader &reader, DatasetSpec &spec) {
  reader.read_name("name", spec.name, Presence::required);
  reader.read("local", spec.local, Presence::optional);
  // Whether train is required hangs on `local`; where that could not be read, nothing is asked for.
  const bool local_known = !reader.faults().touches(reader.path_of("local"));
  read_dataset_file(reader, "train", spec.train, spec.local ? Presence::nullable : Presence::optional);
  read_dataset_file(reader, "validation", spec.validation, Presence::nullable);
  reader.read("validation_fraction", spec.validation_fraction, Presence::optional);
  reader.read_whole("split_seed", spec.split_seed, {}, Presence::optional);

  if (!std::isfinite(spec.validation_fraction) || spec.validation_fraction < 0 ||
      spec.validation_fraction >= 1) {
    reader.fault("validation_fraction", "range", "must be a number from 0 to below 1");
  }
  if (spec.local) {
    refuse_field(reader, "train", "must be absent: the examples of a local dataset stay with the workers");
    if (spec.validation_fraction > 0) {
      reader.fault(
          "validation_fraction", "contradiction",
          "must be 0: a local dataset has no training file here to take it from; give a validation file");
    }
  } else if (local_known && !spec.train && !reader.faults().touches("train")) {
    reader.fault("train", "required", "is missing; give the training file, or set local to true");
  }
  if (spec.validation && spec.validation_fraction > 0) {
    reader.fault("validation_fraction", "contradiction", "must be 0 where there is a validation file");
  }
}

void read_round_choice(ObjectReader &reader, std::string_view name, RoundChoice &out) {
  const nlohmann::json *value = reader.find(name, Presence::nullable);
  if (value == nullptr) return;
  if (value->is_string()) {
    if (*value == "best") {
      out = BestRound{};
    } else {
      reader.fault(name, "unknown_value", "must be a round's number, \"best\", or null for the last");
    }
    return;
  }
  std::uint32_t round = 0;
  reader.read_whole(name, round, kRoundChoiceRange, Presence::nullable);
  out = round;
}

void read_sizes(ObjectReader &reader, std::vector<std::uint64_t> &sizes, Presence presence) {
  reader.read_whole_list("sizes", sizes, kLayerWidthRange, kLayersMax, presence);
  if (presence == Presence::required && sizes.size() < 2 && !reader.faults().touches("sizes")) {
    reader.fault("sizes", "range", "must list at least the input's and the output's width");
  }
}

void read_described_model(ObjectReader &reader, ModelSpec &spec) {
  ModelDescription &description = spec.description;
  read_word(reader, "kind", description.kind, kModelKinds, Presence::required);
  const bool mlp = description.kind == "mlp";
  read_sizes(reader, description.sizes, mlp ? Presence::required : Presence::nullable);
  read_word(reader, "activation", description.activation, kActivations, Presence::optional);
  read_word(reader, "loss", description.loss, kLosses, Presence::optional);
  const bool needs_path = description.kind == "torchscript" || description.kind == "custom";
  read_path(reader, "path", spec.path, needs_path ? Presence::required : Presence::nullable);

  if (mlp)
    refuse_field(reader, "path", "must be absent for kind mlp, whose weights are drawn from the job's seed");
  if (description.kind == "torchscript") {
    refuse_field(reader, "sizes", "is for kind mlp only; the module has its own");
    refuse_field(reader, "activation", "is for kind mlp only; the module has its own");
  }
  refuse_field(reader, "from_round", "means nothing without from_job");
}

void read_model(ObjectReader &reader, ModelSpec &spec) {
  reader.read_name("name", spec.name, Presence::required);
  reader.read_whole("from_job", spec.from_job, core::kIdRange);
  read_round_choice(reader, "from_round", spec.from_round);
  if (!reader.has("from_job")) {
    read_described_model(reader, spec);
    return;
  }
  for (const std::string_view name : {"kind", "sizes", "activation", "loss", "path"}) {
    reader.find(name, Presence::nullable);
    refuse_field(reader, name, "must be absent beside from_job: the model is that job's");
  }
}

}  // namespace

Parsed<WorkerSpec> parse_worker_spec(std::string_view text) {
  return parse_document<WorkerSpec>(text, [](ObjectReader &reader, WorkerSpec &spec) {
    reader.read_name("name", spec.name, Presence::required);
    reader.read_choice("kind", spec.kind, kWorkerKinds, Presence::optional);
  });
}

Parsed<DatasetSpec> parse_dataset_spec(std::string_view text) {
  return parse_document<DatasetSpec>(text, read_dataset);
}

Parsed<ModelSpec> parse_model_spec(std::string_view text) {
  return parse_document<ModelSpec>(text, read_model);
}

std::optional<RoundChoice> parse_round_choice(std::string_view text) {
  // Built in place: g++ 12 takes a variant that is moved into an optional for uninitialized.
  std::optional<RoundChoice> choice(std::in_place);
  if (text.empty()) return choice;
  if (text == "best") {
    choice->emplace<BestRound>();
    return choice;
  }
  std::uint32_t round = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), round);
  if (error != std::errc{} || end != text.data() + text.size() || !kRoundChoiceRange.holds(round))
    return std::nullopt;
  choice->emplace<std::uint32_t>(round);
  return choice;
}

}  // namespace parsyn::wire
