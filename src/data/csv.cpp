#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "data/csv_records.hpp"
#include "data/elements.hpp"
#include "data/formats.hpp"
#include "data/numbers.hpp"
#include "data/targets.hpp"
#include "parsyn/error.hpp"
#include "text/utf8.hpp"

namespace parsyn::data {
namespace {

constexpr std::string_view kDefaultLabelColumn = "label";

std::string shown(std::string_view value) {
  std::string text(1, '"');
  text += text::printable(value, 60);
  text += '"';
  return text;
}

std::string column_list(std::span<const std::string> columns) {
  constexpr std::size_t kShown = 10;
  std::string text;
  for (std::size_t i = 0; i < std::min(columns.size(), kShown); ++i)
    text += (i == 0 ? "" : ", ") + shown(columns[i]);
  if (columns.size() > kShown) text += " and " + std::to_string(columns.size() - kShown) + " more";
  return text;
}

/// Nothing when no column has this name.
std::optional<std::size_t> find_column(const CsvRecords &records, std::string_view name) {
  const auto columns = records.fields();
  const auto at = std::find(columns.begin(), columns.end(), name);
  if (at == columns.end()) return std::nullopt;
  if (std::find(at + 1, columns.end(), name) != columns.end()) {
    records.fail(records.line(),
                 "two columns are named " + shown(name) + ", so that the labels are ambiguous");
  }
  return static_cast<std::size_t>(at - columns.begin());
}

std::size_t label_column_of(const CsvRecords &records, const DatasetFileOptions &options) {
  if (options.label_column.empty()) {
    return find_column(records, kDefaultLabelColumn).value_or(records.fields().size() - 1);
  }
  if (const auto column = find_column(records, options.label_column)) return *column;
  throw Error(ErrorCode::invalid_argument, options.path.string() + " has no column " +
                                               shown(options.label_column) + "; its columns are " +
                                               column_list(records.fields()));
}

/// A file without a header would lose its first example to the column names.
void check_header(const CsvRecords &records) {
  const auto columns = records.fields();
  if (columns.size() < 2)
    records.fail(records.line(), "one column only; at least one feature and a label are needed");
  const bool all_numbers = std::all_of(columns.begin(), columns.end(), [](const std::string &column) {
    return parse_number(column).fault == NumberFault::none;
  });
  if (all_numbers)
    records.fail(records.line(), "every column name is a number; add a header line that names the columns");
}

class CsvExamples {
 public:
  CsvExamples(std::vector<std::string> columns, std::size_t label_column)
      : columns_(std::move(columns)), label_column_(label_column) {}

  void add(const CsvRecords &records) {
    const auto fields = records.fields();
    if (fields.size() != columns_.size()) {
      records.fail(records.line(), std::to_string(fields.size()) + " fields, where the header has " +
                                       std::to_string(columns_.size()));
    }
    for (std::size_t column = 0; column < fields.size(); ++column) {
      const ParsedNumber number = parse_number(fields[column]);
      if (column == label_column_) {
        add_label(records, fields[column], number);
      } else if (number.fault == NumberFault::none) {
        append_element(features_, number.value);
      } else {
        records.fail(records.line(), "column " + shown(columns_[column]) + ": " + shown(fields[column]) +
                                         " " + std::string(fault_text(number.fault)));
      }
    }
  }

  Examples finish() {
    const std::uint64_t count = targets_.count();
    return {Tensor{Dtype::f32, {count, columns_.size() - 1}, std::move(features_)}, targets_.finish()};
  }

  bool empty() const { return targets_.count() == 0; }

 private:
  void add_label(const CsvRecords &records, const std::string &text, const ParsedNumber &number) {
    if (number.fault == NumberFault::not_a_number) {
      records.fail(records.line(),
                   "label " + shown(text) + " in column " + shown(columns_[label_column_]) +
                       " is not a number; number the classes 0, 1, 2, ... or choose another label column");
    }
    if (number.fault != NumberFault::none) {
      records.fail(records.line(), "label " + shown(text) + " in column " + shown(columns_[label_column_]) +
                                       " " + std::string(fault_text(number.fault)));
    }
    if (number.is_integer) {
      targets_.add_integer(number.integer);
    } else {
      targets_.add_number(number.value);
    }
  }

  std::vector<std::string> columns_;
  std::size_t label_column_;
  std::vector<std::byte> features_;
  TargetCollector targets_;
};

}  // namespace

Examples read_csv(const DatasetFileOptions &options, const CancelQuery &cancelled) {
  ByteReader reader(options.path, options.bytes_max, cancelled);
  CsvRecords records(reader);
  if (!records.next()) records.fail(1, "the file is empty; its first line names the columns");
  check_header(records);
  const std::size_t label_column = label_column_of(records, options);
  CsvExamples examples({records.fields().begin(), records.fields().end()}, label_column);
  while (records.next()) examples.add(records);
  if (examples.empty()) records.fail(records.line(), "no examples follow the header line");
  return examples.finish();
}

}  // namespace parsyn::data
