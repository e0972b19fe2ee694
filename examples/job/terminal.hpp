// Standard output with lines that scroll and, on a terminal, a block below them that is redrawn in place.
//
// Thread-safety: of one thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace parsyn::programs {

class Terminal {
 public:
  Terminal();
  /// Leaves the block as it is drawn.
  ~Terminal() = default;
  Terminal(const Terminal &) = delete;
  Terminal &operator=(const Terminal &) = delete;

  /// False in a pipe, a file or a terminal that cannot move its cursor: only whole lines are written then.
  bool can_redraw() const { return can_redraw_; }
  /// Characters of one line.
  std::size_t width() const;

  void print(const std::string &line);
  /// Each line must fit the width.
  void draw_block(std::vector<std::string> lines);
  void clear_block();

 private:
  std::string erase_block() const;

  bool can_redraw_ = false;
  std::vector<std::string> block_;
};

}  // namespace parsyn::programs
