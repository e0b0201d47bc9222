/* Screening, exact: most objects are decided by sums of small whole numbers, a quarter
   of the bytes of float32 or a half. Where they leave a doubt, it is settled in float32
   as `assign` does: see doubts.h.

   A table of small numbers has entries t = T' / unit, rounded. In 8 bits each of its
   lookups has a unit of its own, a power of two times that of the restart: the unit
   grows with the largest T' of a partition, so that all 8 bits are used. Whole numbers
   may be added in any order: lookups with the largest units come first, and their sums
   are shifted up when the unit falls. In 16 bits all units are 1, and entries and sums
   stay at 65535 once they reach it: the unit is as fine as the sums of winners allow,
   not those of any cluster, and tens of times fewer objects than in 8 are left in
   doubt. Two partitions of few labels share one lookup, whose rows are the pairs of
   their labels.

   The bound
   ---------
   The float32 code compares s_k, the sum over partitions of T_ik in float32, where T_ik
   is the entry of the table for cluster k at the object's label in partition i. Write
   S_k for the same sum without rounding. All below is for one restart.

   1. Float sums. With u = 2^-24, |s_k - S_k| <= B where
      B = (r - 1) u / (1 - (r - 1) u) * sum_i max |T_i|, the largest entry of partition
      i over its labels and clusters. (No sum is subnormal, see the Protocol.)
   2. Least entries. Let m_i be the least entry over k at the object's label. T'_ik =
      T_ik - m_i >= 0, and S_k - S_h = S'_k - S'_h: what is subtracted does not depend
      on k.
   3. Rounding. Lookup v has a partition or two and the unit 2^e_v, a whole number:
      t_vk = trunc(fl(fl(c_v fl(fl(T_ik - m_i) + fl(T_jk - m_j))) + 1/2)) with
      c_v = c 2^-e_v, exact in float32. Before truncation at most four operations err by
      a factor of 1 +- u each, and c_v T'_vk < 255, so that
      |2^e_v t_vk - c T'_vk| <= 2^e_v (1/2 + d) with d = 5 u 256 < 0.0001. In 16 bits
      numbers above 65535 become 65535; of others d = 5 u 65536 < 0.02.
   4. No overflow. Let M_v be the largest T'_v over labels and clusters, for two
      partitions the sum of theirs. In 8 bits e_v is such that c_v M_v <= 254, and
      t_vk <= 255. With E = sum_v 2^e_v and c sum_v M_v + (1/2 + d) E <= 65535, any sum
      over v of 2^e_v t_vk fits 16 bits, and so does any part of it: sums are those of
      whole numbers. (A shift of sums of lookups with larger units is such a part.)
   5. So t_k, the sum of 2^e_v t_vk, obeys |t_k - c S'_k| <= (1/2 + d) E. In 16 bits a
      sum below 65535 has no entry that was cut, and the same holds of it; any other is
      too small at most: t_k - c S'_k <= (1/2 + d) E.
   6. Let h have the lowest t, and let k have t_k - t_h >= D > (1 + 2 d) E + 2 c B. Then
      t_h < 65535, c (S_k - S_h) >= D - (1 + 2 d) E > 2 c B: S_k - S_h > 2 B, hence
      s_k > s_h by 1.: k is not the winner, nor a tie. Who is left, all k with
      t_k - t_h < D, holds the winner and its ties; where that is h alone, it is h.

   Two values. Where all entries of a restart are 0 or one v > 0, as in tables of votes
   and of single objects, s_k is v added m_k times, whatever the places of the zeros:
   x + 0 = x. As long as m < 2^23 it grows with m, so that the order of the m_k is that
   of the s_k, ties included. Entries of c v = 64, or less for many partitions, then
   make t_k = c v m_k without any rounding: D = 0, and of equal sums the lowest k wins
   as in float32. All restarts must be of that kind.

   D is made in float64 and rounded up. Where r > 4096, or c or D is out of range,
   nothing is screened. Scores with a row term, and calls that ask for scores or gaps,
   take float32. */
#include "doubts.h"
#include "native.h"

