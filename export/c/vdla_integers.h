/* Arithmetic of the accelerator on integers. */
#ifndef VDLA_INTEGERS_H
#define VDLA_INTEGERS_H

#include <stddef.h>
#include <stdint.h>

/* Return clip(zero + round((value + bias) * multiplier / 2^shift)); halves round up, value + bias wraps. The
   parameters are those of a channel, `step` apart. */
int8_t vdla_requantised(int64_t value, const int64_t *parameters, size_t step);

/* Return the greatest of `count` elements, `step` apart. */
int vdla_greatest(const int8_t *x, size_t count, size_t step);

/* Softmax of `count` elements, `step` apart: floor((2^16 power / sum of powers factor + addend) / 2^18). */
void vdla_softmax_row(int8_t *out, const int8_t *x, size_t count, size_t step, const uint16_t *powers,
                      int16_t factor, int32_t addend);

/* Layer normalisation: floor((2^10 (x - mean) / deviation factors + addends) / 2^18). `epsilon` is added to
   count^2 times the variance. If not `centred`, the mean counts as 0. */
void vdla_normalised_row(int8_t *out, const int8_t *x, size_t count, const int16_t *factors,
                         const int32_t *addends, uint32_t epsilon, int centred);

#endif
