/* A platform whose accelerator is at the other end of a pipe: registers and DRAM belong to the process that
   started this program (board.py). The generated program defines what follows and calls `serve`.

   To the other process: W address size bytes (flush); R address size (invalidate: it answers with bytes);
   w offset value and r offset (registers: it answers with a value); D status cycles, then outputs.
   From it: I (initialise), X and inputs (run), Q (end). */
#ifndef SHIM_H
#define SHIM_H

#include <stddef.h>
#include <stdint.h>

struct buffer {
    void *begin;
    size_t bytes;
};

extern const struct buffer regions[2]; /* tensors, image */
extern const struct buffer in[], out[];
extern const size_t in_count, out_count;

int board_init(void);
int board_run(void);
uint64_t board_cycles(void);

int serve(int argc, char **argv);

#endif
