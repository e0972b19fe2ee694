// Jobs' events as Server-Sent Events (WHATWG HTML, section 9.2), with Last-Event-ID.
//
// One thread serves all streams: it writes what is new when a job says so, and a comment line every 15 s so
// that middleboxes keep the connection. A stream ends when its job has ended and everything is written.
//
// Thread-safety: every method may be called from any thread. Destruction ends all streams.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "http/http_server.hpp"
#include "parsyn/coordinator.hpp"

namespace parsyn::transport {

class EventStreams {
 public:
  explicit EventStreams(Coordinator &coordinator);
  ~EventStreams();
  EventStreams(const EventStreams &) = delete;
  EventStreams &operator=(const EventStreams &) = delete;

  /// Throws Error(not_found) before anything is written when there is no such job.
  void add(Id job, std::uint64_t after, http::Responder responder);
  void stop();

 private:
  struct Stream;
  void run();
  /// False when the stream is over.
  bool pump(Stream &stream, bool keep_alive);

  Coordinator &coordinator_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<std::shared_ptr<Stream>> streams_;  // guarded by mutex_
  bool news_ = false;                           // guarded by mutex_
  bool stopping_ = false;                       // guarded by mutex_
  std::once_flag joined_;
  std::thread thread_;
};

}  // namespace parsyn::transport
