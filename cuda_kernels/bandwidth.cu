// shared_read: how fast the blocks of a device read their shared memory.
//
// No method needs it: it is the roof beside which gpu-consensus accept shows the times
// of the other kernels. Neighbouring lanes read neighbouring 16 bytes, so that a
// quarter of a warp asks every bank once and nobody waits for another, as in assign.
//
// The compiler knows neither the step from read to read nor that the memory repeats, so
// it can neither leave a read out nor take one out of the loop; the sums are written at
// the end. n_words is a power of two.

#define READS 8

extern "C" __global__ void __launch_bounds__(512, 2)
    shared_read(int n_rounds, u32 n_words, u32 step, u32* sums) {
    extern __shared__ uint4 words[];
    for (u32 t = threadIdx.x; t < n_words; t += blockDim.x)
        words[t] = make_uint4(t, 2 * t, 3 * t, 5 * t);
    __syncthreads();
    uint4 sum = make_uint4(0, 0, 0, 0);
    u32 at = threadIdx.x;
    for (int round = 0; round < n_rounds; ++round) {
#pragma unroll
        for (int read = 0; read < READS; ++read) {
            const uint4 word = words[at & (n_words - 1)];
            sum.x += word.x;
            sum.y += word.y;
            sum.z += word.z;
            sum.w += word.w;
            at += step;
        }
    }
    sums[blockIdx.x * blockDim.x + threadIdx.x] =
        sum.x + 7 * sum.y + 11 * sum.z + 13 * sum.w;
}
