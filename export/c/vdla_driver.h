/* The driver of the accelerator: it places streams at their addresses, starts them and waits for their end.

   Every function returns VDLA_OK or an error code of vdla_errors.h. */
#ifndef VDLA_DRIVER_H
#define VDLA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "vdla_errors.h"
#include "vdla_platform.h"
#include "vdla_registers.h"

/* How often STATUS is read before a run counts as timed out. */
#ifndef VDLA_POLL_LIMIT
#define VDLA_POLL_LIMIT 1000000000u
#endif

/* A part of memory that the accelerator reads or writes. */
struct vdla_region {
    void *begin;
    size_t bytes;
    uint64_t base; /* bus address for which the streams are relocated */
};

/* Transfers whose DRAM addresses move together. */
struct vdla_users {
    uint32_t region;        /* its position among the regions */
    uint32_t element_bytes; /* the unit in which the instructions count */
};

/* A stream in a region. `user_of` has a number for each instruction: 0 for an instruction without a DRAM
   address, else 1 and the position in `users`. */
struct vdla_stream {
    uint64_t *words;
    uint32_t count;
    const uint8_t *user_of;
};

/* The DRAM address in an instruction, and the bus. */
struct vdla_encoding {
    uint32_t words;       /* of an instruction */
    uint32_t word;        /* that has the field */
    uint32_t shift;       /* of the field in its word */
    uint64_t mask;        /* of the field's value */
    uint64_t last_address; /* that the bus reaches */
    uint64_t alignment;   /* of a region */
};

struct vdla_module {
    uint32_t config_digest; /* first 32 bits */
    struct vdla_encoding encoding;
    const struct vdla_stream *streams;
    uint32_t stream_count;
    const struct vdla_users *users;
    uint32_t user_count;
    struct vdla_region *regions;
    uint32_t region_count;
};

/* Check that the accelerator is the one that the module was compiled for; relocate the streams to the bus
   addresses of the regions; flush the regions. May be repeated. */
int vdla_init(const struct vdla_module *module);

/* Run a stream; return when it has ended. */
int vdla_run(const struct vdla_stream *stream);

/* Return the cycles of the last run. */
uint64_t vdla_cycles(void);

#endif
