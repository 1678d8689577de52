/* The platform of a CPU whose caches the accelerator sees through, or that has none. */
#include "vdla_platform.h"

#ifndef VDLA_BASE
#error "define VDLA_BASE as the address of the accelerator's registers, as in -DVDLA_BASE=0x43c00000"
#endif

/* Added to an address of the CPU, modulo 2^64, it gives the address on the accelerator's bus. */
#ifndef VDLA_PHYSICAL_OFFSET
#define VDLA_PHYSICAL_OFFSET 0
#endif

static volatile uint32_t *register_at(uint32_t offset)
{
    return (volatile uint32_t *)((uintptr_t)VDLA_BASE + offset);
}

uint32_t vdla_read32(uint32_t offset)
{
    return *register_at(offset);
}

void vdla_write32(uint32_t offset, uint32_t value)
{
    *register_at(offset) = value;
}

void vdla_flush(const void *begin, size_t bytes)
{
    (void)begin;
    (void)bytes;
    __sync_synchronize();
}

void vdla_invalidate(void *begin, size_t bytes)
{
    (void)begin;
    (void)bytes;
    __sync_synchronize();
}

uint64_t vdla_physical(const void *address)
{
    return (uint64_t)(uintptr_t)address + (uint64_t)(VDLA_PHYSICAL_OFFSET);
}
