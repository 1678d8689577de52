// The reference memory, as hw/spec/memory.py words it, in front of a Verilated core.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

// Ways in which a core can break the memory port's contract; `protocol()` returns those that were seen.
enum Protocol : uint32_t {
    ADDRESS_BETWEEN_BEATS = 1 << 0,
    BURST_LENGTH = 1 << 1,
    BURST_CROSSES_BOUNDARY = 1 << 2,
    LAST_MISPLACED = 1 << 3,
    REQUEST_WITHDRAWN = 1 << 4,
};

struct Request {
    uint64_t address;
    uint64_t first_data;  // cycle from which a read offers data
    uint32_t beats;       // still to come
    bool write;
};

// A ring of requests in order of acceptance.
class RequestQueue {
  public:
    explicit RequestQueue(uint32_t depth) : requests_(depth) {}
    bool empty() const { return count_ == 0; }
    bool full() const { return count_ == requests_.size(); }
    Request& oldest() { return requests_[first_]; }
    const Request& oldest() const { return requests_[first_]; }
    void clear() { count_ = 0; }

    void push(const Request& request) {
        size_t place = first_ + count_++;
        requests_[place < requests_.size() ? place : place - requests_.size()] = request;
    }

    void pop() {
        first_ = first_ + 1 == requests_.size() ? 0 : first_ + 1;
        --count_;
    }

  private:
    std::vector<Request> requests_;
    size_t first_ = 0;
    size_t count_ = 0;
};

// The DRAM image, owned by the caller. Bytes outside it read as zero and are not written.
class Image {
  public:
    void attach(uint8_t* bytes, uint64_t size) { bytes_ = bytes, size_ = size; }

    // Read one beat; false when no byte of it is in the image.
    template <unsigned Bytes>
    bool read(uint64_t address, void* beat) const {
        if (address < size_ && size_ - address >= Bytes) {
            std::memcpy(beat, bytes_ + address, Bytes);
            return true;
        }
        std::memset(beat, 0, Bytes);
        if (address >= size_) return false;
        std::memcpy(beat, bytes_ + address, size_ - address);
        return true;
    }

    // Write the bytes of a beat whose strobe bit is set; false when one of them is outside the image.
    template <unsigned Bytes>
    bool write(uint64_t address, const void* beat, uint64_t strobe) {
        constexpr uint64_t all = Bytes == 64 ? ~uint64_t{0} : (uint64_t{1} << (Bytes % 64)) - 1;
        if (strobe == all && address < size_ && size_ - address >= Bytes) {
            std::memcpy(bytes_ + address, beat, Bytes);
            return true;
        }
        bool inside = true;
        for (unsigned lane = 0; lane < Bytes; ++lane) {
            if (!(strobe >> lane & 1)) continue;
            if (address < size_ && lane < size_ - address)
                bytes_[address + lane] = static_cast<const uint8_t*>(beat)[lane];
            else
                inside = false;
        }
        return inside;
    }

  private:
    uint8_t* bytes_ = nullptr;
    uint64_t size_ = 0;
};

// Everything memory offers in a cycle follows from its state, so a cycle is `drive`, settle, `step`.
// `error` pulses in the cycle after a beat that was outside the image.
template <unsigned BusBytes, unsigned BurstBytes>
class ReferenceMemory {
  public:
    ReferenceMemory(uint32_t latency, uint32_t depth, uint32_t cycles_per_beat)
        : latency_(latency), cycles_per_beat_(cycles_per_beat), queue_(depth) {}

    // Give DRAM for the next run; the data path is free at its start.
    void attach(uint8_t* bytes, uint64_t size) {
        image_.attach(bytes, size);
        next_beat_ = 0;
    }
    uint64_t last_transfer() const { return last_transfer_; }
    uint32_t protocol() const { return protocol_; }

    void clear() {
        queue_.clear();
        next_beat_ = 0;
        write_done_ = error_ = waiting_ = false;
        protocol_ = 0;
    }

    // Set the core's inputs for `cycle`.
    template <class Top>
    void drive(Top& top, uint64_t cycle) {
        const bool any = !queue_.empty();
        const bool writing = any && queue_.oldest().write;
        const bool free = cycle >= next_beat_;
        top.request_ready = !queue_.full();
        top.write_ready = writing && free;
        top.read_valid = any && !writing && free && cycle >= queue_.oldest().first_data;
        if (top.read_valid) inside_ = image_.template read<BusBytes>(queue_.oldest().address, &top.read_data);
        top.write_done = write_done_;
        top.memory_error = error_;
    }

    // Take what the core and memory transfer in `cycle`, once all signals have settled.
    template <class Top>
    void step(const Top& top, uint64_t cycle) {
        write_done_ = error_ = false;
        const bool accepted = top.request_valid && top.request_ready;
        if (top.write_ready && top.write_valid)
            write_beat(top, cycle);
        else if (top.read_valid && top.read_ready)
            end_beat(inside_, cycle);
        if (waiting_ && !top.request_valid) protocol_ |= REQUEST_WITHDRAWN;
        waiting_ = top.request_valid && !accepted;
        if (accepted) accept(top, cycle);
    }

  private:
    template <class Top>
    void write_beat(const Top& top, uint64_t cycle) {
        const Request& request = queue_.oldest();
        const bool last = request.beats == 1;
        if (last != static_cast<bool>(top.write_last)) protocol_ |= LAST_MISPLACED;
        const bool inside = image_.template write<BusBytes>(request.address, &top.write_data, top.write_strobe);
        end_beat(inside, cycle);
        write_done_ = last;
    }

    void end_beat(bool inside, uint64_t cycle) {
        error_ = !inside;
        last_transfer_ = cycle;
        next_beat_ = cycle + cycles_per_beat_;
        Request& request = queue_.oldest();
        request.address += BusBytes;
        if (--request.beats == 0) queue_.pop();
    }

    template <class Top>
    void accept(const Top& top, uint64_t cycle) {
        const uint64_t address = top.request_address, beats = top.request_beats;
        if (address % BusBytes) protocol_ |= ADDRESS_BETWEEN_BEATS;
        if (beats == 0) protocol_ |= BURST_LENGTH;
        if (address % BurstBytes + beats * BusBytes > BurstBytes) protocol_ |= BURST_CROSSES_BOUNDARY;
        queue_.push({address, cycle + latency_, std::max<uint32_t>(beats, 1), static_cast<bool>(top.request_write)});
        last_transfer_ = cycle;
    }

    uint64_t latency_;
    uint64_t cycles_per_beat_;
    RequestQueue queue_;
    Image image_;
    uint64_t last_transfer_ = 0;
    uint64_t next_beat_ = 0;  // cycle from which the data path is free
    uint32_t protocol_ = 0;
    bool inside_ = true, write_done_ = false, error_ = false, waiting_ = false;
};
