/* Put every object where its score is lowest: sums in float32, ties to the lowest k. */
#include "native.h"

#define SUM_NAME float_u8
#define SUM_NUMBER float
#define SUM_VECTOR gpc_floats
#define SUM_CODE uint8_t
#include "sum_rows.h"

#define SUM_NAME float_u16
#define SUM_NUMBER float
#define SUM_VECTOR gpc_floats
#define SUM_CODE uint16_t
#include "sum_rows.h"

enum {
    LANES = GPC_VECTOR / 4,
    LOOK = 64,  /* objects that tell whether labels are missing */
    SPARSE = 2, /* labels to one that is present, from which on missing ones pay */
    LONGEST = 2048 /* objects of a tile */
};

static void sum_tile(const gpc_labels* labels, const float* table, int64_t width,
                     int64_t size, float* sums) {
    if (labels->code_size == 1)
        float_u8_tile(labels->codes, labels->stride, labels->offsets,
                      labels->n_partitions, table, width, size, sums);
    else
        float_u16_tile(labels->codes, labels->stride, labels->offsets,
                       labels->n_partitions, table, width, size, sums);
}

/* Whether most of the labels are missing, by a look at the first objects of a tile. */
static int is_sparse(const gpc_labels* labels, int64_t size) {
    const int64_t looked = gpc_min(LOOK, size);
    int64_t present = 0;
    for (int64_t i = 0; i < labels->n_partitions; ++i) {
        const void* line = gpc_codes_at(labels->codes, labels->code_size,
                                        i * labels->stride);
        const int64_t missing = labels->offsets[i + 1] - labels->offsets[i] - 1;
        for (int64_t t = 0; t < looked; ++t)
            present += gpc_code(line, labels->code_size, t) != missing;
    }
    return SPARSE * present < looked * labels->n_partitions;
}

/* Whether the rows of missing labels are 0: then they need not be added. */
static int adds_nothing(const gpc_labels* labels, const float* table, int64_t width) {
    int differ = 0;
    for (int64_t i = 0; table && i < labels->n_partitions; ++i) {
        const float* row = table + (labels->offsets[i + 1] - 1) * width;
        for (int64_t c = 0; c < width; ++c) differ |= row[c] != 0.0f;
    }
    return !differ;
}

GPC_INLINE void add_row(const float* row, int64_t width, float* sum) {
    for (int64_t c = 0; c < width; c += LANES)
        *(gpc_floats*)(sum + c) += *(const gpc_floats*)(row + c);
}

/* As sum_tile for labels of which most are missing, and for two tables at once: the
   objects that a partition labels are listed, and only their rows are added. */
GPC_INLINE void sum_listed(const gpc_labels* labels, const int64_t code_size,
                           const gpc_scoring* scoring, int64_t size, float* sums,
                           float* factors, uint16_t* list) {
    const int64_t width = scoring->width;
    for (int64_t i = 0; i < labels->n_partitions; ++i) {
        const void* line = gpc_codes_at(labels->codes, code_size, i * labels->stride);
        const int64_t missing = labels->offsets[i + 1] - labels->offsets[i] - 1;
        const int64_t top = labels->offsets[i] * width;
        int64_t present = 0;
        for (int64_t t = 0; t < size; ++t) {
            list[present] = (uint16_t)t;
            present += gpc_code(line, code_size, t) != missing;
        }
        for (int64_t x = 0; x < present; ++x) {
            const int64_t t = list[x];
            const int64_t row = top + gpc_code(line, code_size, t) * width;
            add_row(scoring->table + row, width, sums + t * width);
            if (factors)
                add_row(scoring->row_table + row, width, factors + t * width);
        }
    }
}

static void sum_sparse_tile(const gpc_labels* labels, const gpc_scoring* scoring,
                            int64_t size, float* sums, float* factors, uint16_t* list) {
    const size_t bytes = (size_t)(size * scoring->width) * sizeof(float);
    memset(sums, 0, bytes);
    if (!scoring->row_table) factors = NULL;
    if (factors) memset(factors, 0, bytes);
    if (labels->code_size == 1)
        sum_listed(labels, 1, scoring, size, sums, factors, list);
    else
        sum_listed(labels, 2, scoring, size, sums, factors, list);
}

