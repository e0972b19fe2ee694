#include "data/csv_records.hpp"

#include "parsyn/error.hpp"
#include "parsyn/limits.hpp"

namespace parsyn::data {
namespace {

constexpr int kEnd = -1;

}  // namespace

CsvRecords::CsvRecords(ByteReader &reader) : reader_(reader) {
  // Spreadsheets put a byte order mark first, which would become part of the first column's name.
  if (reader_.peek() != 0xEF) return;
  reader_.get();
  if (reader_.get() != 0xBB || reader_.get() != 0xBF) fail(1, "the file is not UTF-8 text");
}

void CsvRecords::fail(std::uint64_t line, const std::string &what) const {
  throw Error(ErrorCode::corrupt_data, reader_.name() + ", line " + std::to_string(line) + ": " + what);
}

bool CsvRecords::next() {
  if (!read_record()) return false;
  if (count_ != 1 || !fields_[0].empty()) return true;
  const std::uint64_t blank = record_line_;
  while (read_record()) {
    if (count_ != 1 || !fields_[0].empty()) fail(blank, "the line is blank, but records follow; remove it");
  }
  return false;
}

bool CsvRecords::read_record() {
  count_ = 0;
  record_bytes_ = 0;
  record_line_ = line_;
  if (reader_.peek() == kEnd) return false;
  begin_field();
  for (;;) {
    const int byte = reader_.get();
    switch (byte) {
      case kEnd:
        return true;
      case '\n':
        ++line_;
        return true;
      case '\r':
        end_line();
        return true;
      case ',':
        begin_field();
        break;
      case '"':
        fail(line_,
             "a quote stands inside a field; put the whole field in quotes and double the quotes in it");
      default:
        append(byte);
    }
  }
}

void CsvRecords::begin_field() {
  count_byte();
  if (count_ == fields_.size()) fields_.emplace_back();
  fields_[count_++].clear();
  if (reader_.peek() == '"') {
    reader_.get();
    read_quoted();
  }
}

void CsvRecords::read_quoted() {
  const std::uint64_t opened = line_;
  for (;;) {
    const int byte = reader_.get();
    if (byte == kEnd) fail(opened, "a quote opens a field here and is never closed");
    if (byte == '"') {
      if (reader_.peek() != '"') break;
      reader_.get();
    }
    if (byte == '\n') ++line_;
    append(byte);
  }
  const int after = reader_.peek();
  if (after != ',' && after != '\n' && after != '\r' && after != kEnd) {
    fail(line_, "something follows a closing quote; a comma or the end of the line must");
  }
}

void CsvRecords::append(int byte) {
  count_byte();
  fields_[count_ - 1].push_back(static_cast<char>(byte));
}

void CsvRecords::count_byte() {
  if (++record_bytes_ > limits::kDatasetLineBytesMax) {
    throw Error(ErrorCode::too_large, reader_.name() + ", line " + std::to_string(record_line_) +
                                          ": the record has more than " +
                                          std::to_string(limits::kDatasetLineBytesMax) + " bytes");
  }
}

void CsvRecords::end_line() {
  if (reader_.peek() != '\n') fail(line_, "a carriage return stands alone; lines must end in LF or CRLF");
  reader_.get();
  ++line_;
}

}  // namespace parsyn::data
