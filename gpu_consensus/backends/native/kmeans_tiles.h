/* k-means on dense rows of one type. Included once for each by kmeans.c, with

   NUMBER   float or double, as wide as INTEGER
   VECTOR   a vector of them, MASK one of integers
   NAME(x)  how a function of this type is called

   Feature j of row t of a tile is tile[j * ROWS + t]: a vector holds one feature of
   many rows, so that no sum and no comparison goes across it, and K needs no padding.
   Every sum of a score runs over the features in order, whatever the vector: all levels
   agree with the reference. */

enum { NAME(lanes) = GPC_VECTOR / (int)sizeof(NUMBER) };

GPC_INLINE VECTOR NAME(pick)(MASK mask, VECTOR a, VECTOR b) {
    return (VECTOR)((mask & (MASK)a) | (~mask & (MASK)b));
}

/* Copy rows (size, d) to a tile; what lies beyond them is zero. */
static void NAME(tile)(const NUMBER* rows, int64_t size, int64_t d,
                       NUMBER* restrict tile) {
    if (size < ROWS) memset(tile, 0, (size_t)(ROWS * d) * sizeof(NUMBER));
    const int64_t whole = size / SQUARE * SQUARE, across = d / SQUARE * SQUARE;
    for (int64_t t = 0; t < whole; t += SQUARE) {
        const NUMBER* from = rows + t * d;
        for (int64_t j = 0; j < across; j += SQUARE)
            NAME(transpose)(from + j, d, tile + j * ROWS + t);
        for (int64_t j = across; j < d; ++j)
            for (int64_t s = 0; s < SQUARE; ++s)
                tile[j * ROWS + t + s] = from[s * d + j];
    }
    for (int64_t t = whole; t < size; ++t)
        for (int64_t j = 0; j < d; ++j) tile[j * ROWS + t] = rows[t * d + j];
}

/* Score ACROSS vectors of rows for `some` centroids from k on; a better one wins. */
GPC_INLINE void NAME(compare)(const NUMBER* tile, int64_t d, const NUMBER* centroids,
                              const NUMBER* start, int64_t k, int some, VECTOR* best,
                              MASK* winner) {
    VECTOR score[SOME][ACROSS];
    for (int a = 0; a < some; ++a)
        for (int v = 0; v < ACROSS; ++v) score[a][v] = (VECTOR){0} + start[k + a];
    const NUMBER* centroid = centroids + k * d;
    for (int64_t j = 0; j < d; ++j) {
        const NUMBER* line = tile + j * ROWS;
        VECTOR x[ACROSS];
        for (int v = 0; v < ACROSS; ++v)
            x[v] = *(const VECTOR*)(line + v * NAME(lanes));
        for (int a = 0; a < some; ++a) {
            const NUMBER c = centroid[a * d + j];
            for (int v = 0; v < ACROSS; ++v) score[a][v] += x[v] * c;
        }
    }
    for (int a = 0; a < some; ++a)
        for (int v = 0; v < ACROSS; ++v) {
            const MASK more = (MASK)(score[a][v] > best[v]);
            best[v] = NAME(pick)(more, score[a][v], best[v]);
            const MASK here = (MASK){0} + (INTEGER)(k + a);
            winner[v] = (more & here) | (~more & winner[v]);
        }
}

/* The nearest centroid of each row of a tile, ties to the lowest: labels (ROWS). */
static void NAME(nearest)(const NUMBER* tile, int64_t d, const NUMBER* centroids,
                          const NUMBER* start, int64_t n_clusters, int32_t* labels) {
    for (int64_t t = 0; t < ROWS; t += ACROSS * NAME(lanes)) {
        VECTOR best[ACROSS];
        MASK winner[ACROSS];
        for (int v = 0; v < ACROSS; ++v) {
            best[v] = (VECTOR){0} - (NUMBER)__builtin_inf();
            winner[v] = (MASK){0};
        }
        int64_t k = 0;
        for (; k + SOME <= n_clusters; k += SOME)
            NAME(compare)(tile + t, d, centroids, start, k, SOME, best, winner);
        const int64_t left = n_clusters - k;
        if (left == 3)
            NAME(compare)(tile + t, d, centroids, start, k, 3, best, winner);
        else if (left == 2)
            NAME(compare)(tile + t, d, centroids, start, k, 2, best, winner);
        else if (left == 1)
            NAME(compare)(tile + t, d, centroids, start, k, 1, best, winner);
        for (int v = 0; v < ACROSS; ++v)
            for (int lane = 0; lane < NAME(lanes); ++lane)
                labels[t + v * NAME(lanes) + lane] = (int32_t)winner[v][lane];
    }
}