/* one multiplication and one addition for every score, never fused */
static void add_row_term(const gpc_scoring* scoring, int64_t size, int64_t first,
                         float* scores, const float* factors) {
    const int64_t width = scoring->width;
    for (int64_t t = 0; t < size; ++t) {
        const float weight = scoring->row_weight[first + t];
        const float* factor =
            scoring->row_table ? factors + t * width : scoring->row_sum;
        float* score = scores + t * width;
        for (int64_t c = 0; c < width; ++c) score[c] += weight * factor[c];
    }
}

GPC_INLINE gpc_floats pick(gpc_ints mask, gpc_floats a, gpc_floats b) {
    return (gpc_floats)((mask & (gpc_ints)a) | (~mask & (gpc_ints)b));
}

/* Write the cluster of one object, its score and the distance to the next one, for a
   vector of restarts from q on. */
GPC_INLINE void lowest_by_restart(const gpc_scoring* scoring, const float* score,
                                  int64_t q, int64_t l) {
    const int64_t n_restarts = scoring->n_restarts;
    gpc_floats low = *(const gpc_floats*)(score + q);
    gpc_floats second = (gpc_floats){0} + __builtin_inff();
    gpc_ints winner = {0};
    const float* column = score + q;
    for (int32_t k = 1; k < (int32_t)scoring->n_clusters; ++k) {
        column += n_restarts;
        const gpc_floats here = *(const gpc_floats*)column;
        const gpc_ints less = (gpc_ints)(here < low);
        second = pick(less, low, pick((gpc_ints)(here < second), here, second));
        low = pick(less, here, low);
        winner = (less & ((gpc_ints){0} + k)) | (~less & winner);
    }
    const int64_t lanes = gpc_min(LANES, n_restarts - q);
    const int64_t bytes = scoring->cluster_size;
    for (int64_t x = 0; x < lanes; ++x) {
        const int64_t at = (q + x) * scoring->line + l;
        gpc_set_cluster(scoring->assignment, bytes, at, winner[x]);
        if (scoring->best) scoring->best[at] = low[x];
        if (scoring->gap) scoring->gap[at] = second[x] - low[x];
    }
}

/* A float and a cluster as one integer that orders as they do: -0 and 0 are equal. */
GPC_INLINE int64_t key_of(float score, int64_t k) {
    int32_t bits;
    score += 0.0f;
    memcpy(&bits, &score, 4);
    bits ^= (bits >> 31) & 0x7fffffff;
    return (int64_t)((uint64_t)(uint32_t)bits << 32) + k;
}

GPC_INLINE float score_of(int64_t key) {
    int32_t bits = (int32_t)(key >> 32);
    float score;
    bits ^= (bits >> 31) & 0x7fffffff;
    memcpy(&score, &bits, 4);
    return score;
}

GPC_INLINE void lowest_of_one(const gpc_scoring* scoring, const float* score,
                              int64_t l) {
    int64_t low = key_of(score[0], 0), second = INT64_MAX;
    if (scoring->gap) {
        for (int64_t k = 1; k < scoring->n_clusters; ++k) {
            const int64_t key = key_of(score[k], k);
            second = gpc_min(second, gpc_max(low, key));
            low = gpc_min(low, key);
        }
        scoring->gap[l] =
            second == INT64_MAX ? __builtin_inff() : score_of(second) - score_of(low);
    } else {
        for (int64_t k = 1; k < scoring->n_clusters; ++k)
            low = gpc_min(low, key_of(score[k], k));
    }
    const int64_t winner = low & 0xffffffff;
    gpc_set_cluster(scoring->assignment, scoring->cluster_size, l, winner);
    if (scoring->best) scoring->best[l] = score[winner];
}

/* the score of an object for the cluster that it is in */
static void place_own(const gpc_scoring* scoring, int64_t size, int64_t first,
                      float* scores) {
    for (int64_t q = 0; q < scoring->n_restarts; ++q) {
        const int64_t line = q * scoring->line;
        for (int64_t t = 0; t < size; ++t) {
            const int64_t at = line + first + t;
            const int64_t k = gpc_cluster(scoring->own, scoring->cluster_size, at);
            if (k < scoring->n_clusters)
                scores[t * scoring->width + k * scoring->n_restarts + q] =
                    scoring->price[at];
        }
    }
}

