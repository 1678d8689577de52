// The part of zlib.h that Verilator's writer of FST files uses, so that FST needs no library to be installed.
// Data are stored, not compressed: the writer then takes them as they are. Most of a file is packed by LZ4.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>

#define Z_OK 0
#define Z_BUF_ERROR (-5)

using uLong = unsigned long;
using uLongf = unsigned long;
using Bytef = unsigned char;

inline uLong compressBound(uLong size) { return size + 5 * (size / 65535 + 1) + 6; }

inline int compress2(Bytef* target, uLongf* target_size, const Bytef* source, uLong size, int) {
    if (*target_size < compressBound(size)) return Z_BUF_ERROR;
    Bytef* out = target;
    *out++ = 0x78, *out++ = 0x01;
    uint32_t low = 1, high = 0;
    for (uLong done = 0; done < size || size == 0;) {
        const uLong part = size - done < 65535 ? size - done : 65535;
        *out++ = done + part == size;  // the last block?
        *out++ = static_cast<Bytef>(part), *out++ = static_cast<Bytef>(part >> 8);
        *out++ = static_cast<Bytef>(~part), *out++ = static_cast<Bytef>(~part >> 8);
        std::memcpy(out, source + done, part);
        for (uLong index = 0; index < part; ++index) {
            low = (low + out[index]) % 65521;
            high = (high + low) % 65521;
        }
        out += part, done += part;
        if (size == 0) break;
    }
    for (uint32_t half : {high, low}) *out++ = static_cast<Bytef>(half >> 8), *out++ = static_cast<Bytef>(half);
    *target_size = static_cast<uLongf>(out - target);
    return Z_OK;
}
