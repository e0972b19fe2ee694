// Jobs' events as Server-Sent Events (WHATWG HTML, section 9.2), with Last-Event-ID.
//
// One thread serves all streams: it writes what is new when a job says so, and a comment line every 15 s so
// that middleboxes keep the connection. A reader that is slow gets what it has room for, and the rest as it
// reads. A stream ends when its job has ended and everything is written.
//
// Thread-safety: every method may be called from any thread. Destruction ends all streams.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "http/http_server.hpp"
#include "parsyn/coordinator.hpp"
#include "parsyn/log.hpp"

namespace parsyn::transport {

class EventStreams {
 public:
  EventStreams(Coordinator &coordinator, LogSink log);
  ~EventStreams();
  EventStreams(const EventStreams &) = delete;
  EventStreams &operator=(const EventStreams &) = delete;

  /// Throws Error(not_found) before anything is written when there is no such job. The header kLastEvent says
  /// what the newest event is now.
  void add(Id job, std::uint64_t after, http::Responder responder);
  void stop();

 private:
  struct Stream;
  void run();
  /// One look at all streams; false: it is to stop.
  bool serve(std::chrono::steady_clock::time_point &next_keep_alive);
  void wake(Stream &stream);
  void end(Stream &stream) noexcept;
  /// False when the stream is over.
  bool pump(const std::shared_ptr<Stream> &stream, bool keep_alive);

  Coordinator &coordinator_;
  const LogSink log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<std::shared_ptr<Stream>> streams_;  // guarded by mutex_
  bool news_ = false;                           // guarded by mutex_
  bool stopping_ = false;                       // guarded by mutex_
  std::once_flag joined_;
  std::thread thread_;
};

}  // namespace parsyn::transport
