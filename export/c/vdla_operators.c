#include "vdla_operators.h"

#include "vdla_integers.h"

#include <math.h>
#include <string.h>

/* Return a float, rounded, plus `zero`, bounded; NaN gives `low`. */
static float bounded(float real, float zero, float low, float high)
{
    float whole = rintf(real) + zero;

    if (!(whole > low))
        return low;
    return whole < high ? whole : high;
}

static int8_t quantized_i8(float real, int8_t zero)
{
    return (int8_t)bounded(real, (float)zero, INT8_MIN, INT8_MAX);
}

static uint8_t quantized_u8(float real, uint8_t zero)
{
    return (uint8_t)bounded(real, (float)zero, 0, UINT8_MAX);
}

#define QUANTIZE(name, type)                                                                                 \
    void vdla_quantize_##name(type *out, const float *x, struct vdla_shape shape, VDLA_SCALES(type))         \
    {                                                                                                        \
        size_t outer, channel, inner;                                                                        \
                                                                                                             \
        for (outer = 0; outer < shape.outer; outer++)                                                        \
            for (channel = 0; channel < shape.channels; channel++)                                           \
                for (inner = 0; inner < shape.inner; inner++)                                                \
                    *out++ = quantized_##name(*x++ / scale[channel * scale_step],                            \
                                              zero[channel * zero_step]);                                    \
    }

QUANTIZE(i8, int8_t)
QUANTIZE(u8, uint8_t)

#define DEQUANTIZE(name, type)                                                                               \
    void vdla_dequantize_##name(float *out, const type *x, struct vdla_shape shape, VDLA_SCALES(type))       \
    {                                                                                                        \
        size_t outer, channel, inner;                                                                        \
                                                                                                             \
        for (outer = 0; outer < shape.outer; outer++)                                                        \
            for (channel = 0; channel < shape.channels; channel++)                                           \
                for (inner = 0; inner < shape.inner; inner++)                                                \
                    *out++ = (float)((int64_t)*x++ - zero[channel * zero_step])                              \
                             * scale[channel * scale_step];                                                  \
    }

DEQUANTIZE(i8, int8_t)
DEQUANTIZE(u8, uint8_t)
DEQUANTIZE(i32, int32_t)

/* The place of the first element of a row over the channels. */
static size_t first_of_row(struct vdla_shape shape, size_t row)
{
    return row / shape.inner * shape.channels * shape.inner + row % shape.inner;
}

/* Softmax of `count` elements, `step` apart. */
static void softmax_row(float *out, const float *x, size_t count, size_t step)
{
    float greatest = x[0];
    double total = 0;
    size_t index;

    for (index = 1; index < count; index++)
        greatest = x[index * step] > greatest ? x[index * step] : greatest;
    for (index = 0; index < count; index++) {
        out[index * step] = expf(x[index * step] - greatest);
        total += (double)out[index * step];
    }
    for (index = 0; index < count; index++)
        out[index * step] /= (float)total;
}

void vdla_softmax(float *out, const float *x, struct vdla_shape shape)
{
    size_t row;

    for (row = 0; row < shape.outer * shape.inner; row++) {
        size_t begin = first_of_row(shape, row);

        softmax_row(out + begin, x + begin, shape.channels, shape.inner);
    }
}

/* Powers in fixed point: their sum depends neither on the order of additions nor on the machine. */
static void in_fixed_point(int64_t *fixed, const float *powers, int fraction_bits)
{
    size_t below;

    for (below = 0; below < VDLA_TABLE_ENTRIES; below++)
        fixed[below] = (int64_t)rint(ldexp((double)powers[below], fraction_bits));
}

/* The sum of the powers of `count` elements, `step` apart, by how far each is below the greatest. */
static int64_t sum_of_powers(const int8_t *x, size_t count, size_t step, int greatest, const int64_t *fixed)
{
    int64_t total = 0;
    size_t index;

    for (index = 0; index < count; index++)
        total += fixed[greatest - x[index * step]];
    return total;
}

static void dequantized_softmax_row(float *out, const int8_t *x, size_t count, size_t step,
                                    const float *powers, const int64_t *fixed, int fraction_bits)
{
    int greatest = vdla_greatest(x, count, step);
    double total = (double)sum_of_powers(x, count, step, greatest, fixed);
    float divisor = (float)ldexp(total, -fraction_bits);
    size_t index;

    for (index = 0; index < count; index++)
        out[index * step] = powers[greatest - x[index * step]] / divisor;
}

void vdla_dequantized_softmax(float *out, const int8_t *x, struct vdla_shape shape, const float *powers,
                              int fraction_bits)
{
    int64_t fixed[VDLA_TABLE_ENTRIES];
    size_t row;

    in_fixed_point(fixed, powers, fraction_bits);
    for (row = 0; row < shape.outer * shape.inner; row++) {
        size_t begin = first_of_row(shape, row);

        dequantized_softmax_row(out + begin, x + begin, shape.channels, shape.inner, powers, fixed,
                                fraction_bits);
    }
}

