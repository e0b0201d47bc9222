/* One climb of AddRemAdd: objects flip in or out of a set, one at a time, while that
   raises b(S). See gpu_consensus/methods/climbs.py, whose bits these are. */
#include "native.h"

enum {
    PROBES = 32, /* slots that are tried; then a set stays unknown */
    BLOCK = 256, /* objects among which one of the best is looked for at the end */
};

/* What flips are worth, one number for each object, own its labels and near = a(m, S):

   - outside of S, key = own + 2 near: what entering adds to the sum of a_lm;
   - inside, key = INT32_MIN - own + 2 near: what leaving takes away from it, and more
     than any number outside below it, since near counts the object itself.

   Hence the largest key belongs to the best to enter, the least to the best to leave,
   a negative one to a member, and an object that comes or goes changes all in the same
   way: a pass needs to know nothing else. near stays below 2^29. */
typedef struct {
    int32_t most, least;
    int64_t most_from, least_from; /* where the first block with it begins */
} best_keys;

GPC_INLINE int32_t flipped(int32_t key, int32_t own) {
    const uint32_t twice = 2 * (uint32_t)own;
    return (int32_t)(((uint32_t)key ^ 0x80000000u) + (key < 0 ? twice : 0 - twice));
}

/* add the similarities of an object, times two, or subtract them; one pass does this
   and finds the best */
#define PASS(NAME, NUMBER, SIGN)                                                  \
    static best_keys NAME(int32_t* keys, const NUMBER* same, int64_t n_samples) { \
        best_keys best = {INT32_MIN, INT32_MAX, 0, 0};                            \
        for (int64_t from = 0; from < n_samples; from += BLOCK) {                 \
            const int64_t size = gpc_min(BLOCK, n_samples - from);                \
            int32_t* restrict key = keys + from;                                  \
            const NUMBER* restrict row = same + from;                             \
            int32_t most = INT32_MIN, least = INT32_MAX;                          \
            for (int64_t m = 0; m < size; ++m) {                                  \
                const uint32_t twice = 2 * (uint32_t)row[m];                      \
                const int32_t now = (int32_t)((uint32_t)key[m] SIGN twice);       \
                key[m] = now;                                                     \
                most = now > most ? now : most;                                   \
                least = now < least ? now : least;                                \
            }                                                                     \
            if (most > best.most) best.most = most, best.most_from = from;        \
            if (least < best.least) best.least = least, best.least_from = from;   \
        }                                                                         \
        return best;                                                              \
    }

PASS(add_u8, uint8_t, +)
PASS(subtract_u8, uint8_t, -)
PASS(add_u16, uint16_t, +)
PASS(subtract_u16, uint16_t, -)

/* in how many partitions object l shares its label with each */
static void count_row(const gpc_labels* labels, const int64_t* n_labels, int64_t l,
                      int64_t n, uint16_t* row) {
    memset(row, 0, (size_t)n * 2);
    for (int64_t i = 0; i < labels->n_partitions; ++i) {
        const int64_t label = gpc_code(labels->codes, labels->code_size, i * n + l);
        if (label == n_labels[i]) continue;
        if (labels->code_size == 1) {
            const uint8_t* line = (const uint8_t*)labels->codes + i * n;
            for (int64_t m = 0; m < n; ++m) row[m] += line[m] == (uint8_t)label;
        } else {
            const uint16_t* line = (const uint16_t*)labels->codes + i * n;
            for (int64_t m = 0; m < n; ++m) row[m] += line[m] == (uint16_t)label;
        }
    }
}

/* the first object from there on with that key, which is there */
static int64_t first_of(const int32_t* keys, int64_t from, int32_t key) {
    int64_t m = from;
    while (keys[m] != key) ++m;
    return m;
}

/* an exact integer and one division */
GPC_INLINE double score(int64_t total, int64_t size, int64_t p, int64_t q) {
    return (double)(q * total - p * size * size) / (double)size;
}

/* Climb from one start.

   codes (r, n) without gaps, read where similarity (n, n), of 1 or 2 bytes, is NULL;
   own (n): labels of each object; marks (n): random bits; keys (slots) and visitor
   (slots, 2): sets that this thread has seen, by their mark, and by whom: slots is a
   power of two; key, row (n): room; members (n): the last set, where the climb ends.
   found: total, flips, the start whose climb it joined or -1, flips of that one. */
GPC_API void gpc_climb(const void* codes, int64_t code_size, int64_t n_partitions,
                       int64_t n_samples, const int64_t* n_labels,
                       const void* similarity, int64_t similarity_size,
                       const int32_t* own, const uint64_t* marks, int64_t start,
                       int64_t position, int64_t p, int64_t q, uint64_t* keys,
                       int64_t slots, int32_t* visitor, int32_t* key, uint16_t* row,
                       uint8_t* members, int64_t* found) {
    const gpc_labels labels = {codes, code_size, n_samples, NULL, n_partitions};
    const uint64_t mask = (uint64_t)slots - 1;
    memcpy(key, own, (size_t)n_samples * 4);
    int64_t flip = start, total = 0, size = 0, n_flips = 0;
    uint64_t mark = 0;
    for (;;) {
        const int out = key[flip] < 0;
        total += out ? (int64_t)INT32_MIN - key[flip] : key[flip];
        size += out ? -1 : 1;
        mark ^= marks[flip];
        const uint64_t name = mark ? mark : 1; /* 0 is an empty slot */
        uint64_t at = name & mask;
        for (int probe = 0; probe < PROBES; ++probe) {
            if (keys[at] == name) {
                const int64_t joined[4] = {total, n_flips, visitor[2 * at],
                                           visitor[2 * at + 1]};
                memcpy(found, joined, sizeof joined);
                return;
            }
            if (keys[at] == 0) {
                keys[at] = name;
                visitor[2 * at] = (int32_t)position;
                visitor[2 * at + 1] = (int32_t)n_flips;
                break;
            }
            at = (at + 1) & mask;
        }
        key[flip] = flipped(key[flip], own[flip]);
        best_keys next;
        if (similarity_size == 1) {
            const uint8_t* same = (const uint8_t*)similarity + flip * n_samples;
            next = (out ? subtract_u8 : add_u8)(key, same, n_samples);
        } else {
            const uint16_t* same = row;
            if (similarity)
                same = (const uint16_t*)similarity + flip * n_samples;
            else
                count_row(&labels, n_labels, flip, n_samples, row);
            next = (out ? subtract_u16 : add_u16)(key, same, n_samples);
        }
        double best = score(total, size, p, q);
        flip = -1;
        if (size < n_samples) {
            const double higher = score(total + next.most, size + 1, p, q);
            if (higher > best) {
                best = higher;
                flip = first_of(key, next.most_from, next.most);
            }
        }
        if (size > 1) {
            const int64_t without = total + ((int64_t)INT32_MIN - next.least);
            const double higher = score(without, size - 1, p, q);
            if (higher >= best) {
                const int64_t leaves = first_of(key, next.least_from, next.least);
                if (higher > best || flip > leaves) flip = leaves;
            }
        }
        if (flip < 0) {
            const int64_t ended[4] = {total, n_flips, -1, 0};
            memcpy(found, ended, sizeof ended);
            for (int64_t m = 0; m < n_samples; ++m) members[m] = key[m] < 0;
            return;
        }
        ++n_flips;
    }
}