#if defined(__SSE4_1__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

/* bytes as words, in one instruction: compilers take several for a conversion */
GPC_INLINE gpc_words load_words(const uint8_t* place) {
#if GPC_VECTOR == 64
    return (gpc_words)_mm512_cvtepu8_epi16(_mm256_loadu_si256((const void*)place));
#elif GPC_VECTOR == 32
    return (gpc_words)_mm256_cvtepu8_epi16(_mm_loadu_si128((const void*)place));
#elif defined(__SSE4_1__)
    return (gpc_words)_mm_cvtepu8_epi16(_mm_loadl_epi64((const void*)place));
#elif defined(__ARM_NEON)
    return (gpc_words)vmovl_u8(vld1_u8(place));
#else
    gpc_words found;
    for (int x = 0; x < GPC_VECTOR / 2; ++x) found[x] = place[x];
    return found;
#endif
}

GPC_INLINE gpc_words same_words(const uint16_t* place) {
    return *(const gpc_words*)place;
}

/* sums that stay at 65535 */
GPC_INLINE gpc_words add_up(gpc_words a, gpc_words b) {
#if GPC_VECTOR == 64
    return (gpc_words)_mm512_adds_epu16((__m512i)a, (__m512i)b);
#elif GPC_VECTOR == 32
    return (gpc_words)_mm256_adds_epu16((__m256i)a, (__m256i)b);
#elif defined(__SSE4_1__)
    return (gpc_words)_mm_adds_epu16((__m128i)a, (__m128i)b);
#elif defined(__ARM_NEON)
    return (gpc_words)vqaddq_u16((uint16x8_t)a, (uint16x8_t)b);
#else
    const gpc_words sum = a + b;
    return sum | (gpc_words)(sum < a);
#endif
}

#define SUM_NAME byte
#define SUM_NUMBER uint16_t
#define SUM_VECTOR gpc_words
#define SUM_ENTRY uint8_t
#define SUM_LOAD load_words
#define SUM_CODE uint16_t
#include "sum_rows.h"

#define SUM_NAME word
#define SUM_NUMBER uint16_t
#define SUM_VECTOR gpc_words
#define SUM_ENTRY uint16_t
#define SUM_LOAD same_words
#define SUM_ADD add_up
#define SUM_CODE uint16_t
#include "sum_rows.h"

enum {
    GROUP = 32 /* lookups at most that are added together */
};

/* a vector of restarts whose sums are compared at once */
#if GPC_VECTOR >= 32
typedef GPC_VECTOR_OF(uint16_t, 32) words;
GPC_INLINE words lower(words a, words b) {
    return (words)_mm256_min_epu16((__m256i)a, (__m256i)b);
}
GPC_INLINE words higher(words a, words b) {
    return (words)_mm256_max_epu16((__m256i)a, (__m256i)b);
}
#else
typedef GPC_VECTOR_OF(uint16_t, 16) words;
#if defined(__SSE4_1__)
GPC_INLINE words lower(words a, words b) {
    return (words)_mm_min_epu16((__m128i)a, (__m128i)b);
}
GPC_INLINE words higher(words a, words b) {
    return (words)_mm_max_epu16((__m128i)a, (__m128i)b);
}
#else
GPC_INLINE words lower(words a, words b) {
    const words less = (words)(a < b);
    return (less & a) | (~less & b);
}
GPC_INLINE words higher(words a, words b) {
    const words less = (words)(a < b);
    return (less & b) | (~less & a);
}
#endif
#endif
enum { LANES = sizeof(words) / 2 };

/* A table of small numbers: see gpc_assign_screened. */
typedef struct {
    const void* small;
    int64_t entry_size, width;
    const int64_t *parts, *rows;
    const uint8_t* raise;
    int64_t number;
} gpc_lookups;

GPC_INLINE int any_of(words mask) {
    uint64_t parts[sizeof mask / 8], any = 0;
    memcpy(parts, &mask, sizeof mask);
    for (size_t x = 0; x < sizeof mask / 8; ++x) any |= parts[x];
    return any != 0;
}

