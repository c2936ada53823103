#ifndef SHOAL_RUNTIME_OBSERVABILITY_RUN_PAGE_ASSETS_H_
#define SHOAL_RUNTIME_OBSERVABILITY_RUN_PAGE_ASSETS_H_

namespace shoal {

// The style sheet and the script of the page of a run.
extern const char kRunPageStyle[];
extern const char kRunPageScript[];

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_RUN_PAGE_ASSETS_H_