void vdla_int8_softmax(int8_t *out, const int8_t *x, struct vdla_shape shape, const uint16_t *powers,
                       const int16_t *factor, const int32_t *addend)
{
    size_t row;

    for (row = 0; row < shape.outer * shape.inner; row++) {
        size_t begin = first_of_row(shape, row);

        vdla_softmax_row(out + begin, x + begin, shape.channels, shape.inner, powers, *factor, *addend);
    }
}

static float mean_of_row(const float *x, size_t count)
{
    double total = 0;
    size_t index;

    for (index = 0; index < count; index++)
        total += (double)x[index];
    return (float)(total / (double)count);
}

static void normalised_row(float *out, const float *x, size_t count, float mean, const float *weights,
                           const float *bias, float epsilon)
{
    double squares = 0;
    float inverse;
    size_t index;

    for (index = 0; index < count; index++)
        squares += (double)(x[index] - mean) * (double)(x[index] - mean);
    inverse = 1 / sqrtf((float)(squares / (double)count) + epsilon);
    for (index = 0; index < count; index++) {
        out[index] = (x[index] - mean) * inverse * weights[index];
        if (bias != NULL)
            out[index] += bias[index];
    }
}

void vdla_layer_normalization(float *out, const float *x, size_t outer, size_t inner, const float *weights,
                              const float *bias, float epsilon)
{
    size_t row;

    for (row = 0; row < outer; row++)
        normalised_row(out + row * inner, x + row * inner, inner, mean_of_row(x + row * inner, inner), weights,
                       bias, epsilon);
}

void vdla_rms_normalization(float *out, const float *x, size_t outer, size_t inner, const float *weights,
                            float epsilon)
{
    size_t row;

    for (row = 0; row < outer; row++)
        normalised_row(out + row * inner, x + row * inner, inner, 0, weights, NULL, epsilon);
}

void vdla_int8_layer_normalization(int8_t *out, const int8_t *x, size_t outer, size_t inner,
                                   const int16_t *factors, const int32_t *addends, uint32_t epsilon,
                                   int centred)
{
    size_t row;

    for (row = 0; row < outer; row++)
        vdla_normalised_row(out + row * inner, x + row * inner, inner, factors, addends, epsilon, centred);
}

/* Whether a value takes the place of the best so far. */
static int is_better(float value, float best, int sign, int last)
{
    float difference = sign > 0 ? value - best : best - value;

    return difference > 0 || (last && difference >= 0);
}

#define ARG(name, type)                                                                                      \
    void vdla_arg_##name(int64_t *out, const type *x, struct vdla_shape shape, int sign, int last)           \
    {                                                                                                        \
        size_t outer, inner, channel;                                                                        \
                                                                                                             \
        for (outer = 0; outer < shape.outer; outer++)                                                        \
            for (inner = 0; inner < shape.inner; inner++) {                                                  \
                const type *row = x + outer * shape.channels * shape.inner + inner;                          \
                size_t best = 0;                                                                             \
                                                                                                             \
                for (channel = 1; channel < shape.channels; channel++)                                       \
                    if (is_better((float)row[channel * shape.inner], (float)row[best * shape.inner], sign,   \
                                  last))                                                                     \
                        best = channel;                                                                      \
                *out++ = (int64_t)best;                                                                      \
            }                                                                                                \
    }

ARG(f32, float)
ARG(i8, int8_t)

/* Return the sum of the products of a window with a kernel. */
static double convolved(const float *x, const float *w, const struct vdla_convolution *c, size_t y, size_t left)
{
    size_t channel, row, column;
    double total = 0;

    for (channel = 0; channel < c->channels / c->groups; channel++)
        for (row = 0; row < c->rows; row++)
            for (column = 0; column < c->columns; column++, w++) {
                size_t at_row = y + row * c->row_dilation, at_column = left + column * c->column_dilation;

                if (at_row < c->top || at_row - c->top >= c->height || at_column < c->left
                    || at_column - c->left >= c->width)
                    continue;
                total += (double)x[(channel * c->height + at_row - c->top) * c->width + at_column - c->left]
                         * (double)*w;
            }
    return total;
}

void vdla_convolve(float *out, const float *x, const float *w, const float *bias,
                   const struct vdla_convolution *convolution)
{
    const struct vdla_convolution *c = convolution;
    size_t image, output, row, column, channels = c->channels / c->groups;

    for (image = 0; image < c->n; image++)
        for (output = 0; output < c->outputs; output++) {
            size_t group = output / (c->outputs / c->groups);
            const float *from = x + (image * c->channels + group * channels) * c->height * c->width;
            const float *kernel = w + output * channels * c->rows * c->columns;

            for (row = 0; row < c->out_height; row++)
                for (column = 0; column < c->out_width; column++) {
                    double sum = convolved(from, kernel, c, row * c->row_stride, column * c->column_stride);

                    *out++ = (float)sum + (bias != NULL ? bias[output] : 0);
                }
        }
}

