/* In how many partitions two objects share a label, and in how many both have one. */
#include "native.h"

enum { TILE = 2048 };

#define PAIRS(NAME, CODE)                                                              \
    static void NAME(const CODE* left, int64_t n_left, const CODE* right,              \
                     int64_t n_right, const int64_t* n_labels, int64_t n_partitions,   \
                     int complete, int64_t begin, int64_t end, int32_t* same,          \
                     int32_t* both) {                                                  \
        /* matches are counted in a byte each, and added up before a byte overflows */ \
        uint8_t matches[TILE], present[TILE];                                          \
        for (int64_t start = 0; start < n_right; start += TILE) {                      \
            const int64_t size = gpc_min(TILE, n_right - start);                       \
            for (int64_t a = begin; a < end; ++a)                                      \
                for (int64_t first = 0; first < n_partitions; first += 255) {          \
                    const int64_t last = gpc_min(first + 255, n_partitions);           \
                    memset(matches, 0, sizeof matches);                                \
                    memset(present, 0, sizeof present);                                \
                    for (int64_t i = first; i < last; ++i) {                           \
                        const CODE code = left[i * n_left + a];                        \
                        const CODE missing = (CODE)n_labels[i];                        \
                        const CODE* line = right + i * n_right + start;                \
                        if (code == missing) continue;                                 \
                        for (int64_t b = 0; b < size; ++b)                             \
                            matches[b] += line[b] == code;                             \
                        if (complete) continue;                                        \
                        for (int64_t b = 0; b < size; ++b)                             \
                            present[b] += line[b] != missing;                          \
                    }                                                                  \
                    int32_t* shared = same + a * n_right + start;                      \
                    for (int64_t b = 0; b < size; ++b) shared[b] += matches[b];        \
                    int32_t* known = both + a * n_right + start;                       \
                    if (complete) continue;                                            \
                    for (int64_t b = 0; b < size; ++b) known[b] += present[b];         \
                }                                                                      \
        }                                                                              \
    }

PAIRS(pairs_u8, uint8_t)
PAIRS(pairs_u16, uint16_t)

/* Compare objects begin .. end - 1 of left (r, n_left) with all of right (r, n_right)
   and add to same and both (n_left, n_right).

   Where right has no missing label (complete) `both` is left alone. */
GPC_API void gpc_pairs(const void* left, int64_t n_left, const void* right,
                       int64_t n_right, int64_t code_size, const int64_t* n_labels,
                       int64_t n_partitions, int64_t complete, int64_t begin,
                       int64_t end, int32_t* same, int32_t* both) {
    if (code_size == 1)
        pairs_u8(left, n_left, right, n_right, n_labels, n_partitions, complete != 0,
                 begin, end, same, both);
    else
        pairs_u16(left, n_left, right, n_right, n_labels, n_partitions, complete != 0,
                  begin, end, same, both);
}
