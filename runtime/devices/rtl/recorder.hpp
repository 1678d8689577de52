// Waveforms of some cycles of a run, where the model was built to write them.
// TRACE comes from the command line: 0 none, 1 VCD, 2 FST.
#pragma once

#include <cerrno>
#include <cstdint>
#include <memory>

#include "Vtop.h"
#include "verilated.h"
#if TRACE == 1
#include "verilated_vcd_c.h"
#elif TRACE == 2
#include "verilated_fst_c.h"
#endif

constexpr uint64_t TIME_PER_CYCLE = 10;

#if TRACE == 1
// Remembers that the disk took less than it was given, where Verilator's own file ends the process.
class RememberingFile final : public VerilatedVcdFile {
  public:
    int error = 0;

    ssize_t write(const char* bytes, ssize_t size) override {
        if (error) return size;
        const ssize_t written = VerilatedVcdFile::write(bytes, size);
        if (written >= 0) return written;
        if (errno == EAGAIN || errno == EINTR) return 0;
        error = errno;
        return size;
    }
};
#endif

// Cycle 0 of a waveform is that in which `open` was called; cycle t takes the times from 10 t to 10 t + 9.
class Recorder {
  public:
#if TRACE
    explicit Recorder(Vtop& top) : top_(top) {}
    ~Recorder() { close(); }

    // Write cycles `first` to `last` to a file; whether it could be opened.
    bool open(const char* path, uint64_t now, uint64_t first, uint64_t last) {
        close();
        start_ = now, first_ = first, last_ = last, recorded_ = 0;
        file_ = made();
        top_.trace(file_.get(), 99);
        file_->set_time_unit("1ns");
        file_->set_time_resolution("1ns");
        file_->open(path);
        return file_->isOpen();
    }
    bool wants(uint64_t now) const { return file_ && now - start_ >= first_ && now - start_ <= last_; }
    void first_half(uint64_t now) { file_->dump((now - start_) * TIME_PER_CYCLE), ++recorded_; }
    void second_half(uint64_t now) { file_->dump((now - start_) * TIME_PER_CYCLE + TIME_PER_CYCLE / 2); }

    // Complete the file; return the cycles in it, or minus the number of the error in writing it.
    int64_t close() {
        if (file_) file_->close();
        file_.reset();
#if TRACE == 1
        if (disk_ && disk_->error) return -disk_->error;
#endif
        return static_cast<int64_t>(recorded_);
    }

  private:
#if TRACE == 1
    std::unique_ptr<RememberingFile> disk_;
    std::unique_ptr<VerilatedVcdC> file_;
    std::unique_ptr<VerilatedVcdC> made() {
        disk_ = std::make_unique<RememberingFile>();
        return std::make_unique<VerilatedVcdC>(disk_.get());
    }
#else
    std::unique_ptr<VerilatedFstC> file_;
    static std::unique_ptr<VerilatedFstC> made() { return std::make_unique<VerilatedFstC>(); }
#endif
    Vtop& top_;
    uint64_t start_ = 0, first_ = 0, last_ = 0, recorded_ = 0;
#else
    explicit Recorder(Vtop&) {}
    bool open(const char*, uint64_t, uint64_t, uint64_t) { return false; }
    bool wants(uint64_t) const { return false; }
    void first_half(uint64_t) {}
    void second_half(uint64_t) {}
    int64_t close() { return 0; }
#endif
};
