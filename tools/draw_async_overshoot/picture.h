#ifndef SHOAL_TOOLS_DRAW_ASYNC_OVERSHOOT_PICTURE_H_
#define SHOAL_TOOLS_DRAW_ASYNC_OVERSHOOT_PICTURE_H_

#include <string>

#include "tools/draw_async_overshoot/overshoot.h"

namespace shoal {

// An SVG picture: above the loss with the first round's moves, below the values of all rounds.
std::string DrawOvershoot(const OvershootOptions& options, const ValueTrace& async_values,
                          const ValueTrace& sync_values);

}  // namespace shoal

#endif  // SHOAL_TOOLS_DRAW_ASYNC_OVERSHOOT_PICTURE_H_
