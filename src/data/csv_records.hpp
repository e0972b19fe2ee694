// The records of a CSV file (RFC 4180), with the line on which each begins.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/byte_reader.hpp"

namespace parsyn::data {

/// Fields are separated by commas, records by LF or CRLF. A field in quotes may hold commas, line ends and
/// doubled quotes. Blank lines are allowed at the end of the file only. Every fault is an Error(corrupt_data)
/// with its line.
class CsvRecords {
 public:
  explicit CsvRecords(ByteReader &reader);

  /// False at the end of the file.
  bool next();
  /// The record's fields, valid until next().
  std::span<const std::string> fields() const { return std::span(fields_).first(count_); }
  /// The first line of the record, from 1.
  std::uint64_t line() const { return record_line_; }

  /// "file, line 7: what", as an Error(corrupt_data).
  [[noreturn]] void fail(std::uint64_t line, const std::string &what) const;

 private:
  bool read_record();
  void begin_field();
  void read_quoted();
  void append(int byte);
  /// Every byte and comma counts: fields without content take memory too.
  void count_byte();
  void end_line();

  ByteReader &reader_;
  std::vector<std::string> fields_;  // kept between records for their memory
  std::size_t count_ = 0;
  std::uint64_t record_bytes_ = 0;
  std::uint64_t line_ = 1;
  std::uint64_t record_line_ = 1;
};

}  // namespace parsyn::data
