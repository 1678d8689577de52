#include "shim.h"

#include <stdio.h>
#include <stdlib.h>

#include "vdla_platform.h"

static uint64_t bases[2];

static void put(const void *begin, size_t bytes)
{
    if (fwrite(begin, 1, bytes, stdout) != bytes)
        exit(3);
}

static void get(void *begin, size_t bytes)
{
    fflush(stdout);
    if (fread(begin, 1, bytes, stdin) != bytes)
        exit(4);
}

static void put_range(char kind, const void *begin, size_t bytes)
{
    uint64_t words[2];

    words[0] = vdla_physical(begin);
    words[1] = bytes;
    put(&kind, 1);
    put(words, sizeof words);
}

uint32_t vdla_read32(uint32_t offset)
{
    uint32_t value;

    put("r", 1);
    put(&offset, sizeof offset);
    get(&value, sizeof value);
    return value;
}

void vdla_write32(uint32_t offset, uint32_t value)
{
    put("w", 1);
    put(&offset, sizeof offset);
    put(&value, sizeof value);
}

void vdla_flush(const void *begin, size_t bytes)
{
    put_range('W', begin, bytes);
    put(begin, bytes);
}

void vdla_invalidate(void *begin, size_t bytes)
{
    put_range('R', begin, bytes);
    get(begin, bytes);
}

uint64_t vdla_physical(const void *address)
{
    int region;

    for (region = 0; region < 2; region++) {
        size_t offset = (size_t)((uintptr_t)address - (uintptr_t)regions[region].begin);

        if (offset < regions[region].bytes)
            return bases[region] + offset;
    }
    exit(5);
}

static void answer(int status)
{
    uint64_t cycles = board_cycles();
    int32_t code = status;

    put("D", 1);
    put(&code, sizeof code);
    put(&cycles, sizeof cycles);
}

int serve(int argc, char **argv)
{
    size_t index;
    char command;

    if (argc != 3)
        return 2;
    bases[0] = strtoull(argv[1], NULL, 0);
    bases[1] = strtoull(argv[2], NULL, 0);
    for (;;) {
        get(&command, 1);
        if (command == 'Q')
            return 0;
        if (command == 'I') {
            answer(board_init());
            continue;
        }
        for (index = 0; index < in_count; index++)
            get(in[index].begin, in[index].bytes);
        answer(board_run());
        for (index = 0; index < out_count; index++)
            put(out[index].begin, out[index].bytes);
    }
}
