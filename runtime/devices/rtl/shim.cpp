// The clock, the register port and memory of a Verilated core, behind functions that ctypes can call.
// BUS_BYTES and BURST_BYTES come from the command line.

#include <cstring>
#include <memory>
#include <optional>

#include "Vtop.h"
#include "memory.hpp"
#include "recorder.hpp"
#include "sdram.hpp"
#include "verilated.h"

namespace {

class Model {
  public:
    Model(uint32_t latency, uint32_t depth, uint32_t cycles_per_beat) : memory_(latency, depth, cycles_per_beat) {
        begin();
    }
    explicit Model(const SdramTiming& timing) : memory_(1, 1, 1), sdram_(timing) { begin(); }
    ~Model() { top_.final(); }

    // Reset every register; scratchpads keep their contents.
    void reset() {
        clear();
        top_.rst = 1;
        tick();
        tick();
        top_.rst = 0;
        clear();
    }

    // Pass a cycle. It begins with the clock high, behind the edge that ended the cycle before.
    void tick() {
        if (sdram_) sdram_->drive(top_, cycle_);
        else memory_.drive(top_, cycle_);
        const bool recorded = recorder.wants(cycle_);
        if (recorded) {
            top_.eval();
            recorder.first_half(cycle_);
        }
        top_.clk = 0;
        top_.eval();
        if (recorded) recorder.second_half(cycle_);
        if (sdram_) sdram_->step(top_, cycle_);
        else memory_.step(top_, cycle_);
        top_.clk = 1;
        top_.eval();
        ++cycle_;
    }

    // Read a register, whose address is held for `cycles`.
    uint32_t read(uint32_t offset, uint32_t cycles) {
        top_.register_address = offset;
        for (uint32_t cycle = 0; cycle < cycles; ++cycle) tick();
        return top_.register_read_data;
    }

    // Write a register; return the cycle in which that was done.
    uint64_t write(uint32_t offset, uint32_t value) {
        top_.register_address = offset;
        top_.register_write_data = value;
        top_.register_write = 1;
        tick();
        top_.register_write = 0;
        return cycle_ - 1;
    }

    // Step until the register at `offset` has a bit of `mask`, for at most `cycles`; tell whether it had.
    bool poll(uint32_t offset, uint32_t mask, uint64_t cycles) {
        for (uint64_t step = 0; step < cycles; ++step)
            if (read(offset, 1) & mask) return true;
        return false;
    }

    uint64_t cycle() const { return cycle_; }
    uint64_t last_transfer() const { return sdram_ ? sdram_->last_transfer() : memory_.last_transfer(); }
    uint32_t protocol() const { return sdram_ ? sdram_->protocol() : memory_.protocol(); }

    void attach(uint8_t* image, uint64_t bytes) {
        if (sdram_) sdram_->attach(image, bytes);
        else memory_.attach(image, bytes);
    }

    // Let the next cycle be the first of a run for an SDRAM, whose refreshes are counted from there.
    void restart() {
        if (sdram_) sdram_->restart();
    }

  private:
    void begin() {
        context_.traceEverOn(TRACE != 0);
        reset();
    }

    void clear() {
        if (sdram_) sdram_->clear();
        else memory_.clear();
    }

    ReferenceMemory<BUS_BYTES, BURST_BYTES> memory_;
    std::optional<SdramMemory<BUS_BYTES, BURST_BYTES>> sdram_;
    VerilatedContext context_;
    Vtop top_{&context_};
    uint64_t cycle_ = 0;

  public:
    Recorder recorder{top_};
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT Model* model_create(uint32_t latency, uint32_t depth, uint32_t cycles_per_beat) {
    return new Model(latency, depth, cycles_per_beat);
}
EXPORT Model* model_create_sdram(const int64_t* timing) {
    SdramTiming given;
    std::memcpy(&given, timing, sizeof given);
    return new Model(given);
}
EXPORT void model_restart(Model* model) { model->restart(); }
EXPORT void model_destroy(Model* model) { delete model; }
EXPORT void model_attach(Model* model, uint8_t* image, uint64_t bytes) { model->attach(image, bytes); }
EXPORT void model_reset(Model* model) { model->reset(); }
EXPORT uint32_t model_read(Model* model, uint32_t offset, uint32_t cycles) {
    return model->read(offset, cycles);
}
EXPORT uint64_t model_write(Model* model, uint32_t offset, uint32_t value) { return model->write(offset, value); }
EXPORT bool model_poll(Model* model, uint32_t offset, uint32_t mask, uint64_t cycles) {
    return model->poll(offset, mask, cycles);
}
EXPORT uint64_t model_cycle(const Model* model) { return model->cycle(); }
EXPORT uint64_t model_last_transfer(const Model* model) { return model->last_transfer(); }
EXPORT uint32_t model_protocol(const Model* model) { return model->protocol(); }
EXPORT bool model_record(Model* model, const char* path, uint64_t first, uint64_t last) {
    return model->recorder.open(path, model->cycle(), first, last);
}
EXPORT int64_t model_recorded(Model* model) { return model->recorder.close(); }
