/* Adds rows of units to the rows of labels for a tile of objects. Included once for
   each kind of code, with SOFT_NAME and SOFT_CODE defined. */

#define SOFT_PASTE(a, b) a##_##b
#define SOFT_PASTED(a, b) SOFT_PASTE(a, b)
#define SOFT_FN(x) SOFT_PASTED(SOFT_NAME, x)

/* `side` partitions at a time and `vectors` vectors, both known to the compiler: a row
   of units is read once for all of them, and where neighbours share a label in one,
   the others need not wait until its sums are written. */
GPC_INLINE void SOFT_FN(add)(const int side, const int vectors, const SOFT_CODE* codes,
                             int64_t stride, const int64_t* offsets, int64_t size,
                             const int64_t* units, int64_t width, int64_t* counts) {
    for (int64_t t = 0; t < size; ++t) {
        gpc_longs unit[SOFT_VECTORS];
#pragma GCC unroll 4
        for (int b = 0; b < vectors; ++b)
            unit[b] = *(const gpc_longs*)(units + t * width + b * SOFT_LANES);
#pragma GCC unroll 4
        for (int i = 0; i < side; ++i) {
            int64_t* row = counts + (offsets[i] + codes[i * stride + t]) * width;
#pragma GCC unroll 4
            for (int b = 0; b < vectors; ++b)
                *(gpc_longs*)(row + b * SOFT_LANES) += unit[b];
        }
    }
}

#define SOFT_CASE(vectors)                                                            \
    case vectors:                                                                     \
        if (last - i >= SOFT_SIDE)                                                    \
            SOFT_FN(add)(SOFT_SIDE, vectors, codes + i * stride, stride, offsets + i, \
                         size, units + column, width, counts + column);               \
        else                                                                          \
            SOFT_FN(add)(1, vectors, codes + i * stride, stride, offsets + i, size,   \
                         units + column, width, counts + column);                     \
        break;

static void SOFT_FN(tile)(const SOFT_CODE* codes, int64_t stride,
                          const int64_t* offsets, int64_t first, int64_t last,
                          int64_t size, const int64_t* units, int64_t width,
                          int64_t* counts) {
    int64_t vectors;
    for (int64_t column = 0; column < width; column += vectors * SOFT_LANES) {
        vectors = gpc_min((width - column) / SOFT_LANES, SOFT_VECTORS);
        for (int64_t i = first; i < last; i += last - i >= SOFT_SIDE ? SOFT_SIDE : 1)
            switch (vectors) {
                SOFT_CASE(1)
                SOFT_CASE(2)
                SOFT_CASE(3)
                SOFT_CASE(4)
            }
    }
}

#undef SOFT_CASE
#undef SOFT_FN
#undef SOFT_PASTED
#undef SOFT_PASTE
#undef SOFT_NAME
#undef SOFT_CODE
