/* What merging and settling of cells share: gpc_merge_cells and gpc_settle_cells. */
#include "native.h"

enum { ENTROPY, SQUARE, ROOT };

GPC_INLINE double total_of(const int64_t kind, double square, double below) {
    if (kind == ROOT) return __builtin_sqrt(square);
    const double share = square / (below > 0 ? below : 1);
    return below > 0 ? share : 0;
}
