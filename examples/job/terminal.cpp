#include "job/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <utility>

#include "common/program.hpp"

namespace parsyn::programs {
namespace {

constexpr std::size_t kUsualWidth = 80;

}  // namespace

Terminal::Terminal() {
  const char *kind = std::getenv("TERM");
  can_redraw_ =
      ::isatty(STDOUT_FILENO) == 1 && kind != nullptr && *kind != '\0' && std::string_view(kind) != "dumb";
}

std::size_t Terminal::width() const {
  winsize size{};
  // One column less: a character in the last one would make some terminals wrap.
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1) return size.ws_col - 1U;
  return kUsualWidth - 1;
}

std::string Terminal::erase_block() const {
  if (block_.empty()) return {};
  return "\x1b[" + std::to_string(block_.size()) + "A\r\x1b[J";
}

void Terminal::print(const std::string &line) {
  std::string text = erase_block() + line + "\n";
  for (const std::string &drawn : block_) text += drawn + "\n";
  write_output(text);
}

void Terminal::draw_block(std::vector<std::string> lines) {
  if (!can_redraw_ || lines == block_) return;
  std::string text = erase_block();
  for (const std::string &line : lines) text += line + "\n";
  block_ = std::move(lines);
  write_output(text);
}

void Terminal::clear_block() {
  if (!block_.empty()) write_output(erase_block());
  block_.clear();
}

}  // namespace parsyn::programs
