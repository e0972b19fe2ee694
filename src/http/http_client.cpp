#include "http/http_client.hpp"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "http/client_transfer.hpp"
#include "http/sigpipe.hpp"
#include "parsyn/error.hpp"

namespace parsyn::http {
namespace {

/// More are closed after use: a burst must not leave its connections open for ever.
constexpr std::size_t kIdleHandlesMax = 16;

void check_readable(const std::filesystem::path &file, const std::string &what) {
  if (!file.empty() && ::access(file.c_str(), R_OK) != 0) {
    throw Error(ErrorCode::invalid_argument, "the " + what + " " + file.string() + " cannot be read");
  }
}

}  // namespace

struct HttpClient::State {
  explicit State(const HttpClientOptions &of) : options(of) {}

  const HttpClientOptions options;
  std::atomic<bool> interrupted = false;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::unique_ptr<CurlHandles>> idle;  // guarded by mutex
  std::vector<CurlHandles *> busy;                 // guarded by mutex

  std::unique_ptr<CurlHandles> take() {
    const std::lock_guard lock(mutex);
    std::unique_ptr<CurlHandles> handles;
    if (idle.empty()) {
      handles = std::make_unique<CurlHandles>();
    } else {
      handles = std::move(idle.back());  // the one used last: its connection is most likely alive
      idle.pop_back();
    }
    busy.push_back(handles.get());
    return handles;
  }

  void give_back(std::unique_ptr<CurlHandles> handles, bool reusable) {
    const std::lock_guard lock(mutex);
    std::erase(busy, handles.get());
    if (reusable && idle.size() < kIdleHandlesMax) {
      idle.push_back(std::move(handles));
    } else {
      handles.reset();
    }
    changed.notify_all();
  }
};

HttpClient::HttpClient(const HttpClientOptions &options) {
  check_readable(options.ca_file, "file of authorities");
  check_readable(options.certificate_file, "certificate");
  check_readable(options.private_key_file, "private key");
  if (options.certificate_file.empty() != options.private_key_file.empty()) {
    throw Error(ErrorCode::invalid_argument,
                "a client certificate needs both certificate_file and private_key_file");
  }
  state_ = std::make_unique<State>(options);
}

HttpClient::~HttpClient() {
  interrupt();
  const SigpipeBlocked blocked;  // closing TLS connections writes to them
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return state_->busy.empty(); });
  state_->idle.clear();
}

HttpClientResponse HttpClient::perform(const HttpClientRequest &request) {
  const SigpipeBlocked blocked;
  struct Borrowed {
    explicit Borrowed(State &of) : state(of), handles(of.take()) {}
    ~Borrowed() { state.give_back(std::move(handles), reusable); }
    Borrowed(const Borrowed &) = delete;
    Borrowed &operator=(const Borrowed &) = delete;
    State &state;
    std::unique_ptr<CurlHandles> handles;
    // A handle that failed early keeps buffers that cURL 7.88 does not let go of; its connection is lost
    // anyway.
    bool reusable = false;
  };
  Borrowed borrowed(*state_);
  HttpClientResponse response;
  {
    ClientTransfer transfer(state_->options, request, *borrowed.handles, state_->interrupted);
    response = transfer.run();
  }
  borrowed.reusable = true;
  return response;
}

void HttpClient::interrupt() {
  const std::lock_guard lock(state_->mutex);
  state_->interrupted = true;
  for (const CurlHandles *handles : state_->busy) handles->wake();
}

}  // namespace parsyn::http