static void assign_tile(const gpc_labels* labels, const gpc_scoring* scoring,
                        int may_skip, int64_t size, int64_t first, float* scratch,
                        uint16_t* list) {
    const int64_t width = scoring->width;
    float* factors = scratch + (size + 1) * width;
    if (may_skip && is_sparse(labels, size)) {
        sum_sparse_tile(labels, scoring, size, scratch, factors, list);
    } else {
        sum_tile(labels, scoring->table, width, size, scratch);
        if (scoring->row_table)
            sum_tile(labels, scoring->row_table, width, size, factors);
    }
    if (scoring->row_weight) add_row_term(scoring, size, first, scratch, factors);
    if (scoring->own) place_own(scoring, size, first, scratch);
    if (scoring->n_restarts == 1) {
        for (int64_t t = 0; t < size; ++t)
            lowest_of_one(scoring, scratch + t * width, first + t);
        return;
    }
    for (int64_t t = 0; t < size; ++t)
        for (int64_t q = 0; q < scoring->n_restarts; q += LANES)
            lowest_by_restart(scoring, scratch + t * width, q, first + t);
}

static int64_t tile_of(int64_t width, int64_t n_rows) {
    return gpc_tile(width * 4, n_rows * width * 4);
}

/* Bytes of scratch that gpc_assign needs. */
GPC_API int64_t gpc_assign_scratch(int64_t width, int64_t n_rows) {
    return 8 * (tile_of(width, n_rows) + 1) * width + 2 * LONGEST;
}

/* Assign objects begin .. end - 1.

   row_table (as table) or row_sum (width) may be given, and row_weight (n) then; best
   and gap (R, n) may be NULL; own and price (R, n) are both given or both NULL. */
GPC_API void gpc_assign(const void* codes, int64_t code_size, int64_t stride,
                        const int64_t* offsets, int64_t n_partitions,
                        const float* table, int64_t width, const float* row_table,
                        const float* row_sum, const float* row_weight,
                        int64_t n_restarts, int64_t n_clusters, int64_t begin,
                        int64_t end, void* assignment, int64_t cluster_size,
                        int64_t line, float* best, float* gap, const void* own,
                        const float* price, float* scratch) {
    const gpc_scoring scoring = {
        table,      row_table,    row_sum, row_weight, width, n_restarts, n_clusters,
        assignment, cluster_size, line,    best,       gap,   own,        price};
    gpc_labels labels = {codes, code_size, stride, offsets, n_partitions};
    const int64_t tile = tile_of(width, offsets[n_partitions]);
    const int may_skip = adds_nothing(&labels, table, width) &&
                         adds_nothing(&labels, row_table, width);
    uint16_t* list = (uint16_t*)(void*)(scratch + 2 * (tile + 1) * width);
    for (int64_t first = begin; first < end; first += tile) {
        labels.codes = gpc_codes_at(codes, code_size, first);
        assign_tile(&labels, &scoring, may_skip, gpc_min(tile, end - first), first,
                    scratch, list);
    }
}

/* Add up the entries of each object's own cluster, in partition order: price (R, n),
   minus infinity for objects that are not counted. */
GPC_API void gpc_own_scores(const void* codes, int64_t code_size, int64_t stride,
                            const int64_t* offsets, int64_t n_partitions,
                            const float* stay, int64_t width, int64_t n_restarts,
                            int64_t n_clusters, int64_t begin, int64_t end,
                            const void* own, int64_t cluster_size, int64_t line,
                            float* price) {
    for (int64_t q = 0; q < n_restarts; ++q) {
        float* sums = price + q * line;
        for (int64_t l = begin; l < end; ++l) sums[l] = 0.0f;
        for (int64_t i = 0; i < n_partitions; ++i) {
            const void* labels = gpc_codes_at(codes, code_size, i * stride);
            const float* rows = stay + offsets[i] * width + q;
            for (int64_t l = begin; l < end; ++l) {
                const int64_t k = gpc_cluster(own, cluster_size, q * line + l);
                if (k < n_clusters)
                    sums[l] +=
                        rows[gpc_code(labels, code_size, l) * width + k * n_restarts];
            }
        }
        for (int64_t l = begin; l < end; ++l)
            if (gpc_cluster(own, cluster_size, q * line + l) >= n_clusters)
                sums[l] = -__builtin_inff();
    }
}
