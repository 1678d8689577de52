#include "vdla_driver.h"

static int check_hardware(uint32_t config_digest)
{
    if (vdla_read32(VDLA_IDENTITY) != VDLA_IDENTITY_VALUE)
        return VDLA_ERROR_IDENTITY;
    if (vdla_read32(VDLA_VERSION) != VDLA_VERSION_VALUE)
        return VDLA_ERROR_VERSION;
    if (vdla_read32(VDLA_CONFIG_DIGEST) != config_digest)
        return VDLA_ERROR_CONFIGURATION;
    return VDLA_OK;
}

static int check_region(const struct vdla_region *region, const struct vdla_encoding *encoding)
{
    uint64_t base = vdla_physical(region->begin);

    if (base % encoding->alignment != 0 || base > encoding->last_address)
        return VDLA_ERROR_ADDRESS;
    if (region->bytes > 0 && encoding->last_address - base < region->bytes - 1)
        return VDLA_ERROR_ADDRESS;
    return VDLA_OK;
}

/* Return by how many elements, modulo 2^64, the addresses of some transfers move. */
static uint64_t distance(const struct vdla_module *module, const struct vdla_users *users)
{
    const struct vdla_region *region = &module->regions[users->region];

    return vdla_physical(region->begin) / users->element_bytes - region->base / users->element_bytes;
}

static uint64_t *field_of(const struct vdla_module *module, const struct vdla_stream *stream, uint32_t index)
{
    return &stream->words[(size_t)index * module->encoding.words + module->encoding.word];
}

/* Check that every address still fits its field after the move. */
static int check_stream(const struct vdla_module *module, const struct vdla_stream *stream)
{
    const struct vdla_encoding *encoding = &module->encoding;
    uint32_t index;

    for (index = 0; index < stream->count; index++) {
        uint32_t user = stream->user_of[index];
        uint64_t address = *field_of(module, stream, index) >> encoding->shift & encoding->mask;

        if (user != 0 && address + distance(module, &module->users[user - 1]) > encoding->mask)
            return VDLA_ERROR_ADDRESS;
    }
    return VDLA_OK;
}

static void move_stream(const struct vdla_module *module, const struct vdla_stream *stream)
{
    uint32_t index;

    for (index = 0; index < stream->count; index++) {
        uint32_t user = stream->user_of[index];

        if (user != 0)
            *field_of(module, stream, index) += distance(module, &module->users[user - 1])
                                                << module->encoding.shift;
    }
}

static int check_module(const struct vdla_module *module)
{
    int status = check_hardware(module->config_digest);
    uint32_t index;

    for (index = 0; status == VDLA_OK && index < module->region_count; index++)
        status = check_region(&module->regions[index], &module->encoding);
    for (index = 0; status == VDLA_OK && index < module->stream_count; index++)
        status = check_stream(module, &module->streams[index]);
    return status;
}

int vdla_init(const struct vdla_module *module)
{
    int status = check_module(module);
    uint32_t index;

    if (status != VDLA_OK)
        return status;
    for (index = 0; index < module->stream_count; index++)
        move_stream(module, &module->streams[index]);
    for (index = 0; index < module->region_count; index++) {
        struct vdla_region *region = &module->regions[index];

        region->base = vdla_physical(region->begin);
        vdla_flush(region->begin, region->bytes);
    }
    return VDLA_OK;
}

int vdla_run(const struct vdla_stream *stream)
{
    uint64_t address = vdla_physical(stream->words);
    uint32_t polls, status;

    if ((vdla_read32(VDLA_STATUS) & VDLA_STATUS_RUNNING) != 0)
        return VDLA_ERROR_BUSY;
    vdla_write32(VDLA_STREAM_ADDRESS, (uint32_t)(address & 0xffffffffu));
    vdla_write32(VDLA_STREAM_ADDRESS_HIGH, (uint32_t)(address >> 32));
    vdla_write32(VDLA_STREAM_COUNT, stream->count);
    vdla_write32(VDLA_CONTROL, VDLA_CONTROL_START);
    for (polls = 0; polls < VDLA_POLL_LIMIT; polls++) {
        status = vdla_read32(VDLA_STATUS);
        if ((status & VDLA_STATUS_DONE) != 0)
            return (status & VDLA_STATUS_FAULT) != 0 ? vdla_fault_error(vdla_read32(VDLA_FAULT)) : VDLA_OK;
    }
    return VDLA_ERROR_TIMEOUT;
}

uint64_t vdla_cycles(void)
{
    return (uint64_t)vdla_read32(VDLA_CYCLES_HIGH) << 32 | vdla_read32(VDLA_CYCLES);
}
