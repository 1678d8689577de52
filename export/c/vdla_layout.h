/* Copies between tensors as the network has them and the blocked layout of the accelerator's DRAM. */
#ifndef VDLA_LAYOUT_H
#define VDLA_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

/* An image [n, c, height, width] in blocks [n / batch, c / block, height, width, batch, block]. A matrix is
   an image with a width of 1. Elements of the image are at multiples of the strides in the tensor; those at
   or beyond `elements` are padding. */
struct vdla_layout {
    size_t n, c, height, width;
    size_t batch, block;
    size_t n_stride, c_stride, row_stride, column_stride;
    size_t elements;
};

/* The windows of an image [n, channels, height, width], in lines of `pitch` bytes, or, with a pitch of 0, one
   by one in blocks. A line holds `rows` rows of the image, of which the first is `advance` rows below that of
   the line before; a column of the line has the channels of a pixel of each row. A window begins every `step`
   bytes. `top` and `left` are the border before the image, with the value `border`. */
struct vdla_windows {
    size_t n, channels, height, width;
    size_t lines, rows, advance, column, columns, step;
    size_t top, left, pitch;
    size_t elements, batch, block;
    int8_t border;
};

/* Write a tensor in blocks; padding is 0. */
void vdla_pack(int8_t *blocks, const int8_t *tensor, const struct vdla_layout *layout);

/* Read a tensor from blocks. */
void vdla_unpack(int8_t *tensor, const int8_t *blocks, const struct vdla_layout *layout);

/* Write the windows of an image. */
void vdla_pack_windows(int8_t *out, const int8_t *image, const struct vdla_windows *windows);

#endif
