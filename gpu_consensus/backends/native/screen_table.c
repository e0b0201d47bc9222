/* The table of small numbers, and what it is made from: see screen.c. */
#include "native.h"

enum { BLOCK = 16 }; /* restarts whose least entries are found together */

/* the least and the largest entry of a row of one restart */
GPC_INLINE void ends_of(const float* row, int64_t n_clusters, float* low, float* high) {
    if (n_clusters == 1) {
        *low = *high = row[0];
        return;
    }
    float least[4] = {row[0], row[1], row[0], row[1]}, most[4];
    memcpy(most, least, sizeof most);
    int64_t k = 0;
    for (; k + 4 <= n_clusters; k += 4)
        for (int x = 0; x < 4; ++x) {
            least[x] = row[k + x] < least[x] ? row[k + x] : least[x];
            most[x] = row[k + x] > most[x] ? row[k + x] : most[x];
        }
    for (; k < n_clusters; ++k) {
        least[0] = row[k] < least[0] ? row[k] : least[0];
        most[0] = row[k] > most[0] ? row[k] : most[0];
    }
    for (int x = 1; x < 4; ++x) {
        least[0] = least[x] < least[0] ? least[x] : least[0];
        most[0] = most[x] > most[0] ? most[x] : most[0];
    }
    *low = least[0];
    *high = most[0];
}

/* Write for partitions first .. last - 1 and every restart the largest T' (spread) and
   the largest |T| (level), (r, R) each, and the least entry of every row, (S, R). */
GPC_API void gpc_screen_bounds(const float* table, int64_t width,
                               const int64_t* offsets, int64_t n_restarts,
                               int64_t n_clusters, int64_t first, int64_t last,
                               float* spread, float* level, float* lowest) {
    for (int64_t i = first; i < last; ++i)
        for (int64_t q = 0; q < n_restarts; q += BLOCK) {
            const int64_t lanes = gpc_min(BLOCK, n_restarts - q);
            float widest[BLOCK] = {0}, largest[BLOCK] = {0};
            for (int64_t row = offsets[i]; row < offsets[i + 1]; ++row) {
                const float* entry = table + row * width + q;
                float low[BLOCK], high[BLOCK];
                for (int64_t x = 0; x < lanes; ++x) low[x] = high[x] = entry[x];
                if (n_restarts == 1) ends_of(entry, n_clusters, low, high);
                for (int64_t k = 1; k < n_clusters && n_restarts > 1; ++k) {
                    entry += n_restarts;
                    for (int64_t x = 0; x < lanes; ++x) {
                        low[x] = entry[x] < low[x] ? entry[x] : low[x];
                        high[x] = entry[x] > high[x] ? entry[x] : high[x];
                    }
                }
                memcpy(lowest + row * n_restarts + q, low, (size_t)lanes * 4);
                for (int64_t x = 0; x < lanes; ++x) {
                    const float range = high[x] - low[x];
                    const float size = high[x] > -low[x] ? high[x] : -low[x];
                    widest[x] = range > widest[x] ? range : widest[x];
                    largest[x] = size > largest[x] ? size : largest[x];
                }
            }
            memcpy(spread + i * n_restarts + q, widest, (size_t)lanes * 4);
            memcpy(level + i * n_restarts + q, largest, (size_t)lanes * 4);
        }
}

/* the entries of a row above the least of their restart */
GPC_INLINE void above_least(const float* restrict row, const float* restrict low,
                            int64_t n_restarts, int64_t n_clusters, int64_t width,
                            float* restrict above) {
    if (n_restarts == 1) {
        for (int64_t c = 0; c < width; c += GPC_LANES)
            for (int64_t x = c; x < c + GPC_LANES; ++x) above[x] = row[x] - low[0];
    } else {
        for (int64_t k = 0; k < n_clusters; ++k)
            for (int64_t q = 0; q < n_restarts; ++q)
                above[k * n_restarts + q] = row[k * n_restarts + q] - low[q];
    }
}

