// The AXI top in front of LiteDRAM, behind the functions of the RTL device's shim.

#include <cstdint>
#include <cstring>
#include <memory>

#include "Vtop.h"
#include "Vtop___024root.h"
#include "verilated.h"

namespace {

constexpr unsigned BANKS = 4, WORD_BYTES = 2, WRITE_CYCLES = 2;

class System {
  public:
    explicit System(uint32_t phase) : phase_(phase) { reset(); }
    ~System() { top_.final(); }

    void reset() {
        top_.aresetn = 0;
        top_.controller_reset = 1;
        for (int cycle = 0; cycle < 4; ++cycle) tick();
        top_.aresetn = 1;
        tick();
    }

    void tick() {
        top_.clk = 0;
        top_.eval();
        ready_ = top_.s_awready, valid_ = top_.s_rvalid, value_ = top_.s_rdata;
        top_.clk = 1;
        top_.eval();
        ++cycle_;
    }

    // Read a register by AXI4-Lite.
    uint32_t read(uint32_t offset) {
        top_.s_araddr = offset, top_.s_arvalid = 1, top_.s_rready = 1;
        do { tick(); } while (!valid_);
        top_.s_arvalid = 0;
        const uint32_t value = value_;
        tick();
        return value;
    }

    // Write a register; return the cycle in which the core saw the write.
    uint64_t write(uint32_t offset, uint32_t value) {
        top_.s_awaddr = offset, top_.s_wdata = value, top_.s_awvalid = top_.s_wvalid = 1;
        do { tick(); } while (!ready_);
        top_.s_awvalid = top_.s_wvalid = 0;
        return cycle_ - 1;
    }

    // Start a run, `phase` cycles after the controller has left its reset: 0, or at least 2, which a write takes.
    uint64_t start(uint32_t offset, uint32_t value) {
        if (phase_ >= WRITE_CYCLES) {
            top_.controller_reset = 0;
            for (uint32_t idle = WRITE_CYCLES; idle < phase_; ++idle) tick();
        }
        const uint64_t written = write(offset, value);
        top_.controller_reset = 0;
        return written;
    }

    uint64_t cycle() const { return cycle_; }

    // Copy between an image, which begins at address 0, and the SDRAM.
    void copy(uint8_t* image, uint64_t bytes, bool store) {
        auto& root = *top_.rootp;
        for (uint64_t word = 0; word * WORD_BYTES < bytes; ++word) {
            const uint64_t place = word >> (COLUMN_BITS + 2) << COLUMN_BITS | (word & ((1 << COLUMN_BITS) - 1));
            SData* cells[BANKS] = {&root.bench__DOT__memory__DOT__mem[place], &root.bench__DOT__memory__DOT__mem_1[place],
                                   &root.bench__DOT__memory__DOT__mem_2[place], &root.bench__DOT__memory__DOT__mem_3[place]};
            SData& cell = *cells[word >> COLUMN_BITS & 3];
            if (store) std::memcpy(&cell, image + word * WORD_BYTES, WORD_BYTES);
            else std::memcpy(image + word * WORD_BYTES, &cell, WORD_BYTES);
        }
    }

    // Take a DRAM image; the controller stays in reset until the next run starts.
    void attach(uint8_t* image, uint64_t bytes) {
        image_ = image, bytes_ = bytes;
        copy(image, bytes, true);
        top_.controller_reset = 1;
        tick(), tick();
    }
    void detach() { copy(image_, bytes_, false); }

  private:
    VerilatedContext context_;
    Vtop top_{&context_};
    uint64_t cycle_ = 0, bytes_ = 0;
    uint8_t* image_ = nullptr;
    uint32_t phase_, value_ = 0;
    bool ready_ = false, valid_ = false;
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT System* system_create(uint32_t phase) { return new System(phase); }
EXPORT void system_destroy(System* system) { delete system; }
EXPORT void system_attach(System* system, uint8_t* image, uint64_t bytes) { system->attach(image, bytes); }
EXPORT void system_detach(System* system) { system->detach(); }
EXPORT uint32_t system_read(System* system, uint32_t offset) { return system->read(offset); }
EXPORT void system_write(System* system, uint32_t offset, uint32_t value) { system->write(offset, value); }
EXPORT void system_start(System* system, uint32_t offset, uint32_t value) { system->start(offset, value); }

// Read the register at `offset` until it has a bit of `mask`, `reads` times at most; tell whether it had one.
EXPORT bool system_poll(System* system, uint32_t offset, uint32_t mask, uint64_t reads) {
    while (reads--)
        if (system->read(offset) & mask) return true;
    return false;
}