/* Write the clusters of objects from l on in a vector of restarts from q on, and note
   those in doubt. */
GPC_INLINE void decide_restarts(const gpc_scoring* scoring, const int64_t cluster_size,
                                const uint16_t* sums, int64_t small_width,
                                const uint16_t* distance, int64_t q, int64_t l,
                                int64_t size, doubts* list) {
    const int64_t n_restarts = scoring->n_restarts, n_clusters = scoring->n_clusters;
    const int64_t lanes = gpc_min(LANES, n_restarts - q);
    uint16_t margins[LANES] = {0}, winners[LANES], lows[LANES];
    memcpy(margins, distance + q, (size_t)lanes * 2);
    const words margin = *(const words*)margins;
    for (int64_t t = 0; t < size; ++t) {
        const uint16_t* column = sums + t * small_width + q;
        words low = *(const words*)column;
        words second = (words){0} + (uint16_t)65535, winner = {0}, name = {0};
        for (int64_t k = 1; k < n_clusters; ++k) {
            column += n_restarts;
            name += 1;
            const words here = *(const words*)column;
            const words best = lower(low, here);
            second = lower(second, higher(here, low));
            const words same = (words)(best == low);
            winner = (same & winner) | (~same & name);
            low = best;
        }
        *(words*)winners = winner;
        for (int64_t x = 0; x < lanes; ++x)
            gpc_set_cluster(scoring->assignment, cluster_size,
                            (q + x) * scoring->line + l + t, winners[x]);
        const words gap = second - low;
        const words doubt = (words)(gap < margin);
        if (__builtin_expect(!any_of(doubt), 1)) continue;
        *(words*)winners = doubt;
        *(words*)lows = low;
        for (int64_t x = 0; x < lanes; ++x)
            if (winners[x])
                note(list, sums + t * small_width, q + x, l + t, lows[x], margins[x]);
    }
}

/* The same for one restart, whose sums are neighbours. `padding` has all bits in the
   lanes behind the last cluster of a row, and none in others. */
#if defined(__SSE4_1__)
GPC_INLINE void decide_one(const gpc_scoring* scoring, const uint16_t* sums,
                           int32_t distance, const uint16_t* padding, int64_t l,
                           doubts* list) {
    const int64_t n_clusters = scoring->n_clusters;
    __m128i least = _mm_set1_epi16(-1);
    for (int64_t k = 0; k < n_clusters; k += 8) {
        __m128i here = _mm_loadu_si128((const __m128i*)(sums + k));
        if (k + 8 > n_clusters)
            here = _mm_or_si128(here, _mm_loadu_si128((const __m128i*)padding));
        least = _mm_min_epu16(least, here);
    }
    const int32_t low = _mm_cvtsi128_si32(_mm_minpos_epu16(least)) & 0xffff;
    const int32_t reach = low + (distance ? distance - 1 : 0);
    const int32_t limit = reach > 65535 ? 65535 : reach;
    const __m128i most = _mm_set1_epi16((int16_t)limit);
    int64_t winner = n_clusters, near = 0;
    for (int64_t k = 0; k < n_clusters; k += 8) {
        __m128i here = _mm_loadu_si128((const __m128i*)(sums + k));
        if (k + 8 > n_clusters)
            here = _mm_or_si128(here, _mm_loadu_si128((const __m128i*)padding));
        const __m128i close = _mm_cmpeq_epi16(_mm_min_epu16(here, most), here);
        const unsigned mask = (unsigned)_mm_movemask_epi8(close);
        near += __builtin_popcount(mask); /* two bits for each */
        if (mask) winner = gpc_min(winner, k + (__builtin_ctz(mask) >> 1));
    }
    gpc_set_cluster(scoring->assignment, scoring->cluster_size, l, winner);
    if (distance && near != 2) note(list, sums, 0, l, low, distance);
}
#else
GPC_INLINE void decide_one(const gpc_scoring* scoring, const uint16_t* sums,
                           int32_t distance, const uint16_t* padding, int64_t l,
                           doubts* list) {
    (void)padding;
    int32_t low = INT32_MAX, second = INT32_MAX;
    for (int32_t k = 0; k < (int32_t)scoring->n_clusters; ++k) {
        const int32_t key = (int32_t)sums[k] * 32768 + k;
        const int32_t higher_key = key > low ? key : low;
        second = second < higher_key ? second : higher_key;
        low = low < key ? low : key;
    }
    gpc_set_cluster(scoring->assignment, scoring->cluster_size, l, low & 0x7fff);
    if ((second >> 15) - (low >> 15) < distance)
        note(list, sums, 0, l, low >> 15, distance);
}
#endif