/* round `width` sums of two entries to numbers of one byte or two */
GPC_INLINE void round_row(const float* restrict above, const float* restrict other,
                          const float* restrict by, int64_t width,
                          const int64_t entry_size, void* target) {
    for (int64_t c = 0; c < width; c += GPC_LANES)
        for (int64_t x = c; x < c + GPC_LANES; ++x) {
            const float rounded = (above[x] + other[x]) * by[x] + 0.5f;
            if (entry_size == 1)
                ((uint8_t*)target)[x] = (uint8_t)(int32_t)rounded;
            else
                ((uint16_t*)target)[x] =
                    (uint16_t)(int32_t)(rounded < 65535.0f ? rounded : 65535.0f);
        }
}

/* Bytes of scratch that gpc_screen_table needs for lookups of at most so many labels in
   their second partition. */
GPC_API int64_t gpc_screen_table_scratch(int64_t width, int64_t most_labels) {
    return 4 * width * (most_labels + 3);
}

/* Write the rows of lookups first .. last - 1 of the table of small numbers (rows,
   small_width), columns k R + q as in the table, of entry_size bytes, one or two.

   low (S, R): as gpc_screen_bounds writes it; parts (L, 2): the partition of a lookup
   and the one that shares it, or -1; rows (L + 1): where its rows begin, the labels of
   the first partition in order and for each of them those of the second; unit (L): e_v;
   scale (width): c of each column. */
GPC_API void gpc_screen_table(const float* table, int64_t width, const int64_t* offsets,
                              const float* low, int64_t n_restarts, int64_t n_clusters,
                              const int64_t* parts, const int64_t* rows,
                              const uint8_t* unit, const float* scale, int64_t first,
                              int64_t last, void* small, int64_t entry_size,
                              int64_t small_width, float* scratch) {
    float *by = scratch, *above = by + width, *others = above + width;
    for (int64_t c = 0; c < width; ++c) above[c] = 0;
    for (int64_t v = first; v < last; ++v) {
        const int64_t i = parts[2 * v], j = parts[2 * v + 1];
        const float finer = 1.0f / (float)(1 << unit[v]);
        for (int64_t c = 0; c < width; ++c) by[c] = scale[c] * finer;
        int64_t pairs = 1;
        if (j >= 0) {
            pairs = offsets[j + 1] - offsets[j];
            memset(others, 0, (size_t)(pairs * width) * 4);
            for (int64_t b = 0; b < pairs; ++b)
                above_least(table + (offsets[j] + b) * width,
                            low + (offsets[j] + b) * n_restarts, n_restarts, n_clusters,
                            width, others + b * width);
        } else {
            memset(others, 0, (size_t)width * 4);
        }
        const int64_t row_bytes = small_width * entry_size;
        uint8_t* target = (uint8_t*)small + rows[v] * row_bytes;
        for (int64_t row = offsets[i]; row < offsets[i + 1]; ++row) {
            above_least(table + row * width, low + row * n_restarts, n_restarts,
                        n_clusters, width, above);
            for (int64_t b = 0; b < pairs; ++b, target += row_bytes) {
                if (entry_size == 1)
                    round_row(above, others + b * width, by, width, 1, target);
                else
                    round_row(above, others + b * width, by, width, 2, target);
                if (small_width > width)
                    memset(target + width * entry_size, 0,
                           (size_t)((small_width - width) * entry_size));
            }
        }
    }
}

/* Write rows first .. last - 1 of a table, restarts apart: (R, S, apart_width), column
   k. Padding is left alone. */
GPC_API void gpc_screen_apart(const float* table, int64_t width, int64_t n_rows,
                              int64_t n_restarts, int64_t n_clusters, int64_t first,
                              int64_t last, float* apart, int64_t apart_width) {
    for (int64_t row = first; row < last; ++row)
        for (int64_t q = 0; q < n_restarts; ++q) {
            const float* from = table + row * width + q;
            float* to = apart + (q * n_rows + row) * apart_width;
            for (int64_t k = 0; k < n_clusters; ++k) to[k] = from[k * n_restarts];
        }
}
