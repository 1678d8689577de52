/* What the driver needs from the CPU and its bus. `vdla_platform.c` implements it for plain memory-mapped
   registers; a platform with caches, or with an address translation, has its own implementation. */
#ifndef VDLA_PLATFORM_H
#define VDLA_PLATFORM_H

#include <stddef.h>
#include <stdint.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the accelerator's data are little-endian, and so must the CPU be"
#endif

/* Attributes of the two arrays that the accelerator reads: weights, micro-ops and streams; activations. */
#ifndef VDLA_IMAGE
#define VDLA_IMAGE(alignment) __attribute__((aligned(alignment), section(".data.vdla_image")))
#endif
#ifndef VDLA_TENSORS
#define VDLA_TENSORS(alignment) __attribute__((aligned(alignment), section(".bss.vdla_tensors")))
#endif

/* Read or write the register at a byte offset. */
uint32_t vdla_read32(uint32_t offset);
void vdla_write32(uint32_t offset, uint32_t value);

/* Make bytes that the CPU has written visible to the accelerator. */
void vdla_flush(const void *begin, size_t bytes);

/* Make bytes that the accelerator has written visible to the CPU. */
void vdla_invalidate(void *begin, size_t bytes);

/* Return the address on the accelerator's bus. */
uint64_t vdla_physical(const void *address);

#endif
