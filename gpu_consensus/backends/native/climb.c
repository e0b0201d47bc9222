/* One climb of AddRemAdd: objects flip in or out of a set, one at a time, while that
   raises b(S). See gpu_consensus/backends/add_rem_add.py, whose bits these are. */
#include "native.h"

enum { PROBES = 32 }; /* slots that are tried; then a set stays unknown */

typedef struct {
    const void* codes;
    int64_t code_size, n_partitions, n_samples;
    const int64_t* n_labels;
    const void* similarity;
    int64_t similarity_size;
    int32_t* near;
} likeness;

/* near += sign * in how many partitions object l shares its label with each */
static void add_row(const likeness* a, int64_t l, int32_t sign, uint16_t* row) {
    const int64_t n = a->n_samples;
    int32_t* restrict near = a->near;
    if (a->similarity_size == 1) {
        const uint8_t* same = (const uint8_t*)a->similarity + l * n;
        for (int64_t m = 0; m < n; ++m) near[m] += sign * (int32_t)same[m];
        return;
    }
    const uint16_t* same = row;
    if (a->similarity) {
        same = (const uint16_t*)a->similarity + l * n;
    } else {
        memset(row, 0, (size_t)n * 2);
        for (int64_t i = 0; i < a->n_partitions; ++i) {
            const int64_t label = gpc_code(a->codes, a->code_size, i * n + l);
            if (label == a->n_labels[i]) continue;
            if (a->code_size == 1) {
                const uint8_t* line = (const uint8_t*)a->codes + i * n;
                for (int64_t m = 0; m < n; ++m) row[m] += line[m] == (uint8_t)label;
            } else {
                const uint16_t* line = (const uint16_t*)a->codes + i * n;
                for (int64_t m = 0; m < n; ++m) row[m] += line[m] == (uint16_t)label;
            }
        }
    }
    for (int64_t m = 0; m < n; ++m) near[m] += sign * (int32_t)same[m];
}

static void best_changes(const int32_t* near, const int32_t* own,
                         const uint8_t* members, int64_t n, int32_t* enter,
                         int32_t* leave) {
    int32_t in = INT32_MIN, out = INT32_MIN;
    for (int64_t m = 0; m < n; ++m) {
        const int32_t twice = near[m] + near[m];
        const int32_t enters = members[m] ? INT32_MIN : own[m] + twice;
        const int32_t leaves = members[m] ? own[m] - twice : INT32_MIN;
        in = enters > in ? enters : in;
        out = leaves > out ? leaves : out;
    }
    *enter = in;
    *leave = out;
}

/* the first object inside, or outside, whose flip makes that change */
static int64_t first_of(const int32_t* near, const int32_t* own, const uint8_t* members,
                        int64_t n, int inside, int32_t change) {
    for (int64_t m = 0; m < n; ++m) {
        const int32_t twice = near[m] + near[m];
        if (members[m] == inside &&
            change == (inside ? own[m] - twice : own[m] + twice))
            return m;
    }
    return -1;
}

/* an exact integer and one division */
GPC_INLINE double score(int64_t total, int64_t size, int64_t p, int64_t q) {
    return (double)(q * total - p * size * size) / (double)size;
}

/* Climb from one start.

   codes (r, n) without gaps, read where similarity (n, n), of 1 or 2 bytes, is NULL;
   own (n): labels of each object; marks (n): random bits; keys (slots) and visitor
   (slots, 2): sets that this thread has seen, by their mark, and by whom: slots is a
   power of two; near, row (n): room; members (n): the last set.
   found: total, flips, the start whose climb it joined or -1, flips of that one. */
GPC_API void gpc_climb(const void* codes, int64_t code_size, int64_t n_partitions,
                       int64_t n_samples, const int64_t* n_labels,
                       const void* similarity, int64_t similarity_size,
                       const int32_t* own, const uint64_t* marks, int64_t start,
                       int64_t position, int64_t p, int64_t q, uint64_t* keys,
                       int64_t slots, int32_t* visitor, int32_t* near, uint16_t* row,
                       uint8_t* members, int64_t* found) {
    const likeness a = {codes,    code_size,  n_partitions,    n_samples,
                        n_labels, similarity, similarity_size, near};
    const uint64_t mask = (uint64_t)slots - 1;
    memset(near, 0, (size_t)n_samples * 4);
    memset(members, 0, (size_t)n_samples);
    int64_t flip = start, total = 0, size = 0, n_flips = 0;
    uint64_t mark = 0;
    for (;;) {
        const int32_t sign = members[flip] ? -1 : 1;
        total += (int64_t)own[flip] + 2 * (int64_t)sign * near[flip];
        size += sign;
        mark ^= marks[flip];
        const uint64_t key = mark ? mark : 1; /* 0 is an empty slot */
        uint64_t at = key & mask;
        for (int probe = 0; probe < PROBES; ++probe) {
            if (keys[at] == key) {
                const int64_t joined[4] = {total, n_flips, visitor[2 * at],
                                           visitor[2 * at + 1]};
                memcpy(found, joined, sizeof joined);
                return;
            }
            if (keys[at] == 0) {
                keys[at] = key;
                visitor[2 * at] = (int32_t)position;
                visitor[2 * at + 1] = (int32_t)n_flips;
                break;
            }
            at = (at + 1) & mask;
        }
        add_row(&a, flip, sign, row);
        members[flip] = sign > 0;
        int32_t enter, leave;
        best_changes(near, own, members, n_samples, &enter, &leave);
        double best = score(total, size, p, q);
        flip = -1;
        if (size < n_samples) {
            const double higher = score(total + enter, size + 1, p, q);
            if (higher > best) {
                best = higher;
                flip = first_of(near, own, members, n_samples, 0, enter);
            }
        }
        if (size > 1) {
            const double higher = score(total + leave, size - 1, p, q);
            if (higher >= best) {
                const int64_t leaves =
                    first_of(near, own, members, n_samples, 1, leave);
                if (higher > best || flip > leaves) flip = leaves;
            }
        }
        if (flip < 0) {
            const int64_t ended[4] = {total, n_flips, -1, 0};
            memcpy(found, ended, sizeof ended);
            return;
        }
        ++n_flips;
    }
}