/* Write where the objects of a tile look up, in steps of GPC_STEP bytes from the first
   row of a lookup on; `times` steps are a row. */
GPC_INLINE void look_up(const gpc_labels* labels, const int64_t code_size,
                        const int64_t* parts, int64_t size, uint16_t times,
                        uint16_t* looked) {
    const int64_t i = parts[0], j = parts[1];
    const void* line = gpc_codes_at(labels->codes, code_size, i * labels->stride);
    if (j < 0) {
        for (int64_t t = 0; t < size; ++t)
            looked[t] = (uint16_t)(gpc_code(line, code_size, t) * times);
        return;
    }
    const void* other = gpc_codes_at(labels->codes, code_size, j * labels->stride);
    const uint16_t pairs = (uint16_t)(labels->offsets[j + 1] - labels->offsets[j]);
    for (int64_t t = 0; t < size; ++t)
        looked[t] = (uint16_t)((gpc_code(line, code_size, t) * pairs +
                                gpc_code(other, code_size, t)) *
                               times);
}

/* ask for the labels of a lookup early */
GPC_INLINE void prefetch(const gpc_labels* labels, const int64_t* parts, int64_t size) {
    for (int side = 0; side < 2 && parts[side] >= 0; ++side) {
        const char* line = gpc_codes_at(labels->codes, labels->code_size,
                                        parts[side] * labels->stride);
        for (int64_t at = 0; at < size * labels->code_size; at += 64)
            __builtin_prefetch(line + at);
    }
}

/* sums (size, width) of `size` objects over all lookups, a group at a time */
static void sum_tile(const gpc_labels* labels, const gpc_lookups* lookups, int64_t size,
                     uint16_t* looked, int64_t stride, uint16_t* sums) {
    const int64_t width = lookups->width, n_lookups = lookups->number;
    const int64_t row_bytes = width * lookups->entry_size;
    const uint16_t times = (uint16_t)(row_bytes / GPC_STEP);
    for (int64_t first = 0, last; first < n_lookups; first = last) {
        last = gpc_group_end(lookups->rows, first, n_lookups, row_bytes);
        last = gpc_min(last, first + GROUP);
        for (int64_t v = first; v < last; ++v) {
            if (v > first && lookups->raise[v]) last = v;
            if (v >= last) break;
            if (v + 1 < n_lookups) prefetch(labels, lookups->parts + 2 * v + 2, size);
            uint16_t* line = looked + (v - first) * stride;
            if (labels->code_size == 1)
                look_up(labels, 1, lookups->parts + 2 * v, size, times, line);
            else
                look_up(labels, 2, lookups->parts + 2 * v, size, times, line);
        }
        const int up = first ? lookups->raise[first] : -1;
        const uint16_t* from = looked - first * stride;
        if (lookups->entry_size == 1)
            byte_group(from, stride, lookups->rows, first, last, up, lookups->small,
                       width, size, sums);
        else
            word_group(from, stride, lookups->rows, first, last, up, lookups->small,
                       width, size, sums);
    }
}

static int64_t tile_of(int64_t entry_size, int64_t small_width, int64_t n_rows) {
    return gpc_tile(small_width * 2, n_rows * small_width * entry_size);
}

/* Bytes of scratch that gpc_assign_screened needs; n_rows are those of small numbers.
 */
