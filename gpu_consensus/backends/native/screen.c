/* Screening, exact: most objects are decided by sums of 16-bit numbers, which are half
   as many bytes as float32; the others are assigned by the float32 code.

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
   3. Rounding. t_ik = trunc(fl(fl(c fl(T_ik - m_i)) + 1/2)) with a float32 number c.
      Before truncation three operations err by a factor of at most 1 +- u each, so that
      |t_ik - c T'_ik| <= 1/2 + 4 u (c T'_ik + 1).
   4. No overflow. Let M_i be the largest fl(T_ik - m_i) over labels and clusters. With
      c <= (65534 - r/2) / sum_i M_i, where the division errs by far less than what
   65534 leaves to 65535, any sum over i of t_ik is at most 65535: sums of 16-bit
   numbers are sums of whole numbers.
   5. So t_k, the sum of t_ik, obeys |t_k - c S'_k| <= r/2 + e with
      e = 4 u (65535 + r) < 0.02 for r <= 4096.
   6. Let h have the lowest t and let every other k have t_k - t_h >= D. Then
      c (S_k - S_h) >= D - r - 2 e, and with D > r + 2 e + 2 c B it is more than 2 c B:
      S_k - S_h > 2 B, hence s_k > s_h by 1. for every k but h. The winner is h, without
      a tie.

   Where the second lowest t is not D above the lowest the object is undecided, whatever
   its order; it pays the float32 code and nothing is lost but time. D is made in
   float64 and rounded up. Where r > 4096, or c or D is out of range, nothing is
   screened. Scores with a row term, and calls that ask for scores or gaps, take
   float32. */
#include "native.h"

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

/* Sums begin with -32768, so that comparisons with a sign order them. */
#define SUM_NAME word_u8
#define SUM_NUMBER uint16_t
#define SUM_VECTOR gpc_words
#define SUM_CODE uint8_t
#define SUM_START 0x8000
#include "sum_rows.h"

#define SUM_NAME word_u16
#define SUM_NUMBER uint16_t
#define SUM_VECTOR gpc_words
#define SUM_CODE uint16_t
#define SUM_START 0x8000
#include "sum_rows.h"

#if GPC_VECTOR > 32
#define SUM_NAME half_u8
#define SUM_NUMBER uint16_t
#define SUM_VECTOR gpc_half_words
#define SUM_CODE uint8_t
#define SUM_START 0x8000
#include "sum_rows.h"

#define SUM_NAME half_u16
#define SUM_NUMBER uint16_t
#define SUM_VECTOR gpc_half_words
#define SUM_CODE uint16_t
#define SUM_START 0x8000
#include "sum_rows.h"
#endif

enum {
    PENDING = 256, /* undecided objects that are assigned together */
    EARLY = 1024,  /* after so many objects the share of undecided ones is judged */
    BLOCK = 16     /* restarts whose least entries are found together */
};

static void sum_tile(const gpc_labels* labels, const uint16_t* small, int64_t width,
                     int64_t size, uint16_t* sums) {
#define SUM_WITH(name)                                                                \
    name(labels->codes, labels->stride, labels->offsets, labels->n_partitions, small, \
         width, size, sums)
#if GPC_VECTOR > 32
    if (width % 32) {
        if (labels->code_size == 1)
            SUM_WITH(half_u8_tile);
        else
            SUM_WITH(half_u16_tile);
        return;
    }
#endif
    if (labels->code_size == 1)
        SUM_WITH(word_u8_tile);
    else
        SUM_WITH(word_u16_tile);
#undef SUM_WITH
}

/* A float as an integer of the same order, so that compilers find the least of a row
   with vectors; and back. */
GPC_INLINE int32_t order_of(float x) {
    int32_t bits;
    memcpy(&bits, &x, 4);
    return bits ^ ((bits >> 31) & 0x7fffffff);
}

