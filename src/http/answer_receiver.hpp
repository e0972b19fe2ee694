// What a client does with an answer as it comes, line by line and piece by piece: its header read, its
// length, size and range checked against the request, its body kept, streamed or written to a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/http_client.hpp"
#include "http/output_file.hpp"
#include "parsyn/error.hpp"
#include "system/sha256.hpp"

namespace parsyn::http {

/// Throws Error as Requester::perform: too_large, protocol, unavailable, io, invalid_argument.
class AnswerReceiver {
 public:
  /// `request` outlives it.
  explicit AnswerReceiver(const HttpClientRequest &request) : request_(request) {}

  /// A line of the header with or without its end: the status, a field, the empty line.
  void take_header(std::string_view line);
  void take_body(std::string_view piece);
  /// The connection has nothing more to give, in good order.
  HttpClientResponse finish();

  /// A final status line has come.
  bool begun() const { return begun_; }
  bool head_done() const { return head_done_; }
  std::optional<std::uint64_t> content_length() const { return content_length_; }
  std::uint64_t header_bytes() const { return header_bytes_; }
  std::uint64_t body_bytes() const { return response_.body_bytes; }
  /// The request's on_body wanted no more.
  bool ended_by_caller() const { return ended_by_caller_; }

  /// Throws an Error that names the request, without its URL's query.
  [[noreturn]] void fail(ErrorCode code, const std::string &what) const;

 private:
  void end_head();
  void check_partial_content() const;
  void open_output();

  const HttpClientRequest &request_;
  HttpClientResponse response_;
  bool begun_ = false;
  bool head_done_ = false;
  bool ended_by_caller_ = false;
  std::uint64_t header_bytes_ = 0;
  std::optional<std::uint64_t> content_length_;
  bool to_file_ = false;
  std::optional<OutputFile> output_;
  system::Sha256 digest_;
};

}  // namespace parsyn::http
