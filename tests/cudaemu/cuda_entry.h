// How Python calls a kernel: a table with the name, the parameter types and a function
// that unpacks void** arguments as the driver does.
#pragma once
#include "runtime.h"

namespace emu {

template <class T>
struct Type {
    static constexpr const char* code = "struct";
    static constexpr const char* pointer = "*void";
};
template <class T>
struct Type<const T> : Type<T> {};
template <class T>
struct Type<T*> {
    static constexpr const char* code = Type<T>::pointer;
    static constexpr const char* pointer = "*void";
};
#define EMU_TYPE(T, CODE)                                \
    template <>                                          \
    struct Type<T> {                                     \
        static constexpr const char* code = CODE;        \
        static constexpr const char* pointer = "*" CODE; \
    };
EMU_TYPE(bool, "b1")
EMU_TYPE(char, "i1")
EMU_TYPE(signed char, "i1")
EMU_TYPE(unsigned char, "u1")
EMU_TYPE(short, "i2")
EMU_TYPE(unsigned short, "u2")
EMU_TYPE(int, "i4")
EMU_TYPE(unsigned, "u4")
EMU_TYPE(long, "i8")
EMU_TYPE(unsigned long, "u8")
EMU_TYPE(long long, "i8")
EMU_TYPE(unsigned long long, "u8")
EMU_TYPE(float, "f4")
EMU_TYPE(double, "f8")
EMU_TYPE(uchar4, "u1x4")
EMU_TYPE(int2, "i4x2")
EMU_TYPE(int4, "i4x4")
EMU_TYPE(uint2, "u4x2")
EMU_TYPE(uint4, "u4x4")
EMU_TYPE(float2, "f4x2")
EMU_TYPE(float4, "f4x4")
EMU_TYPE(double2, "f8x2")

template <auto function>
struct Entry;

template <class... A, void (*function)(A...)>
struct Entry<function> {
    static constexpr const char* types[] = {Type<A>::code..., nullptr};

    template <int... index>
    EMU_UNSEEN static void call(void** arguments) {
        function(*static_cast<A*>(arguments[index])...);
    }
    static constexpr Kernel describe(const char* name, int max_threads) {
        return describe(name, max_threads, Pack<__integer_pack(sizeof...(A))...>{});
    }

private:
    template <int... index>
    struct Pack {};
    template <int... index>
    static constexpr Kernel describe(const char* name, int max_threads,
                                     Pack<index...>) {
        return {name, &call<index...>, max_threads, (int)sizeof...(A), types};
    }
};

}  // namespace emu

// The function comes last because a template instance may contain commas.
#define EMU_KERNEL(name, max_threads, ...) \
    emu::Entry<&__VA_ARGS__>::describe(name, max_threads),