GPC_INLINE float float_of(int32_t order) {
    const int32_t bits = order ^ ((order >> 31) & 0x7fffffff);
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

/* the least and the largest entry of a row of one restart */
GPC_INLINE void ends_of(const float* row, int64_t n_clusters, float* low, float* high) {
    int32_t least = order_of(row[0]), most = least;
    for (int64_t k = 1; k < n_clusters; ++k) {
        const int32_t here = order_of(row[k]);
        least = here < least ? here : least;
        most = here > most ? here : most;
    }
    *low = float_of(least);
    *high = float_of(most);
}

/* Write for partitions first .. last - 1 and every restart the largest T' (spread) and
   the largest |T| (level), (r, R) each. */
GPC_API void gpc_screen_bounds(const float* table, int64_t width,
                               const int64_t* offsets, int64_t n_restarts,
                               int64_t n_clusters, int64_t first, int64_t last,
                               float* spread, float* level) {
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

/* Write rows first .. last - 1 of the table in 16 bits (S, small_width): column k R + q
   as in the table, c of each restart in scale. */
GPC_API void gpc_screen_table(const float* table, int64_t width, int64_t n_restarts,
                              int64_t n_clusters, const float* scale, int64_t first,
                              int64_t last, uint16_t* small, int64_t small_width) {
    const int64_t columns = n_restarts * n_clusters;
    for (int64_t row = first; row < last; ++row) {
        const float* source = table + row * width;
        uint16_t* target = small + row * small_width;
        memset(target + columns, 0, (size_t)(small_width - columns) * 2);
        if (n_restarts == 1) {
            float low, high;
            ends_of(source, n_clusters, &low, &high);
            for (int64_t k = 0; k < n_clusters; ++k)
                target[k] = (uint16_t)(int32_t)((source[k] - low) * scale[0] + 0.5f);
            continue;
        }
        for (int64_t q = 0; q < n_restarts; q += BLOCK) {
            const int64_t lanes = gpc_min(BLOCK, n_restarts - q);
            float low[BLOCK], by[BLOCK];
            for (int64_t x = 0; x < lanes; ++x) {
                low[x] = source[q + x];
                by[x] = scale[q + x];
            }
            for (int64_t k = 1; k < n_clusters; ++k)
                for (int64_t x = 0; x < lanes; ++x) {
                    const float entry = source[k * n_restarts + q + x];
                    low[x] = entry < low[x] ? entry : low[x];
                }
            for (int64_t k = 0; k < n_clusters; ++k)
                for (int64_t x = 0; x < lanes; ++x) {
                    const float above = source[k * n_restarts + q + x] - low[x];
                    target[k * n_restarts + q + x] =
                        (uint16_t)(int32_t)(above * by[x] + 0.5f);
                }
        }
    }
}

/* a vector of restarts whose sums are compared at once */
#if GPC_VECTOR >= 32
typedef GPC_VECTOR_OF(int16_t, 32) shorts;
GPC_INLINE shorts lower(shorts a, shorts b) {
    return (shorts)_mm256_min_epi16((__m256i)a, (__m256i)b);
}
GPC_INLINE shorts higher(shorts a, shorts b) {
    return (shorts)_mm256_max_epi16((__m256i)a, (__m256i)b);
}
#else
typedef GPC_VECTOR_OF(int16_t, 16) shorts;
#if defined(__SSE2__)
GPC_INLINE shorts lower(shorts a, shorts b) {
    return (shorts)_mm_min_epi16((__m128i)a, (__m128i)b);
}
GPC_INLINE shorts higher(shorts a, shorts b) {
    return (shorts)_mm_max_epi16((__m128i)a, (__m128i)b);
}
#else
GPC_INLINE shorts lower(shorts a, shorts b) {
    const shorts less = (shorts)(a < b);
    return (less & a) | (~less & b);
}
GPC_INLINE shorts higher(shorts a, shorts b) {
    const shorts less = (shorts)(a < b);
    return (less & b) | (~less & a);
}
#endif
#endif
enum { LANES = sizeof(shorts) / 2 };

/* Write the clusters of one object in a vector of restarts from q on; whether all of
   them are decided. */
GPC_INLINE int decide_restarts(const gpc_scoring* scoring, const int16_t* sums,
                               const uint16_t* distance, int64_t q, int64_t l) {
    const int64_t n_restarts = scoring->n_restarts;
    const int16_t* column = sums + q;
    shorts low = *(const shorts*)column;
    shorts second = (shorts){0} + (int16_t)32767, winner = {0};
    shorts name = {0};
    for (int64_t k = 1; k < scoring->n_clusters; ++k) {
        column += n_restarts;
        name += 1;
        const shorts here = *(const shorts*)column;
        const shorts less = (shorts)(here < low);
        second = lower(second, higher(here, low));
        low = lower(low, here);
        winner = (less & name) | (~less & winner);
    }
    const int64_t lanes = gpc_min(LANES, n_restarts - q);
    int decided = 1;
    for (int64_t x = 0; x < lanes; ++x) {
        decided &= second[x] - low[x] >= distance[q + x];
        gpc_set_cluster(scoring->assignment, scoring->cluster_size,
                        (q + x) * scoring->line + l, (uint16_t)winner[x]);
    }
    return decided;
}

/* The same for one restart, whose sums are neighbours. Decided is who alone is less
   than D above the lowest. `padding` has all bits in the lanes behind the last cluster
   of a row, and none in others. */
#if defined(__SSE4_1__)
GPC_INLINE int decide_one(const gpc_scoring* scoring, const uint16_t* sums,
                          int32_t distance, const uint16_t* padding, int64_t l) {
    const __m128i sign = _mm_set1_epi16((int16_t)0x8000);
    const int64_t n_clusters = scoring->n_clusters;
    __m128i least = _mm_set1_epi16(-1);
    for (int64_t k = 0; k < n_clusters; k += 8) {
        __m128i here = _mm_xor_si128(_mm_loadu_si128((const __m128i*)(sums + k)), sign);
        if (k + 8 > n_clusters)
            here = _mm_or_si128(here, _mm_loadu_si128((const __m128i*)padding));
        least = _mm_min_epu16(least, here);
    }
    const int32_t low = _mm_cvtsi128_si32(_mm_minpos_epu16(least)) & 0xffff;
    const int32_t limit = low + distance - 1 > 65535 ? 65535 : low + distance - 1;
    const __m128i most = _mm_set1_epi16((int16_t)limit);
    int64_t winner = 0, near = 0;
    for (int64_t k = 0; k < n_clusters; k += 8) {
        __m128i here = _mm_xor_si128(_mm_loadu_si128((const __m128i*)(sums + k)), sign);
        if (k + 8 > n_clusters)
            here = _mm_or_si128(here, _mm_loadu_si128((const __m128i*)padding));
        const __m128i close = _mm_cmpeq_epi16(_mm_min_epu16(here, most), here);
        const unsigned mask = (unsigned)_mm_movemask_epi8(close);
        near += __builtin_popcount(mask); /* two bits for each */
        winner = mask ? k + (__builtin_ctz(mask | 1u << 16) >> 1) : winner;
    }
    gpc_set_cluster(scoring->assignment, scoring->cluster_size, l, winner);
    return near == 2;
}
#else
GPC_INLINE int decide_one(const gpc_scoring* scoring, const uint16_t* sums,
                          int32_t distance, const uint16_t* padding, int64_t l) {
    (void)padding;
    int32_t low = INT32_MAX, second = INT32_MAX;
    for (int32_t k = 0; k < (int32_t)scoring->n_clusters; ++k) {
        const int32_t key = (int32_t)(sums[k] ^ 0x8000) * 32768 + k;
        const int32_t higher_key = key > low ? key : low;
        second = second < higher_key ? second : higher_key;
        low = low < key ? low : key;
    }
    gpc_set_cluster(scoring->assignment, scoring->cluster_size, l, low & 0x7fff);
    return (second >> 15) - (low >> 15) >= distance;
}
#endif

static int64_t tile_of(int64_t small_width, int64_t n_rows) {
    return gpc_tile(small_width * 2, n_rows * small_width * 2);
}

static int64_t pending_of(int64_t width) {
    return gpc_max(8, gpc_min(PENDING, (1 << 18) / width / 8 * 8));
}

/* Bytes of scratch that gpc_assign_screened needs. */
GPC_API int64_t gpc_screen_scratch(int64_t width, int64_t small_width, int64_t n_rows,
                                   int64_t n_partitions) {
    const int64_t pending = pending_of(width);
    const int64_t sums = (tile_of(small_width, n_rows) + 1) * small_width * 2;
    const int64_t exact =
        gpc_max(8 * (pending + 1) * width, gpc_assign_scratch(width, n_rows));
    return exact + sums + 64 + 8 * pending + 2 * n_partitions * pending;
}

/* the pending objects, by float32: their labels are brought together first */
static void assign_pending(const gpc_labels* labels, const gpc_scoring* scoring,
                           const int64_t* objects, int64_t number, int64_t most,
                           void* gathered, float* scratch) {
    const int64_t size = labels->code_size;
    for (int64_t i = 0; i < labels->n_partitions; ++i) {
        const void* line = gpc_codes_at(labels->codes, size, i * labels->stride);
        if (size == 1)
            for (int64_t p = 0; p < number; ++p)
                ((uint8_t*)gathered)[i * most + p] = ((const uint8_t*)line)[objects[p]];
        else
            for (int64_t p = 0; p < number; ++p)
                ((uint16_t*)gathered)[i * most + p] =
                    ((const uint16_t*)line)[objects[p]];
    }
    const gpc_labels chosen = {gathered, size, most, labels->offsets,
                               labels->n_partitions};
    gpc_assign_tile(&chosen, scoring, number, 0, objects, scratch);
}

/* As gpc_assign for objects begin .. end - 1, with a table in 16 bits and the distance
   D of each restart; K <= 32767 and D <= 65535. Adds to found[0] how many objects were
   screened, and to found[1] how many of them stayed undecided. Where these are too many
   the rest is assigned in float32. */
GPC_API void gpc_assign_screened(const void* codes, int64_t code_size, int64_t stride,
                                 const int64_t* offsets, int64_t n_partitions,
                                 const float* table, int64_t width,
                                 const uint16_t* small, int64_t small_width,
                                 const uint16_t* distance, int64_t n_restarts,
                                 int64_t n_clusters, int64_t begin, int64_t end,
                                 void* assignment, int64_t cluster_size, int64_t line,
                                 int64_t* found, void* scratch) {
    const gpc_scoring scoring = {
        table,      NULL,         NULL, NULL, width, n_restarts, n_clusters,
        assignment, cluster_size, line, NULL, NULL,  NULL,       NULL};
    const gpc_labels labels = {codes, code_size, stride, offsets, n_partitions};
    const int64_t tile = tile_of(small_width, offsets[n_partitions]);
    const int64_t most = pending_of(width);
    const int64_t exact = gpc_max(8 * (most + 1) * width,
                                  gpc_assign_scratch(width, offsets[n_partitions]));
    uint16_t* sums = (uint16_t*)(void*)((char*)scratch + exact);
    char* after = (char*)(sums + (tile + 1) * small_width);
    int64_t* objects = (int64_t*)(void*)(after + (-(intptr_t)after & 63));
    void* gathered = objects + most;
    uint16_t padding[8];
    for (int x = 0; x < 8; ++x) padding[x] = x < (n_clusters - 1) % 8 + 1 ? 0 : 0xffff;
    int64_t number = 0, undecided = 0, first = begin;
    for (; first < end; first += tile) {
        if (first - begin >= EARLY && 6 * undecided > first - begin) break;
        const int64_t size = gpc_min(tile, end - first);
        gpc_labels here = labels;
        here.codes = gpc_codes_at(codes, code_size, first);
        sum_tile(&here, small, small_width, size, sums);
        for (int64_t t = 0; t < size; ++t) {
            const int16_t* own = (const int16_t*)(const void*)(sums + t * small_width);
            int decided = 1;
            if (n_restarts == 1)
                decided = decide_one(&scoring, sums + t * small_width, distance[0],
                                     padding, first + t);
            else
                for (int64_t q = 0; q < n_restarts; q += LANES)
                    decided &= decide_restarts(&scoring, own, distance, q, first + t);
            objects[number] = first + t;
            number += !decided;
            undecided += !decided;
            if (number < most) continue;
            assign_pending(&labels, &scoring, objects, number, most, gathered, scratch);
            number = 0;
        }
    }
    if (number)
        assign_pending(&labels, &scoring, objects, number, most, gathered, scratch);
    found[0] += gpc_min(first, end) - begin;
    found[1] += undecided;
    if (first < end)
        gpc_assign(codes, code_size, stride, offsets, n_partitions, table, width, NULL,
                   NULL, NULL, n_restarts, n_clusters, first, end, assignment,
                   cluster_size, line, NULL, NULL, NULL, NULL, scratch);
}
