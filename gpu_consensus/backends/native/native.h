/* What the primitives share: types, vectors, and why the tiles are as they are.

   Every function here works on a range of objects or partitions and on buffers that it
   is given. There is no state, no allocation and no thread in this library: the caller
   cuts the work into ranges and runs them where it likes. Shapes and types are checked
   before a call, not here.

   Names and shapes, everywhere the same:
   - codes: partition i begins at codes + i * stride; object l has label codes[l] there,
     of 1 or 2 bytes (code_size); label K_i means "missing";
   - offsets (r + 1): partition i owns rows offsets[i] .. offsets[i + 1] - 1 of a table,
     K_i labels and one row for "missing";
   - table: rows of `width` numbers, a multiple of GPC_LANES, aligned to 64 bytes;
     column k R + q is cluster k of restart q;
   - assignment (R, n): of 1, 2 or 4 bytes (cluster_size); K means "not counted";
   - counts (S, R K): column q K + k.

   Why the tiles are as they are
   -----------------------------
   `assign` adds r rows of a table for every object. The rows are chosen by labels, so
   no row can be foreseen, and all speed is in where rows and sums wait for each other:

   - Sums stay in registers while a group of partitions is added. A few objects are
     added side by side (GPC_REGISTERS sums in flight): one addition takes three or
     four cycles and two begin in each, so that eight sums keep the adder busy. The
     code of an object is read once for all vectors of its row.
   - A group of partitions is one whose rows fit the first-level cache, but never so
     few that reading and writing the sums costs more than the rows themselves. Within
     a group all objects of a tile pass, so that rows are read from the first-level
     cache by all but the first objects that ask for them.
   - A tile of objects is one whose sums fit a half of the second-level cache, at least
     64 and at most 2,048 of them. Small tables take small tiles: the sums then stay
     in the first-level cache too. Large tables take large tiles, since every tile
     reads the whole table again from wherever it lies.
   - Columns lie by cluster first (k R + q): restarts of one cluster are neighbours and
     one comparison serves a vector of restarts. With one restart a vector holds its
     clusters, and the lowest is found across it.
   - Rows are whole vectors, so that no loop has a tail. Rows of 64 bytes and their
     multiples begin at cache lines.

   The order of additions is the order of the partitions, for every object, in every
   tile, for every number of threads: float sums are those of the reference, bit for
   bit. No multiplication is fused with an addition (-ffp-contract=off).

   `count` does the reverse: every object adds a row of steps to the rows of its labels.
   Integers do not mind their order. The clusters of an object in 16 restarts are packed
   into 16 bytes; a shuffle and a comparison make its row of steps, so that only totals
   are read and written: rows of 8 bits. One partition takes all objects before the
   next, for its totals fit the first-level cache, and its counts of 64 bits, which a
   row is added to when 255 objects have seen it, the second-level one. Where few
   objects move, or clusters are many, single steps are cheaper than rows: they are
   listed, many at a time, for every list touches all counts, and those of one restart
   follow one another, so that its columns stay in a cache.
*/
#ifndef GPC_NATIVE_H
#define GPC_NATIVE_H

#include <stdint.h>
#include <string.h>

#define GPC_ABI 9 /* raised by every change of a signature or a layout */

#if defined(_WIN32)
#define GPC_API __declspec(dllexport)
#else
#define GPC_API __attribute__((visibility("default")))
#endif

#define GPC_INLINE static inline __attribute__((always_inline, unused))

enum { GPC_LANES = 16 }; /* rows of tables are padded to so many numbers */

/* bytes of a vector register, and how many sums are in flight */
#if defined(__AVX512BW__)
#define GPC_VECTOR 64
#define GPC_REGISTERS 16
#elif defined(__AVX2__)
#define GPC_VECTOR 32
#define GPC_REGISTERS 8
#else
#define GPC_VECTOR 16
#define GPC_REGISTERS 8
#endif

/* aligned to one number only: a vector may begin at any column */
#define GPC_VECTOR_OF(type, bytes) \
    type __attribute__((vector_size(bytes), aligned(sizeof(type)), may_alias))

typedef GPC_VECTOR_OF(float, GPC_VECTOR) gpc_floats;
typedef GPC_VECTOR_OF(int32_t, GPC_VECTOR) gpc_ints;
typedef GPC_VECTOR_OF(double, GPC_VECTOR) gpc_doubles;
typedef GPC_VECTOR_OF(int64_t, GPC_VECTOR) gpc_longs;
typedef GPC_VECTOR_OF(int16_t, GPC_VECTOR) gpc_shorts;
typedef GPC_VECTOR_OF(uint16_t, GPC_VECTOR) gpc_words;
typedef GPC_VECTOR_OF(uint8_t, GPC_VECTOR) gpc_bytes;

GPC_INLINE int64_t gpc_min(int64_t a, int64_t b) { return a < b ? a : b; }
GPC_INLINE int64_t gpc_max(int64_t a, int64_t b) { return a > b ? a : b; }

