// The part of lz4.h that Verilator's writer of FST files uses, so that FST needs no library to be installed.
// Compression is greedy, with one candidate per hash; the result is an LZ4 block that every reader takes.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace vdla_lz4 {

constexpr int LEAST_MATCH = 4;
constexpr int LAST_LITERALS = 5;      // a block ends with so many literals at least
constexpr int LAST_MATCH_START = 12;  // and no match starts closer to its end
constexpr int FARTHEST = 65535;
constexpr int HASH_BITS = 14;

inline uint32_t word(const uint8_t* place) {
    uint32_t value;
    std::memcpy(&value, place, sizeof value);
    return value;
}

inline uint8_t* put_length(uint8_t* out, int length) {
    for (length -= 15; length >= 255; length -= 255) *out++ = 255;
    *out++ = static_cast<uint8_t>(length);
    return out;
}

// Write literals, and the match behind them; match_length 0: the literals end the block.
inline uint8_t* put(uint8_t* out, const uint8_t* literals, int count, int distance, int match_length) {
    const int longer = match_length ? match_length - LEAST_MATCH : 0;
    *out++ = static_cast<uint8_t>((count < 15 ? count : 15) << 4 | (longer < 15 ? longer : 15));
    if (count >= 15) out = put_length(out, count);
    std::memcpy(out, literals, count);
    out += count;
    if (!match_length) return out;
    *out++ = static_cast<uint8_t>(distance);
    *out++ = static_cast<uint8_t>(distance >> 8);
    return longer >= 15 ? put_length(out, longer) : out;
}

}  // namespace vdla_lz4

inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

// Return the size of the block, or 0 when `capacity` is less than LZ4_compressBound.
inline int LZ4_compress_default(const char* source, char* target, int size, int capacity) {
    using namespace vdla_lz4;
    if (capacity < LZ4_compressBound(size)) return 0;
    const uint8_t* const in = reinterpret_cast<const uint8_t*>(source);
    uint8_t* out = reinterpret_cast<uint8_t*>(target);
    std::vector<int> seen(1 << HASH_BITS, -1);
    int start = 0;  // of the literals that are not written yet
    for (int place = 0; place <= size - LAST_MATCH_START;) {
        int& candidate = seen[word(in + place) * 2654435761u >> (32 - HASH_BITS)];
        const int before = candidate;
        candidate = place;
        if (before < 0 || place - before > FARTHEST || word(in + before) != word(in + place)) {
            ++place;
            continue;
        }
        int length = LEAST_MATCH;
        while (place + length < size - LAST_LITERALS && in[before + length] == in[place + length]) ++length;
        out = put(out, in + start, place - start, place - before, length);
        start = place += length;
    }
    out = put(out, in + start, size - start, 0, 0);
    return static_cast<int>(out - reinterpret_cast<uint8_t*>(target));
}
