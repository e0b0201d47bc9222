// Accesses whose traffic is known by arithmetic.
template <typename T>
__device__ void strided(const T* in, T* out, int stride, int offset) {
    extern __shared__ float4 memory[];
    T* shared = reinterpret_cast<T*>(memory);
    const int lane = threadIdx.x;
    shared[lane * stride] = in[offset + lane * stride];
    __syncthreads();
    out[lane] = shared[lane * stride];
}

#define INSTANCE(T)                                                         \
    extern "C" __global__ void strided_##T(const T* in, T* out, int stride, \
                                           int offset) {                    \
        strided<T>(in, out, stride, offset);                                \
    }
typedef unsigned char byte;
INSTANCE(byte)
INSTANCE(float)
INSTANCE(double)
INSTANCE(float2)
INSTANCE(float4)