/* a cluster, read from or written to an assignment of 1, 2 or 4 bytes */
GPC_INLINE int64_t gpc_cluster(const void* line, int64_t size, int64_t at) {
    if (size == 1) return ((const uint8_t*)line)[at];
    if (size == 2) return ((const uint16_t*)line)[at];
    return ((const uint32_t*)line)[at];
}

GPC_INLINE void gpc_set_cluster(void* line, int64_t size, int64_t at, int64_t k) {
    if (size == 1)
        ((uint8_t*)line)[at] = (uint8_t)k;
    else if (size == 2)
        ((uint16_t*)line)[at] = (uint16_t)k;
    else
        ((uint32_t*)line)[at] = (uint32_t)k;
}

GPC_INLINE int64_t gpc_code(const void* codes, int64_t size, int64_t at) {
    return size == 1 ? ((const uint8_t*)codes)[at] : ((const uint16_t*)codes)[at];
}

GPC_INLINE const void* gpc_codes_at(const void* codes, int64_t size, int64_t at) {
    return (const uint8_t*)codes + at * size;
}

/* found by measurement, see above */
#ifndef GPC_GROUP_BYTES
#define GPC_GROUP_BYTES (12 << 10)
#endif
#ifndef GPC_FEWEST
#define GPC_FEWEST 8
#endif
#ifndef GPC_MOST
#define GPC_MOST 128
#endif
#ifndef GPC_AHEAD
#define GPC_AHEAD 256 /* objects whose labels are asked for early */
#endif
#ifndef GPC_STEP
#define GPC_STEP 8 /* bytes: the largest factor that an address takes for nothing */
#endif
#ifndef GPC_LARGE_TABLE
#define GPC_LARGE_TABLE (1 << 20)
#endif
#ifndef GPC_LARGE_TILE
#define GPC_LARGE_TILE (256 << 10)
#endif
#ifndef GPC_SMALL_TILE
#define GPC_SMALL_TILE (64 << 10)
#endif

/* Where a group of partitions ends: its rows fill about a third of a first-level cache,
   or it has as many partitions as pay for reading and writing the sums. */
GPC_INLINE int64_t gpc_group_end(const int64_t* offsets, int64_t first,
                                 int64_t n_partitions, int64_t row_bytes) {
    int64_t last = gpc_min(first + GPC_FEWEST, n_partitions);
    while (last < n_partitions && last < first + GPC_MOST &&
           (offsets[last + 1] - offsets[first]) * row_bytes <= GPC_GROUP_BYTES)
        ++last;
    return last;
}

/* How many objects have their sums together: a multiple of 8, see above. */
GPC_INLINE int64_t gpc_tile(int64_t row_bytes, int64_t table_bytes) {
    const int64_t room =
        table_bytes > GPC_LARGE_TABLE ? GPC_LARGE_TILE : GPC_SMALL_TILE;
    const int64_t objects = room / row_bytes / 8 * 8;
    return gpc_max(16, gpc_min(objects, 2048));
}

/* A table and the codes that choose its rows, as every sum over rows needs them. */
typedef struct {
    const void* codes;
    int64_t code_size, stride;
    const int64_t* offsets;
    int64_t n_partitions;
} gpc_labels;

/* What `assign` writes, and the parts of a score besides the table. */
typedef struct {
    const float *table, *row_table, *row_sum, *row_weight;
    int64_t width, n_restarts, n_clusters;
    void* assignment;
    int64_t cluster_size, line; /* objects in a line of the assignment */
    float *best, *gap;
    const void* own;    /* as assignment: the cluster that each object is in, or NULL */
    const float* price; /* (R, n): its score there */
} gpc_scoring;

/* Sums (size, width) of table rows of `size` objects, in their order: `scores.c`. */
void gpc_sum_doubles(const gpc_labels* labels, const double* table, int64_t width,
                     int64_t size, double* sums);

/* Add units (size, width) of `size` objects to the rows of their labels in counts
   (S, width), partitions first .. last - 1: `soft_count.c`. */
void gpc_add_units(const gpc_labels* labels, int64_t first, int64_t last, int64_t size,
                   const int64_t* units, int64_t width, int64_t* counts);

/* What `screen.c` needs of `assign.c`. */
GPC_API int64_t gpc_assign_scratch(int64_t width, int64_t n_rows);
GPC_API void gpc_assign(const void* codes, int64_t code_size, int64_t stride,
                        const int64_t* offsets, int64_t n_partitions,
                        const float* table, int64_t width, const float* row_table,
                        const float* row_sum, const float* row_weight,
                        int64_t n_restarts, int64_t n_clusters, int64_t begin,
                        int64_t end, void* assignment, int64_t cluster_size,
                        int64_t line, float* best, float* gap, const void* own,
                        const float* price, float* scratch);

#endif
