#include "job/printing.hpp"

#include <algorithm>

#include "common/plain_text.hpp"
#include "common/program.hpp"
#include "job/progress_view.hpp"
#include "parsyn/error.hpp"

namespace parsyn::programs {
namespace {

using Row = std::vector<std::string>;

std::string table(const std::vector<Row> &rows) {
  std::vector<std::size_t> widths;
  for (const Row &row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], character_count(row[i]));
  }
  std::string text;
  for (const Row &row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += (i > 0 ? "  " : "") + padded(row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

Row header_of(Resource resource) {
  switch (resource) {
    case Resource::job:
      return {"ID", "STATE", "ROUND", "VALIDATION LOSS", "NAME"};
    case Resource::worker:
      return {"ID", "KIND", "LIVE", "DEVICE", "NAME"};
    case Resource::dataset:
      return {"ID", "TRAIN", "VALIDATION", "INPUT", "NAME"};
    case Resource::model:
      return {"ID", "KIND", "PARAMETERS", "NAME"};
  }
  return {};
}

Row row_of(Resource resource, const Json &item) {
  const std::string id = text_at(item, "id");
  const std::string name = text_at(item, "name");
  switch (resource) {
    case Resource::job:
      return {id, text_at(item, "state"), text_at(item, "round") + "/" + text_at(item, "num_rounds"),
              number_at(item, "final_validation.loss", 4), name};
    case Resource::worker:
      return {id, text_at(item, "kind"), true_at(item, "live") ? "yes" : "no",
              text_at(item, "capabilities.device"), name};
    case Resource::dataset: {
      const std::string input =
          text_at(item, true_at(item, "local") ? "validation.input_shape" : "train.input_shape");
      return {id, true_at(item, "local") ? "local" : text_at(item, "train.num_examples"),
              text_at(item, "validation.num_examples"), input, name};
    }
    case Resource::model:
      return {id, text_at(item, "kind"), text_at(item, "num_parameters"), name};
  }
  return {};
}

std::string describe_job(const Json &job) {
  std::string text = "job " + text_at(job, "id") + " (" + text_at(job, "name") + ") is " +
                     text_at(job, "state") + ": " + text_at(job, "reason") + "\n";
  text += "round " + text_at(job, "round") + " of " + text_at(job, "num_rounds") + ", dataset " +
          text_at(job, "dataset_id") + ", model " + text_at(job, "model_id") + ", seed " +
          text_at(job, "seed") + "\n";
  for (const Json &notice : value_at(job, "notices")) text += "note: " + text_at(notice, "") + "\n";
  const Json rounds = value_at(job, "rounds");
  if (!rounds.empty()) {
    std::vector<Row> rows{
        {"ROUND", "TRAIN LOSS", "VALIDATION LOSS", "ACCURACY", "EXAMPLES", "SECONDS", "HOW IT ENDED"}};
    for (const Json &record : rounds) {
      rows.push_back({text_at(record, "round"), number_at(record, "train_loss", 4),
                      number_at(record, "validation.loss", 4), number_at(record, "validation.accuracy", 4),
                      text_at(record, "examples"), number_at(record, "seconds", 1),
                      text_at(record, "reason")});
    }
    text += table(rows);
  }
  JobView view;
  view.take_document(job);
  std::size_t name_width = 0;
  for (const auto &[id, worker] : view.workers())
    name_width = std::max(name_width, character_count(worker.name));
  for (const auto &[id, worker] : view.workers()) text += bar_line(worker, name_width, SIZE_MAX) + "\n";
  const std::string last = final_line(job);
  return last.empty() ? text : text + last + "\n";
}

std::string field_text(const Json &document, const std::string &path) {
  const Json value = value_at(document, path);
  if (value.is_null())
    throw Error(ErrorCode::not_found, "the answer has nothing at " + path + ": see it with --json");
  return value.is_string() ? plain_text(value.get<std::string>()) : json_line(value);
}

}  // namespace

void print_document(const ClientOptions &options, const Json &document, const std::string &text) {
  std::string shown = text;
  if (!options.field.empty()) {
    shown = field_text(document, options.field) + "\n";
  } else if (options.json) {
    shown = json_line(document) + "\n";
  }
  write_output(shown);
}

void print_list(const ClientOptions &options, Resource resource, const std::vector<Json> &items) {
  if (options.json || !options.field.empty()) {
    for (const Json &item : items) print_document(options, item, {});
    return;
  }
  std::vector<Row> rows{header_of(resource)};
  for (const Json &item : items) rows.push_back(row_of(resource, item));
  write_output(table(rows));
}

std::string describe(Resource resource, const Json &document) {
  if (resource == Resource::job) return describe_job(document);
  std::string text;
  for (const auto &[name, value] : document.items())
    text += padded(name, 16) + "  " + text_at(value, "") + "\n";
  return text;
}

}  // namespace parsyn::programs
