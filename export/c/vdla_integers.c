#include "vdla_integers.h"

#include <math.h>

/* Return `value` modulo 2^bits as a signed integer. */
static int64_t wrapped(int64_t value, unsigned bits)
{
    uint64_t sign = (uint64_t)1 << (bits - 1), low = (uint64_t)value & (2 * sign - 1);

    return (int64_t)(low ^ sign) - (int64_t)sign;
}

/* Return the floor of value / 2^amount. */
static int64_t shifted(int64_t value, unsigned amount)
{
    return value >= 0 ? value >> amount : ~(~value >> amount);
}

int8_t vdla_requantised(int64_t value, const int64_t *parameters, size_t step)
{
    int64_t multiplier = parameters[step] & 0xffff;
    unsigned shift = (unsigned)(parameters[2 * step] & 0x3f);
    int64_t zero = wrapped(shifted(parameters[2 * step], 8), 8);
    int64_t least = wrapped(parameters[3 * step], 8), greatest = wrapped(shifted(parameters[3 * step], 8), 8);
    int64_t product = wrapped(value + parameters[0], 32) * multiplier;
    int64_t result = shifted(shifted(product * 2, shift) + 1, 1) + zero;

    result = result < greatest ? result : greatest;
    return (int8_t)(result > least ? result : least);
}

/* A function of a mantissa of 16 bits, interpolated between the ends of one of 256 intervals. */
static uint32_t interpolated(uint32_t place, uint32_t (*end)(uint32_t number))
{
    uint32_t interval = place >> 8, begin = end(interval), fall = begin - end(interval + 1);

    return begin - (fall * (place & 0xff) >> 8);
}

static uint32_t bounded_mantissa(uint64_t mantissa)
{
    return mantissa < 0xffff ? (uint32_t)mantissa : 0xffff;
}

/* 2^31 / n for n from 2^15 to 2^16. */
static uint32_t end_of_reciprocals(uint32_t number)
{
    uint64_t end = 0x8000 + ((uint64_t)number << 7);

    return bounded_mantissa((((uint64_t)2 << 31) + end) / (2 * end));
}

/* 2^23 / sqrt(n) for n from 2^14 to 2^15 in 128 intervals, and in 128 to 2^16. */
static uint32_t end_of_reciprocal_roots(uint32_t number)
{
    uint64_t end = number < 128 ? (uint64_t)(128 + number) << 7 : (uint64_t)number << 8;
    uint64_t root = (uint64_t)floor(sqrt((double)(((uint64_t)1 << 48) / end)));

    return bounded_mantissa((root + 1) / 2);
}

static int bit_length(uint64_t number)
{
    int bits = 0;

    for (; number != 0; number >>= 1)
        bits++;
    return bits;
}

static uint32_t scaled_by(uint64_t number, int amount)
{
    return (uint32_t)(amount >= 0 ? number >> amount : number << -amount);
}

/* What a number is multiplied with, and then shifted right by, to divide it. */
struct divisor {
    uint32_t mantissa;
    int exponent;
};

static struct divisor reciprocal(uint64_t number)
{
    struct divisor result = {0, 0};

    if (number != 0) {
        result.exponent = bit_length(number) - 16;
        result.mantissa =
            interpolated(scaled_by(number, result.exponent) << 1 & 0xffff, end_of_reciprocals);
    }
    return result;
}

static struct divisor reciprocal_root(uint64_t number)
{
    struct divisor result = {0, 0};
    int beyond = bit_length(number) - 16;
    uint32_t mantissa;

    if (number != 0) {
        result.exponent = beyond >= 0 ? (beyond + 1) / 2 : -(-beyond / 2);
        mantissa = scaled_by(number, 2 * result.exponent);
        result.mantissa = interpolated(mantissa >= 0x8000 ? mantissa : (mantissa << 1) - 0x8000,
                                       end_of_reciprocal_roots);
    }
    return result;
}

static int64_t saturated(int64_t value, int bits)
{
    int64_t bound = (int64_t)1 << (bits - 1);

    if (value < -bound)
        return -bound;
    return value < bound ? value : bound - 1;
}

static int8_t normal_output(int64_t scaled, int16_t factor, int32_t addend)
{
    return (int8_t)saturated(shifted(saturated(scaled, 18) * factor + addend, 18), 8);
}

int vdla_greatest(const int8_t *x, size_t count, size_t step)
{
    int greatest = x[0];
    size_t index;

    for (index = 1; index < count; index++)
        greatest = x[index * step] > greatest ? x[index * step] : greatest;
    return greatest;
}

void vdla_softmax_row(int8_t *out, const int8_t *x, size_t count, size_t step, const uint16_t *powers,
                      int16_t factor, int32_t addend)
{
    int greatest = vdla_greatest(x, count, step);
    uint32_t total = 0;
    struct divisor divisor;
    size_t index;

    for (index = 0; index < count; index++)
        total += powers[greatest - x[index * step]];
    divisor = reciprocal(total);
    for (index = 0; index < count; index++) {
        int64_t power = powers[greatest - x[index * step]];

        out[index * step] = normal_output(power * divisor.mantissa >> (15 + divisor.exponent), factor, addend);
    }
}

/* floor(log2(count)) */
static int count_exponent(size_t count)
{
    return bit_length(count) - 1;
}

/* The mean, times 2^8. */
static int64_t mean_of(int64_t total, size_t count)
{
    int exponent = count_exponent(count), shift = 8 + exponent;
    uint64_t doubled = 2 * (uint64_t)count;
    uint64_t inverse = (((uint64_t)2 << (16 + exponent)) + count) / doubled;

    return shifted(total * bounded_mantissa(inverse) + ((int64_t)1 << (shift - 1)), (unsigned)shift);
}

void vdla_normalised_row(int8_t *out, const int8_t *x, size_t count, const int16_t *factors,
                         const int32_t *addends, uint32_t epsilon, int centred)
{
    int64_t total = 0, squares = 0, mean, spread;
    struct divisor divisor;
    size_t index;
    int shift;

    for (index = 0; index < count; index++) {
        total += x[index];
        squares += x[index] * x[index];
    }
    if (!centred)
        total = 0;
    mean = mean_of(total, count);
    spread = (int64_t)count * squares - total * total + epsilon;
    divisor = reciprocal_root(spread > 0 ? (uint64_t)spread : 0);
    shift = 21 - count_exponent(count) + divisor.exponent;
    if (shift < 0)
        shift = 0;
    for (index = 0; index < count; index++) {
        int64_t product = ((int64_t)x[index] * 256 - mean) * divisor.mantissa;

        out[index] = normal_output(shifted(product, (unsigned)shift), factors[index], addends[index]);
    }
}