/* Label rows (n, d); return how many labels changed. tile: ROWS d. */
static int64_t NAME(label)(const NUMBER* rows, int64_t n, int64_t d,
                           const NUMBER* centroids, const NUMBER* start,
                           int64_t n_clusters, int32_t* labels, NUMBER* tile) {
    int32_t found[ROWS];
    int64_t changed = 0;
    for (int64_t begin = 0; begin < n; begin += ROWS) {
        const int64_t size = gpc_min(ROWS, n - begin);
        NAME(tile)(rows + begin * d, size, d, tile);
        NAME(nearest)(tile, d, centroids, start, n_clusters, found);
        for (int64_t t = 0; t < size; ++t) {
            changed += labels[begin + t] != found[t];
            labels[begin + t] = found[t];
        }
    }
    return changed;
}

/* What a score begins with: minus half the square of each centroid, 0 for cosine. */
static void NAME(start)(const NUMBER* centroids, int64_t n_clusters, int64_t d,
                        int64_t cosine, NUMBER* start) {
    for (int64_t k = 0; k < n_clusters; ++k) {
        NUMBER square = 0;
        for (int64_t j = 0; j < d; ++j) {
            const NUMBER c = centroids[k * d + j];
            square += c * c;
        }
        start[k] = cosine ? 0 : -(square / 2);
    }
}

/* Half the squared distance of two points. */
GPC_INLINE NUMBER NAME(apart)(const NUMBER* a, const NUMBER* b, int64_t d) {
    NUMBER square = 0;
    for (int64_t j = 0; j < d; ++j) {
        const NUMBER step = a[j] - b[j];
        square += step * step;
    }
    return square / 2;
}

/* Half the squared distance of each row of a tile from a point: out (ROWS). */
static void NAME(distances)(const NUMBER* tile, int64_t d, const NUMBER* point,
                            NUMBER* restrict out) {
    for (int64_t t = 0; t < ROWS; t += ACROSS * NAME(lanes)) {
        VECTOR square[ACROSS];
        for (int v = 0; v < ACROSS; ++v) square[v] = (VECTOR){0};
        for (int64_t j = 0; j < d; ++j)
            for (int v = 0; v < ACROSS; ++v) {
                const NUMBER* line = tile + j * ROWS + t + v * NAME(lanes);
                const VECTOR step = *(const VECTOR*)line - point[j];
                square[v] += step * step;
            }
        for (int v = 0; v < ACROSS; ++v)
            *(VECTOR*)(out + t + v * NAME(lanes)) = square[v] / 2;
    }
}

/* A share of the largest in whole steps of 2^-30, rounded up. */
GPC_INLINE int32_t NAME(steps)(NUMBER part, NUMBER most) {
    const NUMBER exact = part / most * (NUMBER)(1 << 30);
    const int32_t whole = (int32_t)exact;
    return whole + (exact > (NUMBER)whole);
}

/* Draw up to K rows; see `draw_starts` of the reference. Return how many there were.
   ends (n), apart (n), left (n_candidates, n), tile (ROWS d). */
static int64_t NAME(draw)(const NUMBER* rows, int64_t n, int64_t d, const NUMBER* fits,
                          const double* draws, int64_t n_clusters, int64_t n_candidates,
                          int64_t careful, NUMBER equal, int64_t* chosen, int64_t* ends,
                          NUMBER* apart, NUMBER* left, NUMBER* tile) {
    const NUMBER far = (NUMBER)__builtin_inf();
    NUMBER most = far;
    for (int64_t l = 0; l < n; ++l) apart[l] = fits[l] < far ? far : 0;
    for (int64_t k = 0; k < n_clusters; ++k) {
        const int weighted = careful && k;
        const int64_t tried = weighted ? n_candidates : 1;
        int64_t total = 0, candidates[CANDIDATES];
        for (int64_t l = 0; l < n; ++l) {
            total += weighted ? NAME(steps)(apart[l], most) : apart[l] > 0;
            ends[l] = total;
        }
        if (!total) return k;
        for (int64_t c = 0; c < tried; ++c) {
            const double drawn = draws[k * n_candidates + c] * (double)total;
            const int64_t at = gpc_min((int64_t)drawn, total - 1);
            int64_t low = 0, high = n - 1; /* the first whose end lies beyond */
            while (low < high) {
                const int64_t middle = (low + high) / 2;
                if (ends[middle] > at)
                    high = middle;
                else
                    low = middle + 1;
            }
            candidates[c] = low;
        }
        for (int64_t begin = 0; begin < n; begin += ROWS) {
            const int64_t size = gpc_min(ROWS, n - begin);
            NAME(tile)(rows + begin * d, size, d, tile);
            for (int64_t c = 0; c < tried; ++c) {
                NUMBER found[ROWS];
                NUMBER* to = left + c * n + begin;
                NAME(distances)(tile, d, rows + candidates[c] * d, found);
                for (int64_t t = 0; t < size; ++t) {
                    const NUMBER distance = found[t] <= equal ? 0 : found[t];
                    to[t] = distance < apart[begin + t] ? distance : apart[begin + t];
                }
            }
        }
        int64_t best = 0, lowest = INT64_MAX;
        for (int64_t c = 0; c < tried && tried > 1; ++c) {
            int64_t sum = 0;
            for (int64_t l = 0; l < n; ++l) sum += NAME(steps)(left[c * n + l], most);
            if (sum < lowest) {
                lowest = sum;
                best = c;
            }
        }
        chosen[k] = candidates[best];
        memcpy(apart, left + best * n, (size_t)n * sizeof(NUMBER));
        most = 0;
        for (int64_t l = 0; l < n; ++l) most = apart[l] > most ? apart[l] : most;
        if (!(most > 0)) return k + 1;
    }
    return n_clusters;
}

