#include "http/response_head.hpp"

#include <chrono>

#include "http/text.hpp"

namespace parsyn::http {
namespace {

std::string two_digits(unsigned value) {
  return {static_cast<char>('0' + value / 10 % 10), static_cast<char>('0' + value % 10)};
}

bool frames_the_body(const std::string &name) {
  for (const std::string_view framing : {"Content-Length", "Transfer-Encoding", "Connection", "Date"}) {
    if (same_word(name, framing)) return true;
  }
  return false;
}

// A handler's text must not be able to end a header and begin another.
std::string one_line(std::string text) {
  for (char &c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  return text;
}

}  // namespace

std::string_view reason_phrase(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 206:
      return "Partial Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 303:
      return "See Other";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 411:
      return "Length Required";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 416:
      return "Range Not Satisfiable";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 426:
      return "Upgrade Required";
    case 428:
      return "Precondition Required";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    case 507:
      return "Insufficient Storage";
    default:
      break;
  }
  switch (status / 100) {
    case 2:
      return "OK";
    case 3:
      return "Redirect";
    case 4:
      return "Bad Request";
    default:
      return "Error";
  }
}

std::string http_date(std::int64_t seconds_since_1970) {
  static constexpr std::string_view kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::string_view kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                 "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::chrono::sys_seconds time{std::chrono::seconds(seconds_since_1970)};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss clock{time - day};
  const std::chrono::weekday weekday{day};
  std::string text(kDays[weekday.c_encoding()]);
  text += ", " + two_digits(static_cast<unsigned>(date.day())) + " ";
  text += kMonths[static_cast<unsigned>(date.month()) - 1];
  text += " " + std::to_string(static_cast<int>(date.year())) + " ";
  text += two_digits(static_cast<unsigned>(clock.hours().count())) + ":";
  text += two_digits(static_cast<unsigned>(clock.minutes().count())) + ":";
  text += two_digits(static_cast<unsigned>(clock.seconds().count())) + " GMT";
  return text;
}

std::string serialize(const ResponseHead &head) {
  std::string text = "HTTP/1.1 " + std::to_string(head.status) + " ";
  text += reason_phrase(head.status);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  text += "\r\nDate: " + http_date(std::chrono::duration_cast<std::chrono::seconds>(now).count());
  for (const auto &[name, value] : head.headers) {
    if (!frames_the_body(name)) text += "\r\n" + one_line(name) + ": " + one_line(value);
  }
  if (head.framing == BodyFraming::length) text += "\r\nContent-Length: " + std::to_string(head.length);
  if (head.framing == BodyFraming::chunked) text += "\r\nTransfer-Encoding: chunked";
  if (head.close) text += "\r\nConnection: close";
  return text + "\r\n\r\n";
}

}  // namespace parsyn::http
