#include "vdla_layout.h"

#include <string.h>

/* A block of channels of a pixel of an image. */
struct place {
    size_t image, channel, row, column;
};

static size_t least(size_t left, size_t right)
{
    return left < right ? left : right;
}

/* Go to the next block in the order of DRAM; return 0 after the last. */
static int advance(struct place *at, const struct vdla_layout *layout)
{
    if (++at->image % layout->batch != 0)
        return 1;
    at->image -= layout->batch;
    if (++at->column < layout->width)
        return 1;
    at->column = 0;
    if (++at->row < layout->height)
        return 1;
    at->row = 0;
    at->channel += layout->block;
    if (at->channel < layout->c)
        return 1;
    at->channel = 0;
    at->image += layout->batch;
    return at->image < layout->n;
}

/* Return the position in the tensor of the first element of a block. */
static size_t offset_of(const struct place *at, const struct vdla_layout *layout)
{
    return at->image * layout->n_stride + at->channel * layout->c_stride + at->row * layout->row_stride
           + at->column * layout->column_stride;
}

/* Return how many elements of a block are in the tensor; the others are padding. */
static size_t used(const struct place *at, const struct vdla_layout *layout)
{
    if (at->image >= layout->n || offset_of(at, layout) >= layout->elements)
        return 0;
    return least(layout->block, layout->c - at->channel);
}

void vdla_pack(int8_t *blocks, const int8_t *tensor, const struct vdla_layout *layout)
{
    struct place at = {0, 0, 0, 0};

    do {
        size_t count = used(&at, layout), offset = offset_of(&at, layout), index;

        for (index = 0; index < count; index++)
            blocks[index] = tensor[offset + index * layout->c_stride];
        memset(blocks + count, 0, layout->block - count);
        blocks += layout->block;
    } while (advance(&at, layout));
}

void vdla_unpack(int8_t *tensor, const int8_t *blocks, const struct vdla_layout *layout)
{
    struct place at = {0, 0, 0, 0};

    do {
        size_t count = used(&at, layout), offset = offset_of(&at, layout), index;

        for (index = 0; index < count; index++)
            tensor[offset + index * layout->c_stride] = blocks[index];
        blocks += layout->block;
    } while (advance(&at, layout));
}

/* Return the byte at a position of a line. */
static int8_t line_byte(const int8_t *image, const struct vdla_windows *w, size_t line, size_t position)
{
    size_t column = position / w->column, rest = position % w->column;
    size_t row = line * w->advance + rest / w->channels;

    if (rest >= w->rows * w->channels || row < w->top || row >= w->top + w->height || column < w->left
        || column >= w->left + w->width)
        return w->border;
    return image[((rest % w->channels) * w->height + row - w->top) * w->width + column - w->left];
}

static void pack_lines(int8_t *out, const int8_t *image, const struct vdla_windows *w)
{
    size_t row, x, channel, line;

    memset(out, w->border, w->lines * w->pitch);
    for (line = 0; line < w->lines; line++)
        for (row = 0; row < w->rows; row++) {
            size_t y = line * w->advance + row;

            if (y < w->top || y >= w->top + w->height)
                continue;
            for (x = 0; x < w->width; x++)
                for (channel = 0; channel < w->channels; channel++) {
                    size_t position = (x + w->left) * w->column + row * w->channels + channel;

                    if (position < w->pitch)
                        out[line * w->pitch + position] =
                            image[(channel * w->height + y - w->top) * w->width + x];
                }
        }
}

/* Write the bytes of a window that lie in one block; an image beyond the last is padding. */
static void pack_block(int8_t *out, const int8_t *image, const struct vdla_windows *w, size_t line, size_t first)
{
    size_t index;

    if (image == NULL) {
        memset(out, 0, w->block);
        return;
    }
    for (index = 0; index < w->block; index++)
        out[index] = line_byte(image, w, line, first + index);
}

/* Write an element of all windows of `batch` images. */
static int8_t *pack_element(int8_t *out, const int8_t *images, const struct vdla_windows *w, size_t first,
                            size_t element)
{
    size_t line, column, image, size = w->channels * w->height * w->width;

    for (line = 0; line < w->lines; line++)
        for (column = 0; column < w->columns; column++)
            for (image = first; image < first + w->batch; image++) {
                pack_block(out, image < w->n ? images + image * size : NULL, w, line,
                           column * w->step + element * w->block);
                out += w->block;
            }
    return out;
}

void vdla_pack_windows(int8_t *out, const int8_t *image, const struct vdla_windows *windows)
{
    size_t number, element, size = windows->channels * windows->height * windows->width;

    if (windows->pitch != 0) {
        for (number = 0; number < windows->n; number++)
            pack_lines(out + number * windows->lines * windows->pitch, image + number * size, windows);
        return;
    }
    for (number = 0; number < windows->n; number += windows->batch)
        for (element = 0; element < windows->elements; element++)
            out = pack_element(out, image, windows, number, element);
}