/* Give each empty cluster the worst-fitting row of a cluster that can spare it. */
static void NAME(fill)(const NUMBER* rows, int64_t n, int64_t d, const NUMBER* fits,
                       const NUMBER* centroids, int64_t n_clusters, int32_t* labels,
                       int64_t* counts, NUMBER* apart) {
    int64_t empty = 0;
    memset(counts, 0, (size_t)n_clusters * 8);
    for (int64_t l = 0; l < n; ++l)
        counts[labels[l]] += fits[l] < (NUMBER)__builtin_inf();
    while (empty < n_clusters && counts[empty]) ++empty;
    if (empty == n_clusters) return;
    for (int64_t l = 0; l < n; ++l) {
        apart[l] = NAME(apart)(rows + l * d, centroids + labels[l] * d, d);
        if (apart[l] <= fits[l]) apart[l] = 0;
    }
    for (;;) {
        int64_t worst = 0;
        for (int64_t l = 1; l < n; ++l)
            if (apart[l] > apart[worst]) worst = l;
        if (!(apart[worst] > 0)) return;
        apart[worst] = 0;
        if (counts[labels[worst]] <= 1) continue;
        --counts[labels[worst]];
        labels[worst] = (int32_t)empty;
        counts[empty] = 1;
        while (empty < n_clusters && counts[empty]) ++empty;
        if (empty == n_clusters) return;
    }
}

/* Move each centroid to the mean of its rows, for cosine to their direction.

   Sums of SUM_ROWS rows at a time in float64, in row order, then of these: sums, block
   (K, d) both. A cluster without rows, or whose directions cancel out, stays. */
static void NAME(means)(const NUMBER* rows, int64_t n, int64_t d, const int32_t* labels,
                        int64_t n_clusters, int64_t cosine, double slack,
                        NUMBER* centroids, int64_t* counts, double* restrict sums,
                        double* restrict block) {
    const int64_t cells = n_clusters * d;
    memset(counts, 0, (size_t)n_clusters * 8);
    memset(sums, 0, (size_t)cells * 8);
    for (int64_t begin = 0; begin < n; begin += SUM_ROWS) {
        memset(block, 0, (size_t)cells * 8);
        for (int64_t l = begin; l < gpc_min(begin + SUM_ROWS, n); ++l) {
            const NUMBER* row = rows + l * d;
            double* restrict sum = block + labels[l] * d;
            for (int64_t j = 0; j < d; ++j) sum[j] += row[j];
            ++counts[labels[l]];
        }
        for (int64_t cell = 0; cell < cells; ++cell) sums[cell] += block[cell];
    }
    for (int64_t k = 0; k < n_clusters; ++k) {
        const double* sum = sums + k * d;
        double size = (double)counts[k];
        if (cosine) {
            size = 0;
            for (int64_t j = 0; j < d; ++j) {
                const double part = (NUMBER)sum[j];
                size += part * part;
            }
            size = __builtin_sqrt(size);
        }
        if (cosine ? size <= slack : size == 0) continue;
        for (int64_t j = 0; j < d; ++j)
            centroids[k * d + j] = (NUMBER)sum[j] / (NUMBER)size;
    }
}

/* Lloyd's loop from given centroids; see `lloyd_starts` of the reference. Return the
   sum of half the squared distances of all rows from their centroids. */
static double NAME(lloyd)(const NUMBER* rows, int64_t n, int64_t d, const NUMBER* fits,
                          int64_t cosine, double slack, int64_t n_clusters,
                          int64_t max_iter, NUMBER* centroids, int32_t* labels,
                          kmeans_memory* memory) {
    NUMBER *tile = memory->tile, *start = memory->start;
    int64_t changed = 1;
    for (int64_t l = 0; l < n; ++l) labels[l] = -1;
    for (int64_t i = 0; i <= max_iter && changed; ++i) {
        NAME(start)(centroids, n_clusters, d, cosine, start);
        changed = NAME(label)(rows, n, d, centroids, start, n_clusters, labels, tile);
        if (!changed || i == max_iter) break;
        NAME(fill)(rows, n, d, fits, centroids, n_clusters, labels, memory->counts,
                   memory->apart);
        NAME(means)(rows, n, d, labels, n_clusters, cosine, slack, centroids,
                    memory->counts, memory->sums, memory->block);
    }
    double inertia = 0;
    for (int64_t l = 0; l < n; ++l)
        inertia += NAME(apart)(rows + l * d, centroids + labels[l] * d, d);
    return inertia;
}