GPC_API int64_t gpc_screen_scratch(int64_t code_size, int64_t n_partitions,
                                   int64_t width, int64_t entry_size,
                                   int64_t small_width, int64_t n_rows,
                                   int64_t n_table_rows, int64_t apart_width,
                                   int64_t n_restarts, int64_t n_clusters) {
    const int64_t tile = tile_of(entry_size, small_width, n_rows);
    const int64_t sums = (tile + 1) * small_width * 2 + 2 * GROUP * (tile + 32);
    const int64_t doubts = doubts_scratch(code_size, n_partitions, n_table_rows,
                                          apart_width, n_restarts, n_clusters);
    return gpc_max(sums + doubts + 64, gpc_assign_scratch(width, n_table_rows));
}

/* As gpc_assign for objects begin .. end - 1, by a table of small numbers.

   apart (R, S, apart_width): the table, restarts apart, which objects in doubt are
   assigned by; or NULL: then their clusters in doubt are summed. small, entry_size,
   small_width, parts, rows: as gpc_screen_table has them; raise (L): e_v of the lookup
   before less this one; distance (R): D; K <= 32767 and D <= 65535. Adds to found[0]
   how many objects were screened, and to found[1] how many restarts of theirs, or
   clusters, were in doubt. Where these are too many, more than `bearable` for an
   object, the rest is assigned in float32. */
GPC_API void gpc_assign_screened(
    const void* codes, int64_t code_size, int64_t stride, const int64_t* offsets,
    int64_t n_partitions, const float* table, int64_t width, const float* apart,
    int64_t apart_width, const void* small, int64_t entry_size, int64_t small_width,
    const int64_t* parts, const int64_t* rows, const uint8_t* raise, int64_t n_lookups,
    const uint16_t* distance, double bearable, int64_t n_restarts, int64_t n_clusters,
    int64_t begin, int64_t end, void* assignment, int64_t cluster_size, int64_t line,
    int64_t* found, void* scratch) {
    const gpc_scoring scoring = {
        table,      NULL,         NULL, NULL, width, n_restarts, n_clusters,
        assignment, cluster_size, line, NULL, NULL,  NULL,       NULL};
    const gpc_labels labels = {codes, code_size, stride, offsets, n_partitions};
    const gpc_lookups lookups = {small, entry_size, small_width, parts,
                                 rows,  raise,      n_lookups};
    const int64_t tile = tile_of(entry_size, small_width, rows[n_lookups]);
    uint16_t *sums = scratch, *looked = sums + (tile + 1) * small_width;
    char* after = (char*)(looked + GROUP * (tile + 32));
    doubts list = begin_doubts(&labels, &scoring, apart, apart_width, begin, after);
    uint16_t padding[8];
    for (int x = 0; x < 8; ++x) padding[x] = x < (n_clusters - 1) % 8 + 1 ? 0 : 0xffff;
    int64_t done = begin;
    int bears = 1;
    while (done < end && bears) {
        const int64_t size = gpc_min(tile, end - done);
        gpc_labels here = labels;
        here.codes = gpc_codes_at(codes, code_size, done);
        sum_tile(&here, &lookups, size, looked, tile + 32, sums);
        if (n_restarts == 1)
            for (int64_t t = 0; t < size; ++t)
                decide_one(&scoring, sums + t * small_width, distance[0], padding,
                           done + t, &list);
        else
            for (int64_t q = 0; q < n_restarts; q += LANES)
                if (cluster_size == 1)
                    decide_restarts(&scoring, 1, sums, small_width, distance, q, done,
                                    size, &list);
                else
                    decide_restarts(&scoring, cluster_size, sums, small_width, distance,
                                    q, done, size, &list);
        keep_labels(&list);
        done += size;
        bears = (double)list.total <
                bearable * (double)(done - begin) + 2.0 * (double)DOUBTS;
    }
    settle_all(&list);
    found[0] += done - begin;
    found[1] += list.total;
    if (done < end)
        gpc_assign(codes, code_size, stride, offsets, n_partitions, table, width, NULL,
                   NULL, NULL, n_restarts, n_clusters, done, end, assignment,
                   cluster_size, line, NULL, NULL, NULL, NULL, scratch);
}
