/* Operators of a network that run on the CPU.

   Rounding is to nearest, ties to even; results saturate. Compile without -ffast-math and with
   -ffp-contract=off. A tensor of shape [outer, channels, inner] is in row-major order. */
#ifndef VDLA_OPERATORS_H
#define VDLA_OPERATORS_H

#include <stddef.h>
#include <stdint.h>

enum { VDLA_MAX_RANK = 16, VDLA_TABLE_ENTRIES = 256, VDLA_PARAMETERS = 4 };

struct vdla_shape {
    size_t outer, channels, inner;
};

/* Scale and zero point, for each channel or for all: the steps are 1 or 0. */
#define VDLA_SCALES(type) const float *scale, size_t scale_step, const type *zero, size_t zero_step

/* out = saturate(round(x / scale) + zero); NaN gives the least integer. */
void vdla_quantize_i8(int8_t *out, const float *x, struct vdla_shape shape, VDLA_SCALES(int8_t));
void vdla_quantize_u8(uint8_t *out, const float *x, struct vdla_shape shape, VDLA_SCALES(uint8_t));

/* out = (x - zero) scale */
void vdla_dequantize_i8(float *out, const int8_t *x, struct vdla_shape shape, VDLA_SCALES(int8_t));
void vdla_dequantize_u8(float *out, const uint8_t *x, struct vdla_shape shape, VDLA_SCALES(uint8_t));
void vdla_dequantize_i32(float *out, const int32_t *x, struct vdla_shape shape, VDLA_SCALES(int32_t));

/* out = exp(x) / sum of exp(x) over the channels; out may be x. */
void vdla_softmax(float *out, const float *x, struct vdla_shape shape);

/* The same of x scale: powers[d] is exp(-scale d). The sum of powers has `fraction_bits` fraction bits. */
void vdla_dequantized_softmax(float *out, const int8_t *x, struct vdla_shape shape, const float *powers,
                              int fraction_bits);

/* The same from int8 to int8, in integers; see vdla_softmax_row. */
void vdla_int8_softmax(int8_t *out, const int8_t *x, struct vdla_shape shape, const uint16_t *powers,
                       const int16_t *factor, const int32_t *addend);

/* out = (x - mean) / sqrt(variance + epsilon) weights + bias over `inner`; bias may be NULL. */
void vdla_layer_normalization(float *out, const float *x, size_t outer, size_t inner, const float *weights,
                              const float *bias, float epsilon);

/* out = x / sqrt(mean of x^2 + epsilon) weights over `inner`. */
void vdla_rms_normalization(float *out, const float *x, size_t outer, size_t inner, const float *weights,
                            float epsilon);

/* Both from int8 to int8, in integers; see vdla_normalised_row. */
void vdla_int8_layer_normalization(int8_t *out, const int8_t *x, size_t outer, size_t inner,
                                   const int16_t *factors, const int32_t *addends, uint32_t epsilon,
                                   int centred);

/* out = where the greatest (sign 1) or the least (sign -1) channel is: the first of equals, or the last. */
void vdla_arg_f32(int64_t *out, const float *x, struct vdla_shape shape, int sign, int last);
void vdla_arg_i8(int64_t *out, const int8_t *x, struct vdla_shape shape, int sign, int last);

/* A convolution of x[n, channels, height, width] with w[outputs, channels / groups, rows, columns]. */
struct vdla_convolution {
    size_t n, channels, height, width;
    size_t outputs, out_height, out_width;
    size_t rows, columns, groups;
    size_t row_stride, column_stride, row_dilation, column_dilation;
    size_t top, left; /* padding with zeros */
};

/* out[n, outputs, out_height, out_width] = x * w + bias; bias may be NULL. Sums are of double precision. */
void vdla_convolve(float *out, const float *x, const float *w, const float *bias,
                   const struct vdla_convolution *convolution);

/* Operators on two tensors, broadcast to `extents` by strides in elements. */
enum vdla_binary { VDLA_ADD, VDLA_SUB, VDLA_MUL, VDLA_DIV, VDLA_MAX, VDLA_MIN };
void vdla_binary(float *out, const float *a, const float *b, enum vdla_binary operation, unsigned rank,
                 const size_t *extents, const ptrdiff_t *a_strides, const ptrdiff_t *b_strides);

/* out = min(max(x, low), high) */
void vdla_clip(float *out, const float *x, size_t count, float low, float high);

/* Copy elements of `size` bytes: out is contiguous, x has strides in elements. */
void vdla_move(void *out, const void *x, size_t size, unsigned rank, const size_t *extents,
               const ptrdiff_t *strides);

/* Copy rows of bytes. */
void vdla_copy_rows(void *out, size_t out_pitch, const void *x, size_t x_pitch, size_t row_bytes, size_t rows);

/* Copy the slices [outer, indices, inner] of [outer, extent, inner], whose elements have `size` bytes. */
void vdla_gather(void *out, const void *x, size_t size, struct vdla_shape shape, const int64_t *indices,
                 size_t count);

/* out = table[x + 128] for entries of `size` bytes */
void vdla_lookup(void *out, const int8_t *x, size_t count, const void *table, size_t size);

/* out = x + 128 modulo 256: from int8 to uint8 and back */
void vdla_flip_sign(void *out, const void *x, size_t count);

/* Requantise: parameters[4][channels or 1] are those of the instruction set. */
void vdla_requantise(int8_t *out, const int8_t *x, size_t count, const int64_t *parameters);

/* out[rows, columns] = x[rows, depth] w[depth, columns], requantised; parameters[4][parameter_channels] */
void vdla_int8_matmul_i8(int8_t *out, const int8_t *x, const int8_t *w, size_t rows, size_t depth,
                         size_t columns, const int64_t *parameters, size_t parameter_channels);
void vdla_int8_matmul_i16(int8_t *out, const int8_t *x, const int16_t *w, size_t rows, size_t depth,
                          size_t columns, const int64_t *parameters, size_t parameter_channels);

#endif
