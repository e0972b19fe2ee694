#include "parsyn/status.hpp"

namespace parsyn {

std::string_view worker_kind_name(WorkerKind kind) {
  switch (kind) {
    case WorkerKind::own:
      return "own";
    case WorkerKind::parsyn:
      return "parsyn";
  }
  return "unknown";
}

std::string_view job_state_name(JobState state) {
  switch (state) {
    case JobState::waiting:
      return "waiting";
    case JobState::running:
      return "running";
    case JobState::evaluating:
      return "evaluating";
    case JobState::completed:
      return "completed";
    case JobState::failed:
      return "failed";
    case JobState::stopped:
      return "stopped";
    case JobState::cancelled:
      return "cancelled";
  }
  return "unknown";
}

bool is_terminal(JobState state) {
  switch (state) {
    case JobState::waiting:
    case JobState::running:
    case JobState::evaluating:
      return false;
    case JobState::completed:
    case JobState::failed:
    case JobState::stopped:
    case JobState::cancelled:
      return true;
  }
  return false;
}

}  // namespace parsyn
