// A transport that passes everything on to another one, for tests that look at, or spoil, one kind of call.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "parsyn/transport.hpp"

namespace parsyn::test {

class PassingTransport : public Transport {
 public:
  explicit PassingTransport(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}

  SessionGrant open_session(const SessionRequest &request) override { return inner_->open_session(request); }
  void close_session(std::uint64_t lease) override { inner_->close_session(lease); }
  std::optional<Task> next_task(const TaskPoll &poll) override { return inner_->next_task(poll); }
  ReportReceipt report(const Report &report) override { return inner_->report(report); }
  HeartbeatAnswer heartbeat(const Heartbeat &heartbeat) override { return inner_->heartbeat(heartbeat); }
  void download(const ObjectRef &object, const std::filesystem::path &file,
                const TransferProgress &progress) override {
    inner_->download(object, file, progress);
  }
  void upload(const UploadSlot &slot, const std::filesystem::path &file,
              const TransferProgress &progress) override {
    inner_->upload(slot, file, progress);
  }
  void interrupt() override { inner_->interrupt(); }

 private:
  std::unique_ptr<Transport> inner_;
};

}  // namespace parsyn::test
