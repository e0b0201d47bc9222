/* Adds up table rows for a tile of objects. Included once for each kind of number and
   code, with SUM_NAME, SUM_CODE and the number and vector of a sum (SUM_NUMBER,
   SUM_VECTOR) defined; see native.h for why it goes through its data as it does.

   The entries of a table may be small whole numbers (SUM_ENTRY), and SUM_LOAD reads a
   vector of them then; sums are whole numbers too, added by SUM_ADD if it is defined,
   and codes name places of GPC_STEP bytes from the first row of their partition on
   instead of rows. */

#define SUM_PASTE(a, b) a##_##b
#define SUM_PASTED(a, b) SUM_PASTE(a, b)
#define SUM_FN(x) SUM_PASTED(SUM_NAME, x)
#ifdef SUM_ENTRY
#define SUM_SHORT
#define SUM_ROW(code, width) ((int64_t)(code) * (GPC_STEP / (int64_t)sizeof(SUM_ENTRY)))
#else
#define SUM_ROW(code, width) ((int64_t)(code) * (width))
#define SUM_ENTRY SUM_NUMBER
#define SUM_LOAD(place) (*(const SUM_VECTOR*)(place))
#endif
#ifndef SUM_ADD
#define SUM_ADD(a, b) ((a) + (b))
#endif
#define SUM_LANES ((int64_t)(sizeof(SUM_VECTOR) / sizeof(SUM_NUMBER)))

/* `objects` objects and `vectors` vectors of each, both known to the compiler; with
   up < 0 their sums begin, else they go on, up bits higher */
GPC_INLINE void SUM_FN(add)(const int objects, const int vectors, int up,
                            const SUM_CODE* codes, int64_t stride,
                            const int64_t* offsets, int64_t first, int64_t last,
                            const SUM_ENTRY* table, int64_t width, SUM_NUMBER* sums) {
    SUM_VECTOR total[8][8];
#pragma GCC unroll 8
    for (int u = 0; u < objects; ++u)
#pragma GCC unroll 8
        for (int b = 0; b < vectors; ++b) {
            total[u][b] = (SUM_VECTOR){0};
            if (up >= 0)
                total[u][b] = *(const SUM_VECTOR*)(sums + u * width + b * SUM_LANES);
#ifdef SUM_SHORT
            if (up > 0) total[u][b] <<= (SUM_NUMBER)up;
#endif
        }
    for (int64_t i = first; i < last; ++i) {
        const SUM_CODE* line = codes + i * stride;
        const SUM_ENTRY* part = table + offsets[i] * width;
#ifndef SUM_SHORT
        /* labels of objects to come: so many lines at once no processor foresees */
        __builtin_prefetch(line + GPC_AHEAD);
#endif
#pragma GCC unroll 8
        for (int u = 0; u < objects; ++u) {
            const SUM_ENTRY* row = part + SUM_ROW(line[u], width);
#pragma GCC unroll 8
            for (int b = 0; b < vectors; ++b)
                total[u][b] = SUM_ADD(total[u][b], SUM_LOAD(row + b * SUM_LANES));
        }
    }
#pragma GCC unroll 8
    for (int u = 0; u < objects; ++u)
#pragma GCC unroll 8
        for (int b = 0; b < vectors; ++b)
            *(SUM_VECTOR*)(sums + u * width + b * SUM_LANES) = total[u][b];
}

GPC_INLINE void SUM_FN(strip)(const int objects, const int vectors, int up,
                              const SUM_CODE* codes, int64_t stride,
                              const int64_t* offsets, int64_t first, int64_t last,
                              const SUM_ENTRY* table, int64_t width, int64_t size,
                              SUM_NUMBER* sums) {
    int64_t t = 0;
    for (; t + objects <= size; t += objects)
        SUM_FN(add)(objects, vectors, up, codes + t, stride, offsets, first, last,
                    table, width, sums + t * width);
    for (; t < size; ++t)
        SUM_FN(add)(1, vectors, up, codes + t, stride, offsets, first, last, table,
                    width, sums + t * width);
}

/* how many objects are added side by side, so that their sums stay in registers */
#define SUM_SIDE(vectors)                  \
    (GPC_REGISTERS / (vectors) >= 8        \
         ? 8                               \
         : (GPC_REGISTERS / (vectors) >= 4 \
                ? 4                        \
                : (GPC_REGISTERS / (vectors) >= 2 ? 2 : 1)))

#define SUM_CASE(vectors)                                                            \
    case vectors:                                                                    \
        SUM_FN(strip)(SUM_SIDE(vectors), vectors, up, codes, stride, offsets, first, \
                      last, table + column, width, size, sums + column);             \
        break;

/* rows of one or two vectors: where they begin is a shift, not a multiplication */
#define SUM_SHORT_CASE(vectors)                                                     \
    case vectors:                                                                   \
        if (vectors * SUM_LANES == width)                                           \
            SUM_FN(strip)(SUM_SIDE(vectors), vectors, up, codes, stride, offsets,   \
                          first, last, table, vectors * SUM_LANES, size, sums);     \
        else                                                                        \
            SUM_FN(strip)(SUM_SIDE(vectors), vectors, up, codes, stride, offsets,   \
                          first, last, table + column, width, size, sums + column); \
        break;

/* add partitions first .. last - 1 of `size` objects from codes on to sums (size,
 * width) */
static void SUM_FN(group)(const SUM_CODE* codes, int64_t stride, const int64_t* offsets,
                          int64_t first, int64_t last, int up, const SUM_ENTRY* table,
                          int64_t width, int64_t size, SUM_NUMBER* sums) {
    int64_t column = 0;
    while (column < width) {
        const int64_t left = (width - column) / SUM_LANES;
        const int64_t vectors = left <= 8 ? left : left < 16 ? (left + 1) / 2 : 8;
        switch (vectors) {
            SUM_SHORT_CASE(1)
            SUM_SHORT_CASE(2)
            SUM_CASE(3)
            SUM_CASE(4)
            SUM_CASE(5)
            SUM_CASE(6)
            SUM_CASE(7)
            SUM_CASE(8)
        }
        column += vectors * SUM_LANES;
    }
}

#ifndef SUM_SHORT
/* sums (size, width) of `size` objects from codes on, over all partitions in order */
static void SUM_FN(tile)(const SUM_CODE* codes, int64_t stride, const int64_t* offsets,
                         int64_t n_partitions, const SUM_NUMBER* table, int64_t width,
                         int64_t size, SUM_NUMBER* sums) {
    for (int64_t first = 0, last; first < n_partitions; first = last) {
        last = gpc_group_end(offsets, first, n_partitions,
                             width * (int64_t)sizeof(SUM_NUMBER));
        SUM_FN(group)(codes, stride, offsets, first, last, first == 0 ? -1 : 0, table,
                      width, size, sums);
    }
}
#endif

#undef SUM_CASE
#undef SUM_SHORT_CASE
#undef SUM_SIDE
#undef SUM_LANES
#undef SUM_FN
#undef SUM_PASTED
#undef SUM_PASTE
#undef SUM_NAME
#undef SUM_NUMBER
#undef SUM_VECTOR
#undef SUM_CODE
#undef SUM_ENTRY
#undef SUM_LOAD
#undef SUM_ADD
#undef SUM_SHORT
#undef SUM_ROW