/* Go to the next place in row-major order, and move an offset along; return 0 after the last. */
static int next_place(size_t *place, unsigned rank, const size_t *extents)
{
    unsigned axis = rank;

    while (axis-- > 0) {
        if (++place[axis] < extents[axis])
            return 1;
        place[axis] = 0;
    }
    return 0;
}

static ptrdiff_t offset_of(const size_t *place, unsigned rank, const ptrdiff_t *strides)
{
    ptrdiff_t offset = 0;
    unsigned axis;

    for (axis = 0; axis < rank; axis++)
        offset += (ptrdiff_t)place[axis] * strides[axis];
    return offset;
}

static float result_of(enum vdla_binary operation, float a, float b)
{
    switch (operation) {
    case VDLA_ADD:
        return a + b;
    case VDLA_SUB:
        return a - b;
    case VDLA_MUL:
        return a * b;
    case VDLA_DIV:
        return a / b;
    case VDLA_MAX:
        return isnan(a) || a > b ? a : b;
    case VDLA_MIN:
        return isnan(a) || a < b ? a : b;
    }
    return 0;
}

void vdla_binary(float *out, const float *a, const float *b, enum vdla_binary operation, unsigned rank,
                 const size_t *extents, const ptrdiff_t *a_strides, const ptrdiff_t *b_strides)
{
    size_t place[VDLA_MAX_RANK] = {0};

    do
        *out++ = result_of(operation, a[offset_of(place, rank, a_strides)],
                           b[offset_of(place, rank, b_strides)]);
    while (next_place(place, rank, extents));
}

void vdla_clip(float *out, const float *x, size_t count, float low, float high)
{
    size_t index;

    for (index = 0; index < count; index++)
        out[index] = result_of(VDLA_MIN, result_of(VDLA_MAX, x[index], low), high);
}

void vdla_move(void *out, const void *x, size_t size, unsigned rank, const size_t *extents,
               const ptrdiff_t *strides)
{
    size_t place[VDLA_MAX_RANK] = {0};
    char *to = out;

    do {
        memcpy(to, (const char *)x + offset_of(place, rank, strides) * (ptrdiff_t)size, size);
        to += size;
    } while (next_place(place, rank, extents));
}

void vdla_copy_rows(void *out, size_t out_pitch, const void *x, size_t x_pitch, size_t row_bytes, size_t rows)
{
    size_t row;

    for (row = 0; row < rows; row++)
        memcpy((char *)out + row * out_pitch, (const char *)x + row * x_pitch, row_bytes);
}

void vdla_gather(void *out, const void *x, size_t size, struct vdla_shape shape, const int64_t *indices,
                 size_t count)
{
    size_t outer, number, bytes = shape.inner * size;
    char *to = out;

    for (outer = 0; outer < shape.outer; outer++)
        for (number = 0; number < count; number++) {
            int64_t index = indices[number] < 0 ? indices[number] + (int64_t)shape.channels : indices[number];

            memcpy(to, (const char *)x + (outer * shape.channels + (size_t)index) * bytes, bytes);
            to += bytes;
        }
}

void vdla_lookup(void *out, const int8_t *x, size_t count, const void *table, size_t size)
{
    size_t index;

    for (index = 0; index < count; index++)
        memcpy((char *)out + index * size, (const char *)table + (size_t)(x[index] + 128) * size, size);
}

void vdla_flip_sign(void *out, const void *x, size_t count)
{
    const uint8_t *from = x;
    uint8_t *to = out;
    size_t index;

    for (index = 0; index < count; index++)
        to[index] = from[index] ^ 0x80u;
}

void vdla_requantise(int8_t *out, const int8_t *x, size_t count, const int64_t *parameters)
{
    size_t index;

    for (index = 0; index < count; index++)
        out[index] = vdla_requantised(x[index], parameters, 1);
}

#define INT8_MATMUL(name, type)                                                                              \
    void vdla_int8_matmul_##name(int8_t *out, const int8_t *x, const type *w, size_t rows, size_t depth,     \
                                 size_t columns, const int64_t *parameters, size_t parameter_channels)       \
    {                                                                                                        \
        size_t row, column, k;                                                                               \
                                                                                                             \
        for (row = 0; row < rows; row++)                                                                     \
            for (column = 0; column < columns; column++) {                                                   \
                size_t channel = parameter_channels > 1 ? column : 0;                                        \
                int64_t total = 0;                                                                           \
                                                                                                             \
                for (k = 0; k < depth; k++)                                                                  \
                    total += (int64_t)x[row * depth + k] * w[k * columns + column];                          \
                *out++ = vdla_requantised(total, parameters + channel, parameter_channels);                       \
            }                                                                                                \
    }

INT8_MATMUL(i8, int8_t)
INT8_MATMUL(i16, int16_t)
