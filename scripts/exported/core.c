/* A program of a RISC-V core beside the accelerator: it serves the host through a mailbox at the beginning of the
   core's memory. The generated program defines what `shim.h` declares.

   The host writes inputs, then a command, and waits until the command is 0. It then reads status, cycles and
   outputs. */
#include "shim.h"

#ifndef UPTIME_LATCH
#error "define UPTIME_LATCH and UPTIME_CYCLES as addresses of registers of LiteX's timer"
#endif

enum { NONE, INIT, RUN };

struct mailbox {
    uint32_t entry; /* the core's ROM goes there, once it is not 0 */
    uint32_t command;
    int32_t status;
    uint32_t cycles;      /* of the accelerator */
    uint32_t core_cycles; /* from the command to the status */
    const struct buffer *in, *out;
};

__attribute__((used, section(".mailbox"))) static volatile struct mailbox mailbox = {0, NONE, 0, 0, 0, in, out};

extern uint32_t bss_begin[], bss_end[];
int main(int argc, char **argv);

/* The first instructions: a stack. */
__asm__(".section .text.start, \"ax\"\n.globl _start\n_start:\n\tla sp, stack_end\n\tj begin\n.text\n");

__attribute__((used)) static void begin(void)
{
    uint32_t *word;

    for (word = bss_begin; word < bss_end; word++)
        *word = 0;
    main(0, 0);
}

/* Cycles since the reset, modulo 2^32. */
static uint32_t now(void)
{
    *(volatile uint32_t *)UPTIME_LATCH = 1;
    return ((volatile uint32_t *)UPTIME_CYCLES)[1];
}

int serve(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    for (;;) {
        uint32_t first;

        while (mailbox.command == NONE)
            ;
        first = now();
        mailbox.status = mailbox.command == INIT ? board_init() : board_run();
        mailbox.core_cycles = now() - first;
        mailbox.cycles = (uint32_t)board_cycles();
        __sync_synchronize();
        mailbox.command = NONE;
    }
}
