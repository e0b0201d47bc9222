// tiles: a table in the order in which `assign` stages it.
//
// A tile is a range of columns, at most 32. Its lines, one for each row of the table,
// lie one after the other: of 32 floats, or of 16 in a last tile of at most 16 columns.
// Where there is a row table, its line of the same columns follows. Places without a
// column hold 0. A thread owns one float at a time.

extern "C" __global__ void __launch_bounds__(256, 4)
    tiles(const float* table, const float* row_table, int n_lines, int n_columns,
          int step, i64 n, float* out) {
    const int n_tables = row_table ? 2 : 1;
    const i64 whole = (i64)n_lines * n_tables * 32;  // floats of a tile before the last
    for (i64 t = (i64)blockIdx.x * blockDim.x + threadIdx.x; t < n;
         t += (i64)gridDim.x * blockDim.x) {
        const int tile = t / whole;
        const int begin = tile * step, end = min(begin + step, n_columns);
        const int width = end - begin > 16 ? 32 : 16;
        const i64 line = t % whole / width;
        const int column = begin + t % width;
        const float* from = line % n_tables ? row_table : table;
        out[t] = column < end ? from[line / n_tables * n_columns + column] : 0.0f;
    }
}
